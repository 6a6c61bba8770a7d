"""The job as a process: alone, or as the leader or the standby of two.

What imports PySpark is imported where it is used: the JVM starts meanwhile.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, NoReturn

from bus.base import AccessRefused, BusError, TopicSpec, Unavailable
from bus.kafka import KafkaBus
from config import leadership as records
from config.jobs import process_of
from config.leadership import Leader, boot_id
from config.settings import STATE_PARTITIONS, Settings
from streaming.fold.assignment import (
    EngineAssignment,
    Shares,
    assign_engines,
    most_slots,
    shared_out,
    slots,
)
from streaming.fold.progress import ProgressReporter
from streaming.fold.rules import Book, own_book
from streaming.fold.workload import now_ms
from streaming.job.leader_lock import JVM, LeaderLock, LockHeld
from streaming.job.leadership import Leadership
from streaming.job.state_partitions import most_state_partitions
from streaming.spark.jvm import JvmLost, end_spark, jvm_process
from streaming.spark.restart_policy import first_line, judge
from streaming.spark.session import scratch_of, start_session
from streaming.state.hadoop import checkpoints_of
from streaming.state.identity import ForeignCheckpoint, check, read_identity
from streaming.state.storage import LocalPath, StoragePath
from wire.keys import KeyFile, KeysProblem
from wire.topics import Topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from streaming.job.driver import Driver

log = logging.getLogger("streaming.job.launch")

LOOK_S = 0.02
# Slots for partitions that somebody adds to a source topic; one at rest costs nothing.
SPARE = 16
# How long Kafka is not asked again where it has refused.
REFUSED_S = 2.0
# How long Kafka may take to say which cluster it is, while nothing waits for that.
ANSWER_S = 2.0
# How often a storage that does not answer is tried again.
STORAGE_S = 5.0
# How long a process waits for the one before it, of the same role, to end.
PATIENCE_S = 10.0
# How a process ends that leads no longer.
PUT_OUT = 3


class Job:
    """One process of the job. role: its name among the processes."""

    def __init__(
        self,
        settings: Settings,
        lock: LeaderLock,
        stop: threading.Event,
        role: str,
        beat: Callable[[], None],
    ) -> None:
        self._settings, self._lock, self._stop = settings, lock, stop
        self._role, self._beat = role, beat
        self._home: StoragePath = LocalPath(settings.checkpoint_dir)
        self._place = LeaderLock(scratch_of(settings, self._scratch))
        self._bus = KafkaBus(settings.kafka_options())
        self._topics = Topics(settings.topic_prefix)
        self._room = self._divided = 0

    def start_spark(self) -> SparkSession:
        """Start Spark with room for what the settings lead to.

        Raises ScenarioError, VersionProblem, KernelProblem and JvmLost, and Held where another
        process has the same role: they would delete each other's files.
        """
        if not self._await(self._place):
            raise LockHeld("another one runs in the same data directory")
        self._room = self._slots()
        if not self._settings.one_machine:
            with suppress(KeysProblem):  # the driver says so, and waits
                KeyFile(self._settings.command_keys_file).made()  # executors look for it at once
        return start_session(self._settings, self._room + SPARE, role=self._scratch)

    def _slots(self) -> int:
        """Return how many tasks are to run at once. What is kept at a URL says so only later."""
        settings, rules = self._settings, own_book(self._settings).rules
        if settings.checkpoint is not None:
            divided = settings.state_partitions or max(STATE_PARTITIONS.values())
            return most_slots(settings.engine, rules, settings.effective_trigger, divided)
        return self._needed(shared_out(settings.engine, rules, self._home))

    def _needed(self, shares: Shares) -> int:
        """Return how many tasks run at once, with what the checkpoints say of themselves."""
        self._divided = most_state_partitions(self._settings, self._home, shares)
        return slots(shares, self._settings.effective_trigger, self._divided)

    @property
    def _scratch(self) -> str:
        """The name of the folder where Spark keeps what it needs; empty for the job's own."""
        return "" if self._role == "job" else self._role

    # ---- alone ----------------------------------------------------------------------------------

    def run_alone(self, spark: SparkSession) -> None:
        """Run the queries until `stop` is set. Raises JvmLost, Held and ScenarioError."""
        from streaming.spark.run_loop import run_all

        try:
            if not self._await(self._lock):
                raise LockHeld("another job works on the same checkpoints")
            self._lock.bind(spark)
            own = Leader(role=self._role, boot=boot_id(), driver=os.getpid(), since=now_ms())
            records.write(records.file_of(self._settings.checkpoint_dir), own)
            run_all(self._drivers(spark), self._stop, self._beat)
        finally:
            end_spark(spark)

    def _await(self, lock: LeaderLock) -> bool:
        """Wait for a lock. Return False if that takes too long.

        Ends what an earlier process has left running.
        """
        deadline = time.monotonic() + PATIENCE_S
        while not lock.take():
            if lock.free():
                lock.end_orphan()
            if time.monotonic() > deadline or self._stop.wait(LOOK_S):
                return False
        return True

    def _drivers(self, spark: SparkSession) -> list[Driver]:
        """Return a driver for each engine: now that nobody else writes, also on the disk.

        Raises ScenarioError, and JvmLost where Spark was started with too little room.
        """
        from streaming.job.driver import Driver

        settings = self._settings
        book = own_book(settings)
        shares = self._shares(book)
        needed = self._needed(shares)
        if needed > self._room and not settings.spark_master:
            raise JvmLost(f"{needed} tasks are to run at once, and {self._room} can")
        own = None if settings.spark_master else self._room  # another master may have more room
        sharing = EngineAssignment(
            settings.engine, settings.effective_trigger, self._home, shares, own, self._divided
        )
        return [
            Driver(settings, sharing, self._bus, spark, self._stop, engine, book)
            for engine in shares
        ]

    def _shares(self, book: Book) -> Shares:
        """Return the scenarios of each engine; nothing is begun in checkpoints of another log."""
        given = self._settings.engine, book.rules, self._home
        return shared_out(*given) if self._foreign() else assign_engines(*given)

    def _foreign(self) -> bool:
        """Return whether the checkpoints are known to be another log's. Raises OSError."""
        prefix = self._settings.topic_prefix
        try:
            if (identity := read_identity(self._home)) is not None:
                check(self._home, identity, self._bus.cluster_id(ANSWER_S), prefix)
        except ForeignCheckpoint:
            return True
        except BusError:  # the planner asks again
            return identity is not None and identity.prefix != prefix
        return False

    # ---- one of two -----------------------------------------------------------------------------

    def run_as_candidate(self, spark: SparkSession, *, rehearsed: bool) -> None:
        """Stand by until this process leads, then run the queries, until `stop` is set.

        rehearsed: whether to rehearse first, as somebody else leads. Raises JvmLost, Held and
        ScenarioError.
        """
        over = threading.Event()
        leadership = self._candidacy(spark)
        turns = threading.Thread(target=self._turns, args=(leadership, spark, over), daemon=True)
        try:
            self._ensure_topic()
            if rehearsed:
                self._rehearse(spark)
            self._lock.stand_by()
            turns.start()
            if self._await_lead(leadership):
                self._lead(spark, leadership)
        finally:
            leadership.end_lease()
            end_spark(spark)
            over.set()
            if turns.is_alive():
                turns.join(2)
            leadership.leave()

    def _ensure_topic(self) -> None:
        """Return once there is the topic whose partition the leader has, or once it is to stop."""
        specs = {spec.name: TopicSpec(*spec) for spec in self._topics.specs(())}
        control, replication = specs[self._topics.control], self._settings.replication
        there = False
        while not there and not self._stop.is_set():
            self._beat()
            try:
                self._bus.ensure_topics([control], replication=replication, timeout_s=2)
                there = True
            except AccessRefused as refusal:
                log.warning("%s", refusal)
                self._stop.wait(REFUSED_S)
            except Unavailable as error:
                log.debug("Kafka is not ready: %s", error)

    def _rehearse(self, spark: SparkSession) -> None:
        from streaming.job.warm_up import WarmUp

        shares = shared_out(self._settings.engine, own_book(self._settings).rules, self._home)
        scratch = scratch_of(self._settings, self._scratch) / "rehearsal"
        with suppress(OSError):  # then it rehearses without rules, and says so
            self._home = checkpoints_of(self._settings, spark)

        def enough() -> bool:
            self._beat()
            return self._stop.is_set() or self._lock.free()

        WarmUp(self._settings, self._bus, spark, shares, self._home, scratch).run(enough)

    def _candidacy(self, spark: SparkSession) -> Leadership:
        name = f"{process_of(self._settings.job)}-{socket.gethostname()}-{os.getpid()}-{now_ms()}"
        own = Leader(name=name, role=self._role, boot=boot_id(), driver=os.getpid())
        return Leadership(
            self._bus,
            (self._topics.leader_group_of(self._settings.job), self._topics.control),
            self._lock,
            (own, records.file_of(self._settings.checkpoint_dir)),
            partial(end_at_once, spark),
            time.monotonic,
            now_ms,
            leased=self._settings.checkpoint is not None,
        )

    @staticmethod
    def _turns(leadership: Leadership, spark: SparkSession, over: threading.Event) -> None:
        """Follow the group until the end; end this process if that fails."""
        try:
            leadership.run(over)
        except Exception:
            log.exception("the watch over who leads has failed")
        if not over.is_set():
            end_at_once(spark, "nobody watches who leads")

    def _await_lead(self, leadership: Leadership) -> bool:
        """Return once this process leads, or False once it is to stop."""
        log.info("standing by")
        while not leadership.leads.wait(LOOK_S):
            self._beat()
            if self._stop.is_set():
                return False
        return True

    def _lead(self, spark: SparkSession, leadership: Leadership) -> None:
        from streaming.spark.run_loop import run_all

        self._lock.bind(spark)
        leadership.record(jvm=self._lock.holder(JVM))
        leadership.lease_to(spark)
        if not self._await_storage(spark):
            return
        drivers = self._drivers(spark)

        def beat() -> None:
            self._beat()
            if not leadership.running and all(driver.running for driver in drivers):
                leadership.record(running=now_ms())
            for driver in drivers:
                driver.stands_by(leadership.standby)

        run_all(drivers, self._stop, beat)

    def _await_storage(self, spark: SparkSession) -> bool:
        """Return once the checkpoints' storage answers, or False once this process is to stop."""
        reported = ""
        while not self._stop.is_set():
            self._beat()
            try:
                self._home = checkpoints_of(self._settings, spark)
                self._home.names()
            except OSError as error:
                if (why := first_line(str(error))) != reported:
                    self._report_waiting(str(error))
                    reported = why
                self._stop.wait(STORAGE_S)
            else:
                return True
        return False

    def _report_waiting(self, why: str) -> None:
        """Report that the checkpoints cannot be reached, on the job's page too."""
        topic, engine = self._topics.progress, self._settings.engine
        report = ProgressReporter(self._bus, topic, engine, now_ms)
        advice = judge(why).advice or "the storage of the checkpoints does not answer"
        report.status("waiting", f"{advice} ({first_line(why)})")
        report.close()


def end_at_once(spark: SparkSession, why: str) -> NoReturn:
    """Kill the JVM, so that it commits nothing more, and end this process."""
    process = jvm_process(spark)
    if process is not None:
        with suppress(OSError):
            process.kill()
    log.warning("%s: it ends at once", why)
    os._exit(PUT_OUT)
