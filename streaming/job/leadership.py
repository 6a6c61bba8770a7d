"""Which of several jobs leads: Kafka's group decides, the lock on the checkpoints enforces it.

Each candidate is a member of one consumer group over a topic of one partition, from when it could
lead at once: whose that partition is, leads. The group finds out who is silent. It does not keep a
silent leader from writing, and the lock does: a leader holds it for as long as its processes live,
and whom the group chose instead kills them before it takes it. A leader that died has freed it at
that moment; so a candidate on its machine tells the group, which need not wait for its session.

A lock reaches no other machine. Where checkpoints are at a URL, each leader has a lease too: its
JVM ends by itself (kernel/Lease.java) before the group's session does, unless the group has
confirmed meanwhile that it leads.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from bus.base import BusError, ConsumerMember, GroupBus, TopicPartition
from config import leadership as records
from config.leadership import Leader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("streaming.job.leadership")

# A leader of which the group hears nothing for so long is put out, and one that hears nothing of
# the group for so long lets go. No shorter: brokers take no less unless they are told to.
SESSION_S = 6.0
HEARTBEAT_S = 0.1
# How often a leader asks who else is there.
CHECK_S = 0.5
# How often a leader with a lease has the group confirm it.
CONFIRM_S = 0.5
ROUND_S = 0.05
ANSWER_S = 2.0


class Lock(Protocol):
    """What keeps all but one process from writing: streaming.job.leader_lock.LeaderLock."""

    def free(self) -> bool:
        """Return whether no other driver holds it."""

    def take(self) -> bool:
        """Lock it. Return whether no other process holds any part of it."""

    def release(self) -> None:
        """Free it."""

    def end_orphan(self) -> bool:
        """Kill what a dead driver has left running. Return whether there was anything."""

    def fence(self, leader: Leader) -> bool:
        """Kill a leader that holds it; return whether there was one."""


class Leadership:
    """One candidate. `lost` is called, once, when it leads no longer: it must end all writing."""

    def __init__(
        self,
        bus: GroupBus,
        topics: tuple[str, str],
        lock: Lock,
        own: tuple[Leader, Path],
        lost: Callable[[str], None],
        clock: Callable[[], float],
        now_ms: Callable[[], int],
        *,
        leased: bool = False,
    ) -> None:
        """topics: the group, and the topic of one partition; own: this process, and the file that
        says who leads; clock: in s; now_ms: the wall clock, Unix ms; leased: whether the JVM is to
        end by itself where the group confirms no more that this process leads."""
        self._bus, (self._group, self._topic) = bus, topics
        self._lock, (self._own, self._file) = lock, own
        self._lost, self._clock, self._now_ms = lost, clock, now_ms
        self._member: ConsumerMember | None = None
        self._assigned, self._leaving = False, False
        self._next_check = 0.0
        self._buried = ""
        self._leased, self._next_confirmation = leased, 0.0
        self._lease: Any = None
        self._confirmed = threading.Condition()
        self._confirmed_at = -math.inf
        self._writing = threading.Lock()
        self.leads = threading.Event()
        """Set once this candidate leads."""

    # ---- what the group says --------------------------------------------------------------------

    def assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """Be the one that the group has chosen."""
        self._assigned = bool(partitions) or self._assigned

    def revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """Be chosen no longer."""
        if partitions:
            self._assigned = False
            self._let_go("the group has put this process out")

    def confirmed(self, asked_at: float) -> None:
        """Prolong the lease. Without one the client's own heartbeats show when a place is lost."""
        with self._confirmed:
            self._confirmed_at = asked_at
            self._confirmed.notify_all()
            if self._lease is not None:
                with suppress(Exception):  # a JVM that is gone needs none
                    self._lease.renew(self._left_ms())

    def _left_ms(self) -> int:
        left_s = self._confirmed_at + SESSION_S - self._clock()
        return int(max(0.0, left_s) * 1000)

    def lease_to(self, spark: SparkSession) -> None:
        """Have Spark's JVM end where the group does not confirm in time that this process leads.

        Nothing that a driver writes to a shared storage goes past its JVM, so from then on it
        writes nothing: the group chooses no other leader before. Without a lease this does nothing.
        """
        if not self._leased:
            return
        with self._confirmed:
            self._confirmed.wait_for(lambda: self._left_ms() > 0)
            jvm: Any = spark._jvm  # noqa: SLF001
            self._lease = jvm.tallyboard.kernel.Lease.begin(self._left_ms())

    def end_lease(self) -> None:
        """Prolong the lease no more: the JVM is about to end."""
        with self._confirmed:
            self._lease = None

    # ---- turns ----------------------------------------------------------------------------------

    def run(self, stop: threading.Event) -> None:
        """Follow the group until `stop` is set, also through the loss of a broker."""
        while not stop.is_set():
            try:
                self.turn(ROUND_S)
            except BusError as error:
                log.debug("the group does not answer: %s", error)
                stop.wait(ROUND_S)

    def turn(self, timeout_s: float) -> None:
        """Keep the place in the group, and do what follows from it. Raises BusError."""
        self._poll(timeout_s)
        if self._leased and self._assigned:
            self._confirm()
        if self.leads.is_set():
            self._look()
        elif self._assigned:
            self._claim()
        else:
            self._bury()

    def leave(self) -> None:
        """Leave the group, so that another leads at once. Only who writes no more may."""
        self._leaving = True
        if self.leads.is_set():
            self.record(running=0, standby=0)
        self._lock.release()  # else who comes next would take this process for one that hangs
        if self._member is not None:
            self._member.close()
            self._member = None

    def _poll(self, timeout_s: float) -> None:
        if self._member is None:
            self._member = self._bus.member(
                self._group,
                self._topic,
                self._own.name,
                self,
                session_s=SESSION_S,
                clock=self._clock,
                heartbeat_s=HEARTBEAT_S,
            )
        self._member.poll(timeout_s)

    def _confirm(self) -> None:
        """Have the group say at intervals whether this process is still the one it has chosen."""
        now = self._clock()
        if self._member is not None and now >= self._next_confirmation:
            self._next_confirmation = now + CONFIRM_S
            self._member.confirm({(self._topic, 0): 0})

    def _look(self) -> None:
        """Record at intervals since when another process is ready."""
        now = self._clock()
        if now < self._next_check:
            return
        self._next_check = now + CHECK_S
        others = self._others()
        since = (self._own.standby or self._now_ms()) if others else 0
        if since != self._own.standby:
            log.info("a standby is ready" if since else "no standby is ready")
            self.record(standby=since)

    def _others(self) -> set[str]:
        members = self._bus.members(self._group, ANSWER_S)
        return {member.name for member in members} - {self._own.name}

    def _claim(self) -> None:
        """Lock the checkpoints as the chosen leader, in place of the one before."""
        if self._lock.take():
            self.record(since=self._now_ms())
            log.info("this process leads")
            self.leads.set()
        elif self._lock.free():
            self._lock.end_orphan()
        else:
            leader = records.read(self._file)
            if leader.name and leader.name not in self._others():
                self._lock.fence(leader)

    def _bury(self) -> None:
        """Remove a dead leader from the group."""
        if not self._lock.free():
            self._buried = ""
            return
        leader = records.read(self._file)
        if self._leased and leader.boot != self._own.boot:
            return  # on another machine: no lock says whether it is dead
        dead = leader.name
        if dead and dead not in (self._own.name, self._buried):
            dismissed = self._bus.dismiss(self._group, dead, ANSWER_S)
            self._buried = dead
            log.info("the leader is dead%s", "" if dismissed else ", as the group knew")

    def _let_go(self, why: str) -> None:
        if self.leads.is_set() and not self._leaving:
            self._leaving = True
            self._lost(why)

    # ---- what it tells --------------------------------------------------------------------------

    @property
    def standby(self) -> int:
        """Return since when another process is ready to take over, Unix ms; 0: none is."""
        return self._own.standby

    @property
    def running(self) -> int:
        """Since when this leader's queries run, Unix ms; 0 before that."""
        return self._own.running

    def record(
        self,
        *,
        since: int | None = None,
        running: int | None = None,
        jvm: int | None = None,
        standby: int | None = None,
    ) -> None:
        """Write the state of this leader to its file. A failure is logged alone."""
        given = {"since": since, "running": running, "jvm": jvm, "standby": standby}
        changes = {name: value for name, value in given.items() if value is not None}
        with self._writing:
            self._own = replace(self._own, **changes)  # type: ignore[arg-type]
            try:
                records.write(self._file, self._own)
            except OSError as error:
                log.warning("%s is not written: %s", self._file, error)
