"""A store server: its place in the group, its share of a scenario's assets, its answers."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Collection, Mapping, Sequence
from threading import Event, Thread

import structlog

from bus.base import BusError, ConsumerMember, GroupBus, TopicPartition
from bus.follower import Follower
from stores.base import AssetTable, Many, NotReady, One, StoreProblem, current, oldest
from stores.directory import Directory, standby_for
from stores.feed import TableFeed
from stores.owner_store import OwnerStore, ServerHealth
from stores.ownership import Ownership, boot_clock
from stores.transformation import Transformation
from wire.partitioner import partition_of

log = structlog.get_logger(__name__)

SESSION_S = 6.0
"""After this long without a heartbeat, a server's partitions go to others; Kafka's minimum."""
ROUND_S = 0.1
LEASE_S = 1.0
"""How often the lease is extended and the standby share is looked up."""
START_S = 60.0
"""How long a starting server waits for Kafka to answer for its group."""
STANDBYS = 1
PAUSES_S = (0.2, 1.0, 2.0)
"""Pauses before joining the group again, s, indexed by the number of earlier attempts."""


class NotOwner(NotReady):
    """Another server answers for this, or nobody does at the moment."""

    reason = "not-owner"


class Taken(Exception):
    """Another server announces the same address."""


class StoreServer:
    """One server of a scenario's group. address: where it answers, unique among them."""

    def __init__(
        self,
        bus: GroupBus,
        directory: Directory,
        table: AssetTable,
        address: str,
        others: OwnerStore,
        kept: Transformation,
        *,
        keeps: str,
        session_s: float = SESSION_S,
        standbys: int = STANDBYS,
    ) -> None:
        """others: queries the owners of what this server does not own; keeps: kind of table."""
        self.address, self.others, self.kept = address, others, kept
        self._name = directory.announcement(address)
        self.instance = f"{address} ({socket.gethostname()}, process {os.getpid()})"
        self._bus, self._directory, self._table = bus, directory, table
        self._keeps, self._session_s, self._standbys = keeps, session_s, standbys
        self.ownership = Ownership(session_s)
        self.feed = TableFeed(bus, directory.topic, table, kept, partitions=())
        self._standby: frozenset[int] = frozenset()
        self._stop = Event()
        self._follower = Follower(self.feed, self._stop)
        self._member: Thread | None = None

    def start(self) -> None:
        """Join the group and start reading, each in a new thread. Raises Taken, StoreProblem."""
        self._await_address()
        self._follower.start()
        self._member = Thread(target=self._take_part, name="member", daemon=True)
        self._member.start()

    def stop(self) -> None:
        """Leave the group, so that others take over at once."""
        self._stop.set()
        if self._member is not None:
            self._member.join(5)
        self._follower.stop(5)

    # ---- answers ----

    def get(self, key: str) -> One:
        """Return an asset that this server owns. Raises NotOwner, NotReady."""
        partition = self._partition_of(key)
        as_of = oldest(self._table.as_of(), [partition])
        asset = self._table.get(partition, key)
        self._check([partition])  # after reading the asset, see `stores.ownership`
        return One(asset, self.address, current(as_of), as_of)

    def all(self, partitions: Collection[int], after: str, limit: int) -> Many:
        """Return the first active assets of these partitions. Raises NotOwner, NotReady."""
        many = self._many(partitions, after, limit)
        self._check(partitions)
        return many

    def local_get(self, key: str) -> One:
        """Return an asset as this server alone knows it. Raises NotReady."""
        partition, own = self._partition_of(key), self._own()
        if partition not in own:
            return One(None, self.address, complete=False)
        as_of = oldest(self._table.as_of(), [partition])
        return One(self._table.get(partition, key), self.address, current(as_of), as_of)

    def local_all(self, after: str, limit: int) -> Many:
        """Return what this server alone has. Raises NotReady."""
        own, everything = self._own(), self.feed.partitions()
        many = self._many(own, after, limit)
        return many._replace(complete=many.complete and len(own) == everything > 0)

    def health(self, refused: Mapping[str, int]) -> ServerHealth:
        """Return the health of this server. refused: requests refused at its address, by reason."""
        own = self._own()
        return ServerHealth(
            scenario=self.kept.scenario,
            instance=self.instance,
            address=self.address,
            partitions=sorted(own),
            standby=sorted(self._standby & self._table.level()),
            ready=own == self.ownership.assigned(),
            records=self._table.count(own),
            lag=self.feed.lag(own),
            keeps=self._keeps,
            refused=dict(refused),
        )

    def _many(self, partitions: Collection[int], after: str, limit: int) -> Many:
        as_of, positions = oldest(self._table.as_of(), partitions), self._table.positions()
        return Many(
            self._table.active(partitions, after, limit),
            self._table.count(partitions),
            {at: positions[at] for at in partitions if at in positions},
            self.address,
            current(as_of),
            as_of,
        )

    def _partition_of(self, key: str) -> int:
        return partition_of(key.encode(), self._directory.partitions())

    def _own(self) -> frozenset[int]:
        """Return the partitions this server answers for: its own that are level with the log."""
        return self.ownership.owned() & self._table.level()

    def _check(self, partitions: Collection[int]) -> None:
        if not self.ownership.owned().issuperset(partitions):
            raise NotOwner("Another server answers for this, or nobody does just now.")
        if not self._own().issuperset(partitions):
            raise NotReady("This server still reads what it has just been assigned.")

    # ---- the group ----

    def assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """Read the new partitions up to the current end of the log, and answer for them then."""
        new = {at for _, at in partitions}
        log.info("assigned", partitions=sorted(new))
        self.feed.assign(self.ownership.assigned() | self._standby | new, anew=new)
        self.ownership.take(new)

    def revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """Stop answering for these. They are still read until the standby share is known."""
        gone = {at for _, at in partitions}
        self.ownership.give_up(gone)
        log.info("revoked", partitions=sorted(gone))

    def confirmed(self, asked_at: float) -> None:
        """Extend the time for which the server answers."""
        self.ownership.confirm(asked_at)

    def _take_part(self) -> None:
        """Stay a member until stopped, joining again if the group has expelled this server."""
        faults = 0
        while not self._stop.is_set():
            member = self._bus.member(
                self._directory.group,
                self._directory.topic,
                self._name,
                self,
                session_s=self._session_s,
                clock=boot_clock,
            )
            try:
                self._rounds(member)
            except BusError as error:
                log.warning("a store server joins anew", error=str(error))
                self._stop.wait(PAUSES_S[min(faults, len(PAUSES_S) - 1)])
                faults += 1
            finally:
                self.ownership.give_up(self.ownership.assigned())
                member.close()

    def _rounds(self, member: ConsumerMember) -> None:
        next_check = 0.0
        while not self._stop.is_set():
            member.poll(ROUND_S)
            if time.monotonic() >= next_check:
                self._confirm(member)
                self._follow()
                next_check = time.monotonic() + LEASE_S

    def _confirm(self, member: ConsumerMember) -> None:
        topic, positions = self._directory.topic, self._table.positions()
        owned = self.ownership.assigned()
        member.confirm({(topic, at): positions.get(at, 0) for at in owned})

    def _follow(self) -> None:
        """Also read the partitions that this server keeps warm for others."""
        try:
            servers = self._directory.servers()
        except StoreProblem:
            return
        self._standby = standby_for(self.address, servers, self._standbys)
        partitions = self.ownership.assigned() | self._standby
        if partitions != self.feed.assignment():
            self.feed.assign(partitions)

    def _await_address(self) -> None:
        """Wait until nobody else announces this address; a killed server soon stops doing so.

        Raises Taken, StoreProblem.
        """
        self._directory.wait(START_S)
        end = time.monotonic() + self._session_s + 2
        while any(each.address == self.address for each in self._directory.servers()):
            if time.monotonic() > end:
                raise Taken(f"Another store server announces {self.address}: set another port.")
            self._stop.wait(0.5)
            self._directory.expire()
