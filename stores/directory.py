"""Who owns which partition, as the group's coordinator says: each server is a member under the
address at which it answers."""

from __future__ import annotations

import re
import time
from threading import Lock
from typing import NamedTuple

from bus.base import Bus, BusError
from stores.base import NotReady, NotRun, Unreachable

FRESH_S = 1.0
"""So long what was read is believed: a server that does not own a partition says so itself."""
PAUSE_S = 0.2
_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:]+\]|[^\s:,/@?#]+):[0-9]{1,5}")


class Server(NamedTuple):
    """A store server: where it answers, and which partitions it is assigned."""

    address: str
    partitions: frozenset[int]


class Directory:
    """The servers of one topic's group. Safe to share among threads."""

    def __init__(self, bus: Bus, group: str, topic: str) -> None:
        self._bus, self.group, self.topic = bus, group, topic
        self._lock = Lock()
        self._servers: list[Server] = []
        self._read_at = -FRESH_S
        self._partitions = 0

    def servers(self) -> list[Server]:
        """Return the servers by address. Raises Unreachable where Kafka does not answer."""
        with self._lock:
            if time.monotonic() - self._read_at >= FRESH_S:
                self._servers = self._read()
                self._read_at = time.monotonic()
            return self._servers

    def wait(self, timeout_s: float) -> None:
        """Wait until Kafka answers for the group: a broker that has just begun does not yet know
        who coordinates it. Raises Unreachable after `timeout_s` seconds."""
        end = time.monotonic() + timeout_s
        while True:
            try:
                self.servers()
                return
            except Unreachable:
                if time.monotonic() >= end:
                    raise
                time.sleep(PAUSE_S)

    def owners(self) -> dict[int, str]:
        """Return the address of each partition's owner; one that nobody owns is left out.

        Raises Unreachable; NotRun where there is no server at all.
        """
        servers = self.servers()
        if not servers:
            raise NotRun("No store server runs: set TALLYBOARD_STORES, or start one.")
        return {partition: each.address for each in servers for partition in each.partitions}

    def expire(self) -> None:
        """Have the group asked again: somebody was not where it was said to be."""
        with self._lock:
            self._read_at = -FRESH_S

    def partitions(self) -> int:
        """Return how many partitions there are. Raises NotReady, Unreachable."""
        if not self._partitions:
            try:
                self._partitions = self._bus.partitions(self.topic)
            except BusError as error:
                raise Unreachable(f"Kafka does not answer: {error}") from error
        if not self._partitions:
            raise NotReady(f"There is no topic {self.topic} yet.")
        return self._partitions

    def _read(self) -> list[Server]:
        try:
            members = self._bus.members(self.group)
        except BusError as error:
            raise Unreachable(f"Kafka does not say who owns what: {error}") from error
        return sorted(
            Server(name, frozenset(at for topic, at in places if topic == self.topic))
            for name, places in members
            if _ADDRESS.fullmatch(name)
        )


def standby_for(address: str, servers: list[Server], standbys: int) -> frozenset[int]:
    """Return the partitions that the server at `address` keeps warm for others: those of the
    `standbys` servers before it, in a ring by address."""
    names = [each.address for each in servers]
    if address not in names:
        return frozenset()
    at = names.index(address)
    before = {servers[(at - step) % len(servers)] for step in range(1, standbys + 1)}
    others = [each.partitions for each in before if each.address != address]
    return frozenset().union(*others)
