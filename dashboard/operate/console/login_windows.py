"""The guard's windows of every client, as rows and as lines."""

from __future__ import annotations

import heapq
import re
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from threading import Event
from typing import NamedTuple, get_args

import msgspec

from bus.base import Bus, ConsumerRecord, Reader
from bus.kafka_admin import KafkaAdmin
from config.logs import SECURITY
from config.settings import Settings
from dashboard.core.common.times import MINUTE_MS, SECOND_MS, Clock, utc, utc_datetime
from domain.login_windows import LATE_MS, VERIFIED_MS, WINDOW_MS, Action, Client
from wire.topics import Topics

# ---- windows -------------------------------------------------------------------------------------
# The guard's windows of every client, for who wants to see them: counted as the guard counts them,
# from the same log, while somebody looks.

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

    def take(self, message: ConsumerRecord) -> Iterator[ClientWindow]:
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


def _read(message: ConsumerRecord) -> _Record | None:
    """Return a record that counts, None for any other."""
    try:
        record = msgspec.json.decode(message.value or b"", type=_Record)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    counts = record.logger == SECURITY and record.action in ACTIONS
    in_time = 0 <= record.time <= message.timestamp + AHEAD_MS
    return record if counts and in_time and CLIENT.fullmatch(record.client) else None


# ---- window printout -----------------------------------------------------------------------------
# The guard's windows as lines: `manage.py view login-windows`.

PIPELINE = "login-guard"
SHOWN_MS = 5 * MINUTE_MS
"""How long a window may be over and still be shown at the start."""
EMPTY = f"No windows in the last {SHOWN_MS // MINUTE_MS} minutes."
MOST_LINES = 200
"""Lines of a second. Of more windows the fullest are shown, and how many the others are."""
BATCH, WAIT_S = 5_000, 0.2


class NoWindows(Exception):
    """There are no windows to be shown, in words."""


class WindowPrintout:
    """Prints the windows of the clients that are selected, of which none is over for long."""

    def __init__(
        self,
        passes: Callable[[str], bool],
        write: Callable[[str], object],
        remark: Callable[[str], object],
        clock: Clock,
    ) -> None:
        """passes: whether a client's windows are printed; write: of lines; remark: of what is said
        beside them."""
        self._passes, self._write, self._remark, self._clock = passes, write, remark, clock
        self._first = clock() - SHOWN_MS
        self._fullest: list[tuple[int, ClientWindow]] = []
        self._others = 0

    def run(
        self, settings: Settings, bus: Bus, stop: Event, *, follow: bool, within_s: float
    ) -> None:
        """Print the windows of the last minutes; with `follow` go on until `stop`.

        within_s: in which the log has to be caught up with, s. Raises NoWindows and BusError.
        """
        windows = ClientWindows(by_arrival=settings.guard_clock == "wall")
        reader = bus.reader(_starts(settings, bus, self._first - LOOK_BACK_MS))
        try:
            self._catch_up(reader, windows, stop, time.monotonic() + within_s)
            if not follow:
                self._gather(windows.rest())
            if not self._fullest:
                self._remark(EMPTY)
            self._print()
            while follow and not stop.is_set():
                self._read_for_a_second(reader, windows, stop)
                self._gather(windows.advance(self._clock()))
                self._print()
        finally:
            reader.close()

    def _catch_up(self, reader: Reader, windows: ClientWindows, stop: Event, end: float) -> None:
        while not stop.is_set() and not reader.at_end():
            if time.monotonic() > end:
                raise NoWindows("The log could not be read to its end in time: see --timeout.")
            for message in reader.poll(WAIT_S, BATCH):
                self._gather(windows.take(message))

    def _read_for_a_second(self, reader: Reader, windows: ClientWindows, stop: Event) -> None:
        end = time.monotonic() + 1
        while not stop.is_set() and (left := end - time.monotonic()) > 0:
            for message in reader.poll(min(left, WAIT_S), BATCH):
                self._gather(windows.take(message))

    def _gather(self, windows: Iterable[ClientWindow]) -> None:
        """Keep the fullest windows for the next lines, and count the others."""
        for one in windows:
            if one.end < self._first or not self._passes(one.client):
                continue
            heapq.heappush(self._fullest, (one.actions, one))
            if len(self._fullest) > MOST_LINES:
                heapq.heappop(self._fullest)
                self._others += 1

    def _print(self) -> None:
        for one in sorted((one for _, one in self._fullest), key=lambda one: (one.end, one.client)):
            self._write(line(one))
        if self._others:
            self._remark(f"… and {self._others:,} windows with as many actions or fewer")
        self._fullest, self._others = [], 0


def line(window: ClientWindow) -> str:
    """Return a window's client, begin, length and actions, with tabs between."""
    length = (window.end - window.begin) // SECOND_MS
    return f"{window.client}\t{utc(window.begin)}\t{length} s\t{window.actions}"


def _starts(settings: Settings, bus: Bus, first: int) -> dict[tuple[str, int], int]:
    """Return where to read the log from. first: Unix ms. Raises NoWindows and BusError."""
    if why := next(_hindrances(settings), None):
        raise NoWindows(why)
    topic = Topics(settings.topic_prefix).app_logs
    places = list(bus.offsets([topic]))
    if not places:
        raise NoWindows(f"There is no topic {topic} yet: the web server makes it when it starts.")
    return KafkaAdmin(settings.kafka_options()).at_time(places, utc_datetime(first))


def _hindrances(settings: Settings) -> Iterator[str]:
    if not settings.runs(PIPELINE):
        yield (
            f"The login guard is off: TALLYBOARD_PIPELINES is {settings.pipelines!r}, expected "
            f"{PIPELINE} among its names, as in report-rates,{PIPELINE}."
        )
    if not settings.app_logs:
        yield "No login is logged: TALLYBOARD_APP_LOGS is off, and the guard counts what it logs."
