"""The guard's windows as lines: `manage.py view login-windows`."""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterable, Iterator
from threading import Event

from bus.base import Bus, Reader
from bus.kafka_admin import KafkaAdmin
from config.settings import Settings
from dashboard.core.times import MINUTE_MS, SECOND_MS, Clock, utc, utc_datetime
from dashboard.login_guard.windows import LOOK_BACK_MS, ClientWindow, ClientWindows
from wire.topics import Topics

PIPELINE = "login-guard"
SHOWN_MS = 5 * MINUTE_MS
"""How long a window may be over and still be shown at the start."""
MOST_LINES = 200
"""Lines of a second. Of more windows the fullest are shown, and how many the others are."""
BATCH, WAIT_S = 5_000, 0.2


class NoWindows(Exception):
    """There are no windows to be shown, in words."""


class WindowPrintout:
    """Prints the windows of the clients that are wanted, of which none is over for long."""

    def __init__(
        self,
        wanted: Callable[[str], bool],
        write: Callable[[str], object],
        remark: Callable[[str], object],
        clock: Clock,
    ) -> None:
        """wanted: whether a client's windows are; write: of lines; remark: of what is said beside
        them."""
        self._wanted, self._write, self._remark, self._clock = wanted, write, remark, clock
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
            if one.end < self._first or not self._wanted(one.client):
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
