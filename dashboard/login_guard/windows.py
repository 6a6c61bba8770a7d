"""The guard's windows of every client, for who wants to see them: counted as the guard counts them,
from the same log, while somebody looks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, get_args

import msgspec

from bus.base import Message
from config.logs import SECURITY
from dashboard.core.times import MINUTE_MS
from dashboard.login_guard.events import Action
from domain.login_windows import LATE_MS, VERIFIED_MS, WINDOW_MS, Client

MOST_CLIENTS = 20_000
"""Clients whose windows are remembered. Of one more, those of the client that has been quiet for
longest are given early."""
AHEAD_MS = 5 * MINUTE_MS
"""How far ahead of the clock a record's time may be, as of any pipeline's source."""
LOOK_BACK_MS = VERIFIED_MS + 2 * MINUTE_MS
"""How much of the log has to be read before the first window is right: whoever was verified before
that is so no more."""

VERIFIED = "verified"
ACTIONS = frozenset(get_args(Action))
CLIENT = re.compile("client-[0-9a-f]{16}")


class ClientWindow(NamedTuple):
    """How many actions of a client fall into a window; begin, end: Unix ms."""

    client: str
    begin: int
    end: int
    actions: int


class _Record(msgspec.Struct):
    """What counts of a record of the log."""

    time: int
    logger: str
    client: str
    action: str


@dataclass
class _Followed:
    """A client; arrived: when Kafka took its last record, Unix ms; given: the counts of its windows
    that have been given."""

    client: Client = field(default_factory=Client)
    arrived: int = 0
    given: dict[int, int] = field(default_factory=dict)


class ClientWindows:
    """Gives each window once no record can change it any more; again where a late one did."""

    def __init__(self, *, by_arrival: bool) -> None:
        """by_arrival: whether an action has the time at which Kafka took its record."""
        self._by_arrival = by_arrival
        self._clients: dict[str, _Followed] = {}

    def take(self, message: Message) -> Iterator[ClientWindow]:
        """Yield the windows that a record of the log ends."""
        record = _read(message)
        if record is None:
            return
        name = record.client
        # The order of the dictionary is that of the clients' last records.
        followed = self._clients[name] = self._clients.pop(name, _Followed())
        client, before = followed.client, dict(followed.client.counts)
        time = message.timestamp if self._by_arrival else record.time
        client.verify(time) if record.action == VERIFIED else client.act(time)
        followed.arrived = message.timestamp
        yield from _given(name, followed, {b: before[b] for b in before.keys() - client.counts})
        for begin in before.keys() - client.counts:
            followed.given.pop(begin, None)
        if len(self._clients) > MOST_CLIENTS:
            yield from self._forget(next(iter(self._clients)))

    def advance(self, now: int) -> Iterator[ClientWindow]:
        """Yield the windows that have ended by time alone. now: Unix ms."""
        for name, followed in list(self._clients.items()):
            client = followed.client
            # As long after the client's last record as it is after Kafka took it.
            clock = client.clock + max(0, now - followed.arrived)
            over = {b: n for b, n in client.counts.items() if b + WINDOW_MS + LATE_MS <= clock}
            yield from _given(name, followed, over)
            if clock >= client.due:
                yield from self._forget(name)

    def rest(self) -> Iterator[ClientWindow]:
        """Yield the windows that have not ended, as they are."""
        for name in list(self._clients):
            yield from self._forget(name)

    def _forget(self, name: str) -> Iterator[ClientWindow]:
        followed = self._clients.pop(name)
        yield from _given(name, followed, followed.client.counts)


def _given(name: str, followed: _Followed, counts: dict[int, int]) -> Iterator[ClientWindow]:
    """Yield windows that have not been given with this count."""
    for begin, count in sorted(counts.items()):
        if followed.given.get(begin) != count:
            followed.given[begin] = count
            yield ClientWindow(name, begin, begin + WINDOW_MS, count)


def _read(message: Message) -> _Record | None:
    """Return a record that counts, None for any other."""
    try:
        record = msgspec.json.decode(message.value or b"", type=_Record)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    counts = record.logger == SECURITY and record.action in ACTIONS
    in_time = 0 <= record.time <= message.timestamp + AHEAD_MS
    return record if counts and in_time and CLIENT.fullmatch(record.client) else None
