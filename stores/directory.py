"""Who owns which partition, according to the group's coordinator.

Each server is a member under a name that contains its address and proves that it is a server.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Lock
from typing import NamedTuple, TypeVar

import structlog

from bus.base import Bus, BusError, GroupMember, no_answer
from stores.base import NotReady, NotRun, Unreachable
from stores.proofs import announced, announcement

log = structlog.get_logger(__name__)

FRESH_S = 1.0
"""How long a result is trusted: a server that does not own a partition says so itself.

Also how long Kafka is not asked again after it did not answer.
"""
ASK_S = 2.0
"""How long to wait for Kafka; pages wait as long."""
PAUSE_S = 0.2
LOGGED = 20
"""Largest number of members without a proof that are logged, each once."""
SHOWN = 100
"""How many characters of such a member's name are kept, as it may be of any length."""

R = TypeVar("R")


class Server(NamedTuple):
    """A store server: its address and its assigned partitions."""

    address: str
    partitions: frozenset[int]


class Unlisted(Unreachable):
    """Kafka does not say who the servers are."""


class Directory:
    """The servers in the group of one topic. Can be shared among threads."""

    def __init__(self, bus: Bus, group: str, topic: str, secret: str) -> None:
        """secret: the stores' secret, with which each server proves itself."""
        self._bus, self.group, self.topic, self._secret = bus, group, topic, secret
        self._lock = Lock()
        self._servers: list[Server] = []
        self._unproved: tuple[str, ...] = ()
        self._logged: set[str] = set()
        self._read_at = self._failed_at = -FRESH_S
        self._fault = ""
        self._partitions = 0

    def servers(self) -> list[Server]:
        """Return the servers by address. Raises Unlisted if Kafka does not answer."""
        with self._lock:
            if time.monotonic() - self._read_at >= FRESH_S:
                self._read(self._asked(lambda: self._bus.members(self.group, ASK_S)))
                self._read_at = time.monotonic()
            return self._servers

    def unproved(self) -> tuple[str, ...]:
        """Return the members of the group, as last read, that are never asked.

        Their names do not prove a server, or prove one that has since restarted.
        """
        return self._unproved

    def announcement(self, address: str) -> str:
        """Return the name under which a server starting now joins the group."""
        return announcement(self._secret, self.group, address, time.time_ns() // 1_000_000)

    def wait(self, timeout_s: float) -> None:
        """Wait until Kafka answers for the group.

        A broker that has just started does not know yet who coordinates it. Raises Unlisted after
        `timeout_s` seconds.
        """
        end = time.monotonic() + timeout_s
        while True:
            try:
                self.servers()
                return
            except Unlisted:
                if time.monotonic() >= end:
                    raise
            time.sleep(PAUSE_S)
            self.expire()

    def owners(self) -> dict[int, str]:
        """Return the address of each partition's owner, leaving out partitions without one.

        Raises Unlisted, and NotRun if there is no server at all.
        """
        servers = self.servers()
        if not servers:
            raise NotRun(
                f"No store server keeps {self.topic}: set TALLYBOARD_STORES, or start one. Its "
                "TALLYBOARD_STORES_SCENARIOS must name the scenario."
            )
        return {partition: each.address for each in servers for partition in each.partitions}

    def expire(self) -> None:
        """Ask the group again next time: somebody was not at the expected address."""
        with self._lock:
            self._read_at = self._failed_at = -FRESH_S

    def partitions(self) -> int:
        """Return the number of partitions. Raises NotReady, Unlisted."""
        with self._lock:
            if not self._partitions:
                self._partitions = self._asked(lambda: self._bus.partitions(self.topic, ASK_S))
        if not self._partitions:
            raise NotReady(f"There is no topic {self.topic} yet.")
        return self._partitions

    def _asked(self, ask: Callable[[], R]) -> R:
        """Return Kafka's answer. Raises Unlisted, at once if Kafka has just failed to answer."""
        if time.monotonic() - self._failed_at < FRESH_S:
            raise Unlisted(self._fault)
        try:
            return ask()
        except BusError as error:
            self._fault, self._failed_at = no_answer(error), time.monotonic()
            raise Unlisted(self._fault) from error

    def _read(self, members: list[GroupMember]) -> None:
        """Record the members that prove a server; of several with one address, the last started."""
        known = [(announced(self._secret, self.group, each.name), each) for each in members]
        newest: dict[str, int] = {}
        for one, _ in known:
            if one is not None:
                newest[one.address] = max(one.started, newest.get(one.address, 0))
        shares: dict[str, set[int]] = {address: set() for address in newest}
        unproved: list[str] = []
        for one, member in known:
            if one is None or one.started < newest[one.address]:
                unproved.append(member.name[:SHOWN])
            else:
                own = (at for topic, at in member.partitions if topic == self.topic)
                shares[one.address].update(own)
        self._servers = [Server(at, frozenset(share)) for at, share in sorted(shares.items())]
        self._unproved = tuple(sorted(unproved))
        self._log_unproved()

    def _log_unproved(self) -> None:
        for name in self._unproved:
            if name not in self._logged and len(self._logged) < LOGGED:
                self._logged.add(name)
                log.warning(
                    "a member of the stores' group proves no server, and is asked nothing",
                    group=self.group,
                    client=name,
                )


def standby_for(address: str, servers: list[Server], standbys: int) -> frozenset[int]:
    """Return the partitions that the server at `address` keeps warm for others.

    They belong to the `standbys` servers before it, in a ring ordered by address.
    """
    names = [each.address for each in servers]
    if address not in names:
        return frozenset()
    at = names.index(address)
    before = {servers[(at - step) % len(servers)] for step in range(1, standbys + 1)}
    others = [each.partitions for each in before if each.address != address]
    return frozenset().union(*others)
