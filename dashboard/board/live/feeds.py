"""What sockets that show the same rows have in common: rows, changes, alarms."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple
from weakref import WeakSet

from dashboard.board.live.page_filter import (
    LIMIT,
    LiveRecord,
    Offsets,
    Order,
    Page,
    PageFilter,
    RankedPlace,
)
from dashboard.core.states.board_rows import Row
from dashboard.watch.annotations.row_marks import RowMark

# ---- alarms --------------------------------------------------------------------------------------
# Alarms that a browser requested: assets that have just come to one of some states.
#
# Worked out from records as they come, so never from a snapshot. The browser judges whether one is
# recent enough to be shown, as a replay may bring what was long ago.

# Most assets that one message names; of others it tells the number.
MOST = 50


class AlarmStates(NamedTuple):
    """The states of an alarm, and whether it is of any asset or of those that the filter shows."""

    states: frozenset[str]
    any: bool = False


class Raised(NamedTuple):
    """An asset, its state, and since when it is in it (Unix ms)."""

    asset: str
    state: str
    since: int


def keep_coming(came: dict[str, LiveRecord], entry: LiveRecord) -> None:
    """Keep in `came` the newest record of each asset that has come to its state, and is in it.

    The next agent's report may follow in the same portion: that one changes no state.
    """
    since = None if entry.row is None else entry.row["since"]
    before = came.pop(entry.asset, None)
    stayed = before is not None and before.row is not None and before.row["since"] == since
    if entry.row is not None and (stayed or since == entry.row.get("caused_at")):
        came[entry.asset] = entry


def raised(came: Mapping[str, LiveRecord], alarm: AlarmStates, shown: PageFilter) -> list[Raised]:
    """Return the records with a new state that the alarm is about, but for what is handled."""
    return [
        Raised(entry.asset, entry.row["state"], entry.row["since"])
        for entry in came.values()
        if entry.row is not None
        and entry.row["state"] in alarm.states
        and not entry.hand.holds
        and (alarm.any or (shown.matches(entry.row) and shown.allows(entry)))
    ]


class Alerts:
    """The alerts that wait to be sent: each asset once, a number of them by name."""

    def __init__(self) -> None:
        self._named: dict[str, Raised] = {}
        self._more = 0

    def add(self, entries: Iterable[Raised]) -> None:
        """Add what was raised."""
        for each in entries:
            if each.asset in self._named or len(self._named) < MOST:
                self._named[each.asset] = each
            else:
                self._more += 1

    def take(self) -> tuple[int, list[Raised]] | None:
        """Return how many, and those that are named; None for nothing. They count as sent then."""
        if not self._named:
            return None
        alerts = (len(self._named) + self._more, list(self._named.values()))
        self._named, self._more = {}, 0
        return alerts

    def __bool__(self) -> bool:
        return bool(self._named)


# ---- live ----------------------------------------------------------------------------------------
# What goes into one message with changes.

Figure = Literal["counts", "acknowledged", "unhandled", "doubts", "causes", "tabs"]
"""How many assets of a scenario are in each state, how many of them are acknowledged, how many
unhandled, and how many there is each doubt of; what they lie behind and is not well, each with the
label of its state; and by number what the tabs say that are filters of it."""
EMPTY_AT_FIRST: tuple[Figure, ...] = ("acknowledged", "causes", "tabs")
"""What a socket is sent only once there is any."""
FORGOTTEN: tuple[Figure, ...] = ("counts", "unhandled", "tabs")
"""What a page counts for itself where no socket is open."""
Figures = Mapping[str, Any]
"""What there is of a figure, by state, doubt or name."""


@dataclass(slots=True)
class Changes:
    """The content of one message. figures: those that have changed; marks: what is new, and those
    of the entries; alerts: of how many the browser is to be alarmed; body: the message, once it was
    made, for all sockets that are sent the same."""

    entries: list[LiveRecord] = field(default_factory=list)
    gone: list[tuple[str, str]] = field(default_factory=list)
    figures: Mapping[Figure, Figures] = field(default_factory=dict)
    watched: str | None = None
    marks: list[RowMark] = field(default_factory=list)
    alerts: tuple[int, list[Raised]] | None = None
    body: bytes = b""

    def __bool__(self) -> bool:
        """Return whether there is anything to send."""
        rows = self.entries or self.gone or self.marks
        return bool(rows or self.figures or self.watched or self.alerts)


# ---- feeds ---------------------------------------------------------------------------------------
# What sockets that show the same rows have in common: the rows, and what waits to be sent.
#
# Of fifty boards of one page each record is looked at once, and one message is made for all that
# were last told at the same moment. No lock: `LiveView` has one.

# More rows than this in one browser, or waiting for it, and it gets a new snapshot instead.
MOST_HELD = 2 * LIMIT
# Fewer rows than this while more would match, and the browser gets a new snapshot.
FEW_HELD = LIMIT * 4 // 5


class News(NamedTuple):
    """Records that were applied together. shown: those that a page shows, in its order."""

    entries: Mapping[str, LiveRecord]
    orders: Sequence[Order]
    shown: Sequence[LiveRecord]

    @classmethod
    def of(cls, entries: Mapping[str, LiveRecord], page_filter: PageFilter) -> News:
        """Return what they are to everybody who shows this page: looked up once for all of them."""
        shown = [
            (page_filter.order(entry.row, entry.hand.holds), entry)
            for entry in entries.values()
            if entry.row is not None and page_filter.shows(entry)
        ]
        shown.sort(key=lambda pair: pair[0])
        return cls(entries, [order for order, _ in shown], [entry for _, entry in shown])

    def up_to(self, last: Order | None) -> Sequence[LiveRecord]:
        """Return those shown that are not past `last`."""
        return self.shown if last is None else self.shown[: bisect_right(self.orders, last)]


class RecordChange(NamedTuple):
    """The newest record of an asset; whether it is shown, and whether the one before all that
    waits was."""

    entry: LiveRecord
    shown: bool
    was_shown: bool


@dataclass(slots=True, eq=False, weakref_slot=True)
class Backlog:
    """The changes waiting for all sockets of a feed that were last sent some at the same moment.

    drifted: a record has come of which such a socket may be sent nothing.
    """

    feed: Feed
    drifted: bool = False
    _record_changes: dict[str, RecordChange] = field(default_factory=dict)
    _figures: dict[Figure, Figures] = field(default_factory=dict)
    _marks: dict[str, RowMark] = field(default_factory=dict)
    _changes: Changes | None = None

    def __bool__(self) -> bool:
        """Return whether anything waits."""
        return bool(self._record_changes or self._figures or self._marks)

    @property
    def too_long(self) -> bool:
        """Return whether a snapshot is better than all of it."""
        return len(self._record_changes) > MOST_HELD

    def add(self, record_changes: Mapping[str, RecordChange]) -> None:
        """Add what has become of assets: the newest of each waits."""
        for asset, (entry, shown, was_shown) in record_changes.items():
            before = self._record_changes.get(asset)
            first = was_shown if before is None else before.was_shown
            self._record_changes[asset] = RecordChange(entry, shown, first)
        self._changes = None

    def set_figure(self, figure: Figure, numbers: Figures) -> None:
        """Set a figure of the scenario, which has changed."""
        self._figures[figure] = numbers
        self._changes = None

    def receive_marks(self, marks: Mapping[str, RowMark]) -> bool:
        """Keep the marks of rows that are shown; return whether there are any."""
        shown = marks.keys() & self.feed.held
        if shown:
            self._marks.update((asset, marks[asset]) for asset in shown)
            self._changes = None
        return bool(shown)

    def changes(self, marks: Mapping[str, RowMark]) -> Changes:
        """Return all that waits, made once for all whose backlog it is. marks: all there are."""
        if self._changes is None:
            record_changes = self._record_changes.values()
            entries = [change.entry for change in record_changes if change.shown]
            gone = [
                change.entry for change in record_changes if change.was_shown and not change.shown
            ]
            known = {e.asset: marks[e.asset] for e in entries if e.asset in marks}
            self._changes = Changes(
                entries,
                [(entry.asset, entry.version) for entry in gone],
                dict(self._figures),
                marks=list({**self._marks, **known}.values()),
            )
        return self._changes


@dataclass(slots=True, eq=False)
class Feed:
    """The rows that sockets show, and what is to be sent to them.

    held: the assets of which a row is shown; last: no row past it is, None: whatever matches is;
    whole: the board was looked at as far as that; base: what a snapshot rests on already.
    """

    filter: PageFilter
    held: set[str]
    last: Order | None = None
    whole: bool = True
    base: Offsets = field(default_factory=dict)
    page: Page = field(init=False)
    _backlogs: WeakSet[Backlog] = field(default_factory=WeakSet)

    def __post_init__(self) -> None:
        self.page = self.filter.page()

    @classmethod
    def of(
        cls,
        page_filter: PageFilter,
        rows: Sequence[Row],
        last: Order | None,
        offsets: Offsets,
        stopped: bool,
    ) -> Feed:
        """Return that of a snapshot. The arguments are as for `Subscription.settle`.

        A page that ends in the board's order was not chosen by a detail: too many match.
        """
        if last is not None and not isinstance(last, RankedPlace):
            page_filter = replace(page_filter, ranking=None)
        return cls(page_filter, {row["asset"] for row in rows}, last, not stopped, offsets)

    def empty_backlog(self) -> Backlog:
        """Return the backlog shared by all sockets that have been sent everything."""
        for backlog in self._backlogs:
            if not backlog:
                return backlog
        return self._keep(Backlog(self))

    def _keep(self, backlog: Backlog) -> Backlog:
        self._backlogs.add(backlog)
        return backlog

    def receive(self, news: News) -> None:
        """Keep what the sockets have to be sent of the news."""
        record_changes = dict(self._record_changes(news))
        if record_changes or news.shown:
            for backlog in self._backlogs:
                backlog.drifted = True
                backlog.add(record_changes)

    def _record_changes(self, news: News) -> Iterator[tuple[str, RecordChange]]:
        shown = {entry.asset: entry for entry in news.up_to(self.last) if self.is_news(entry)}
        for asset in (news.entries.keys() & self.held) - shown.keys():
            if self.is_news(news.entries[asset]):
                self.held.discard(asset)
                yield asset, RecordChange(news.entries[asset], shown=False, was_shown=True)
        for asset, entry in shown.items():
            yield asset, RecordChange(entry, shown=True, was_shown=asset in self.held)
        self.held |= shown.keys()

    def is_news(self, entry: LiveRecord) -> bool:
        """Return whether the snapshot does not rest on it already."""
        return not self.base or entry.offset >= self.base.get(entry.place, 0)

    @property
    def outgrown(self) -> bool:
        """Return whether a new snapshot is needed: for too many rows, or for more of them."""
        few = self.last and self.whole and len(self.held) < FEW_HELD
        return bool(few) or len(self.held) > MOST_HELD

    # ---- one of several ----

    def passed(self, offsets: Offsets) -> bool:
        """Return whether all that comes is news. offsets: the next offset of each partition."""
        if self.base and all(self.base.get(place, 0) <= at for place, at in offsets.items()):
            self.base = {}
        return not self.base

    @property
    def key(self) -> tuple[object, ...]:
        """Return what feeds have in common that may be one; a filter of times is of its moment."""
        moment = self.filter.now if self.filter.timed else None
        return (self.page, self.last, self.whole, moment)

    def adopt(self, other: Feed) -> None:
        """Feed the other's sockets as well, for good."""
        for backlog in list(other._backlogs):
            backlog.feed = self
            self._backlogs.add(backlog)


def unite(feeds: Iterable[Feed], offsets: Offsets) -> bool:
    """Make one of feeds that show the same, once all that comes is news to both.

    Returns whether there is nothing left to be tried. offsets: the next offset of each partition.
    """
    kept: dict[tuple[object, ...], Feed] = {}
    late = False
    for feed in feeds:
        if not feed.passed(offsets):
            late = True
            continue
        one = kept.setdefault(feed.key, feed)
        if one is not feed and one.held == feed.held:
            one.adopt(feed)
    return not late
