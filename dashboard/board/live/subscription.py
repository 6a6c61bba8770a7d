"""One socket's side: what it shows, and what it has yet to be sent. No lock: `LiveView` has one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dashboard.board.live.feeds import (
    AlarmStates,
    Alerts,
    Backlog,
    Changes,
    Feed,
    Figure,
    Figures,
    News,
    Raised,
)
from dashboard.board.live.page_filter import LIMIT, LiveRecord, Offsets, Order, PageFilter
from dashboard.core.states.board_rows import Row
from dashboard.watch.annotations.row_marks import RowMark

# Most changes that are kept while a snapshot is read.
MOST_WAITING = 20 * LIMIT


@dataclass(slots=True, eq=False)
class SocketSubscription:
    """One socket's side: what waits for it alone, and its backlog, which others may have as well.

    stale: it needs a new snapshot before anything else. `wake` is called when there is something
    to take, once until it is taken.
    """

    scenario: str
    wake: Callable[[], object]
    filter: PageFilter = field(default_factory=PageFilter)
    stale: bool = True
    alarm: AlarmStates | None = None
    _backlog: Backlog | None = None
    _begun: bool = False
    _alerts: Alerts = field(default_factory=Alerts)
    _drifted: bool = False
    _reading: bool = False
    _awake: bool = False
    _pending: dict[str, LiveRecord] = field(default_factory=dict)
    _figures: dict[Figure, Figures] = field(default_factory=dict)
    _watched: str | None = None
    _marks: dict[str, RowMark] = field(default_factory=dict)

    # ---- its snapshot ----

    def begin(self) -> None:
        """Keep everything that comes from here on until the snapshot has been read."""
        self._pending.clear()
        self._marks.clear()
        self._watched = None
        self._backlog = None
        self._reading = True
        self._awake = False
        self.stale = self._drifted = False

    def settle(
        self, rows: Sequence[Row], last: Order | None, offsets: Offsets, stopped: bool = False
    ) -> None:
        """Record that the snapshot was read: it holds these rows and all before `offsets`.

        last: the position after which others that match may follow; stopped: whether the board was
        looked at only as far as that.
        """
        self._reading, self._begun = False, True
        waiting, self._pending = self._pending, {}
        if not self.stale:
            feed = Feed.of(self.filter, rows, last, offsets, stopped)
            self._backlog = self._begin_backlog(feed)
            feed.receive(News.of(waiting, self.filter))
        if self.receive(waiting) or self._alerts:
            self.rouse()

    def _begin_backlog(self, feed: Feed) -> Backlog:
        """Return one with what was kept besides records while the snapshot was read."""
        backlog = feed.empty_backlog()
        for figure, numbers in self._figures.items():
            backlog.set_figure(figure, numbers)
        backlog.receive_marks(self._marks)
        self._figures, self._marks = {}, {}
        return backlog

    def invalidate(self) -> None:
        """Forget what waits: the socket needs a new snapshot."""
        self.stale = True
        self._pending.clear()
        self._backlog = None

    # ---- what comes ----

    @property
    def feed(self) -> Feed | None:
        """Return what it is fed by; nothing before it has a snapshot."""
        return self._backlog.feed if self._backlog is not None else None

    def receive(self, entries: Mapping[str, LiveRecord]) -> bool:
        """Keep what concerns this socket alone; return whether there is anything to be sent.

        Its feed has received the same records before.
        """
        if self.stale:
            return False
        if self._reading:
            self._pending.update(entries)
        watched = entries.get(self.filter.watch) if self.filter.watch else None
        if watched is not None and (self.feed is None or self.feed.is_news(watched)):
            self._watched = watched.version
        waits = bool(self._backlog or self._pending or self._watched)
        if len(self._pending) > MOST_WAITING or (self._backlog and self._backlog.too_long):
            self.invalidate()
        return waits

    @property
    def miscounted(self) -> bool:
        """Return whether another number may match a filter by now than the snapshot said."""
        if self._backlog is None:
            return False
        shown = self.filter
        narrowed = bool(shown.q or shown.states) or shown.terms is not None
        return (self._drifted or self._backlog.drifted) and narrowed and self._is_cut

    def follows_marks(self) -> bool:
        """Return whether an acknowledgement or maintenance may change which rows it shows."""
        if self.filter.terms is not None and self.filter.terms.of_marks:
            return True
        return self._reading or self._is_cut

    @property
    def _is_cut(self) -> bool:
        """Return whether there are pages of whose rows this socket is sent nothing."""
        feed = self.feed
        return feed is not None and (feed.last is not None or self.filter.after is not None)

    def alert(self, alarms: Iterable[Raised]) -> None:
        """Add what the browser is to be alarmed of, even if it has missed other changes."""
        if self._begun:
            self._alerts.add(alarms)

    def alerted(self) -> bool:
        """Return whether there is something to alarm the browser of."""
        return bool(self._alerts)

    def receive_marks(self, marks: Mapping[str, RowMark]) -> bool:
        """Keep what this socket has to be sent of the marks; return whether there is anything."""
        if self.stale:
            return False
        watched = marks.get(self.filter.watch or "")
        if watched is not None:
            self._watched = str(watched.revision)
        if self._backlog is not None:
            return self._backlog.receive_marks(marks) or watched is not None
        self._marks.update(marks)
        return True

    def set_figure(self, figure: Figure, numbers: Figures) -> None:
        """Set a figure of the scenario, which has changed."""
        if self._backlog is not None:
            self._backlog.set_figure(figure, numbers)
        else:
            self._figures[figure] = numbers

    def rouse(self) -> None:
        """Wake the socket, unless it has been woken and has not looked yet."""
        if not self._awake:
            self._awake = True
            self.wake()

    # ---- what goes ----

    def take(self, marks: Mapping[str, RowMark]) -> Changes:
        """Return all that waits, which counts as sent then; check `stale` afterwards.

        marks: all there are. Sockets with the same backlog are given the same changes, made once.
        """
        self._awake = False
        shared = self._take_backlog(marks)
        watched, alerts = self._watched, self._alerts.take()
        self._watched = None
        if not (watched or alerts):
            return shared
        return replace(shared, watched=watched, alerts=alerts, body=b"")

    def _take_backlog(self, marks: Mapping[str, RowMark]) -> Changes:
        backlog = self._backlog
        if not backlog:
            return Changes()
        changes, feed = backlog.changes(marks), backlog.feed
        self._drifted |= backlog.drifted
        self._backlog = feed.empty_backlog()
        if feed.outgrown:
            self.invalidate()
        return changes
