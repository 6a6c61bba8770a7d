"""One socket's side: what it holds, and what it has yet to be sent. No lock: `LiveView` has one."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from dashboard.annotations.row_marks import Mark
from dashboard.live.alarms import Alarm, Alerts, Raised
from dashboard.live.entries import Entry, Offsets
from dashboard.live.page_filter import LIMIT, Filter, Order
from dashboard.states.board_rows import Row, order_of

# More rows than this in one browser, or waiting for it, and it gets a new snapshot instead.
MOST_HELD = 2 * LIMIT
# Most changes that are kept while a snapshot is read.
MOST_WAITING = 20 * LIMIT
# Fewer rows than this while more would match, and the browser gets a new snapshot.
FEW_HELD = LIMIT * 4 // 5


class News(NamedTuple):
    """Records that were applied together. shown: those that a page shows, in the board's order."""

    entries: Mapping[str, Entry]
    orders: Sequence[Order]
    shown: Sequence[Entry]

    @classmethod
    def of(cls, entries: Mapping[str, Entry], wanted: Filter) -> News:
        """Return what they are to everybody who shows this page: looked up once for all of them."""
        shown = [
            (order_of(entry.row), entry)
            for entry in entries.values()
            if entry.row is not None and wanted.shows(entry.row) and wanted.allows(entry)
        ]
        shown.sort(key=lambda pair: pair[0])
        return cls(entries, [order for order, _ in shown], [entry for _, entry in shown])

    def up_to(self, last: Order | None) -> Sequence[Entry]:
        """Return those shown that are not past `last`."""
        return self.shown if last is None else self.shown[: bisect_right(self.orders, last)]


Figure = Literal["counts", "acknowledged", "doubts"]
"""How many assets of a scenario are in each state, how many of them are acknowledged, and how many
there is each doubt of."""


class Changes(NamedTuple):
    """The content of one flush to a socket. figures: those that have changed; marks: what is new,
    and those of the entries; alerts: of how many the browser is to be alarmed."""

    entries: list[Entry]
    gone: list[tuple[str, str]]
    figures: Mapping[Figure, Mapping[str, int]]
    watched: str | None
    marks: list[Mark] = []
    alerts: tuple[int, list[Raised]] | None = None

    def __bool__(self) -> bool:
        return any(self)


@dataclass(slots=True, eq=False)
class Subscription:
    """One socket's side: the newest change per asset until the next flush, and what it holds.

    stale: it needs a new snapshot before anything else. `wake` is called when there is something
    to take, once until it is taken.
    """

    scenario: str
    wake: Callable[[], object]
    filter: Filter = field(default_factory=Filter)
    stale: bool = True
    held: set[str] = field(default_factory=set)
    alarm: Alarm | None = None
    _begun: bool = False
    _alerts: Alerts = field(default_factory=Alerts)
    _last: Order | None = None
    _full: bool = True
    _drifted: bool = False
    _reading: bool = False
    _awake: bool = False
    _base: Offsets = field(default_factory=dict)
    _pending: dict[str, Entry] = field(default_factory=dict)
    _figures: dict[Figure, Mapping[str, int]] = field(default_factory=dict)
    _watched: str | None = None
    _marks: dict[str, Mark] = field(default_factory=dict)

    def begin(self) -> None:
        """Keep everything that comes from here on until the snapshot has been read."""
        self._pending.clear()
        self._marks.clear()
        self._watched = None
        self._base = {}
        self._reading = True
        self._awake = False
        self.stale = self._drifted = False

    def settle(
        self, rows: Sequence[Row], more: bool, offsets: Offsets, stopped: Order | None = None
    ) -> None:
        """Record that the snapshot was read: it holds these rows and all before `offsets`.

        more: rows that match follow after these; stopped: the board was looked at as far as this.
        """
        self._reading = False
        self.held = {row["asset"] for row in rows}
        self._last = stopped or (order_of(rows[-1]) if more and rows else None)
        self._full = stopped is None
        self._base = offsets
        waiting, self._pending = self._pending, {}
        self._begun = True
        if self.hear(News.of(waiting, self.filter)) or self._marks or self._alerts:
            self.rouse()

    def hear(self, news: News) -> bool:
        """Keep what this socket has to be sent of the news; return whether there is anything."""
        if self.stale:
            return False
        if self._reading:
            heard = self._keep(news.entries.values())
            most = MOST_WAITING
        else:
            names = news.entries.keys()
            known = (names & self.held) | (names & self._pending.keys())
            heard = self._keep(news.entries[name] for name in known)
            heard |= self._keep(news.up_to(self._last))
            most = MOST_HELD
        watched = news.entries.get(self.filter.watch) if self.filter.watch else None
        if watched is not None and self._is_news(watched):
            self._watched, heard = watched.version, True
        self._drifted |= heard or bool(news.shown)
        if len(self._pending) > most:
            self.invalidate()
        return heard

    @property
    def miscounted(self) -> bool:
        """Return whether another number may match a filter by now than the snapshot said.

        There are pages of whose rows this socket is sent nothing.
        """
        shown = self.filter
        narrowed = bool(shown.q or shown.states) or shown.terms is not None
        elsewhere = self._last is not None or shown.after is not None
        return self._drifted and narrowed and elsewhere

    def alert(self, alarms: Iterable[Raised]) -> None:
        """Add what the browser is to be alarmed of, even if it has missed other changes."""
        if self._begun:
            self._alerts.add(alarms)

    def alerted(self) -> bool:
        """Return whether there is something to alarm the browser of."""
        return bool(self._alerts)

    def hear_marks(self, marks: Mapping[str, Mark]) -> bool:
        """Keep what this socket has to be sent of the marks; return whether there is anything."""
        if self.stale:
            return False
        shown = marks.keys() if self._reading else marks.keys() & self.held
        self._marks.update((asset, marks[asset]) for asset in shown)
        watched = marks.get(self.filter.watch or "")
        if watched is not None:
            self._watched = str(watched.revision)
        return bool(shown) or watched is not None

    def _keep(self, entries: Iterable[Entry]) -> bool:
        before = len(self._pending)
        new = {entry.asset: entry for entry in entries if self._is_news(entry)}
        self._pending.update(new)
        return bool(new) or len(self._pending) > before

    def _is_news(self, entry: Entry) -> bool:
        """Return whether the snapshot does not rest on it already."""
        return entry.offset >= self._base.get(entry.place, 0)

    def tell(self, figure: Figure, numbers: Mapping[str, int]) -> None:
        """Set a figure of the scenario, which has changed."""
        self._figures[figure] = numbers

    def rouse(self) -> None:
        """Wake the socket, unless it has been woken and has not looked yet."""
        if not self._awake:
            self._awake = True
            self.wake()

    def invalidate(self) -> None:
        """Forget what waits: the socket needs a new snapshot."""
        self.stale = True
        self._pending.clear()

    def take(self, marks: Mapping[str, Mark]) -> Changes:
        """Return all that waits, which counts as sent then; check `stale` afterwards.

        marks: all there are.
        """
        entries: list[Entry] = []
        gone: list[tuple[str, str]] = []
        for entry in self._pending.values():
            if self._shows(entry):
                entries.append(entry)
                self.held.add(entry.asset)
            elif entry.asset in self.held:
                gone.append((entry.asset, entry.version))
                self.held.discard(entry.asset)
        self._marks.update((e.asset, marks[e.asset]) for e in entries if e.asset in marks)
        new_marks, alerts = list(self._marks.values()), self._alerts.take()
        changes = Changes(entries, gone, self._figures, self._watched, new_marks, alerts)
        self._pending, self._figures, self._watched, self._marks = {}, {}, None, {}
        self._awake = False
        few = self._last and self._full and len(self.held) < FEW_HELD
        if len(self.held) > MOST_HELD or few:
            self.stale = True
        return changes

    def _shows(self, entry: Entry) -> bool:
        row = entry.row
        if row is None or not (self.filter.shows(row) and self.filter.allows(entry)):
            return False
        return self._last is None or order_of(row) <= self._last
