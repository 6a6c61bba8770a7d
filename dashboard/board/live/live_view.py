"""A process's knowledge beyond the database, and the sockets to send it to."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from threading import Lock

from dashboard.board.live.feeds import (
    EMPTY_AT_FIRST,
    FORGOTTEN,
    AlarmStates,
    Changes,
    Figure,
    Figures,
    News,
    Raised,
    keep_coming,
    raised,
    unite,
)
from dashboard.board.live.page_filter import (
    LiveRecord,
    Offsets,
    Order,
    Page,
    PageFilter,
    SinkPartition,
)
from dashboard.board.live.subscription import SocketSubscription
from dashboard.core.job.liveness import Signs
from dashboard.core.states.board_rows import Row
from dashboard.watch.annotations.row_marks import RowMark

# ---- live view -----------------------------------------------------------------------------------
# A process's knowledge beyond the database, and the sockets to send it to.
#
# Nothing here reads a clock, a database or Kafka. One thread applies records; sockets read from
# another: a lock guards both sides.


class LiveView:
    """The overlay of records newer than the database, and the sockets to send them to."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._overlay: dict[str, dict[str, LiveRecord]] = {}
        self._subscriptions: dict[str, set[SocketSubscription]] = {}
        self._figures: dict[str, dict[Figure, Figures]] = {}
        self._marks: dict[str, dict[str, RowMark]] = {}
        self._annotated: set[str] = set()
        self._expiries: dict[str, int] = {}
        self._offsets: dict[str, dict[SinkPartition, int]] = {}
        self._apart: set[str] = set()
        self.heartbeat_at: int | None = None
        self.signs = Signs()

    # ---- what the tailer tells ----

    def follow(self, scenario: str, starts: Offsets) -> None:
        """Set from where the records of a scenario are read: the offset of each partition."""
        with self._lock:
            self._offsets[scenario] = dict(starts)

    def apply(
        self, scenario: str, entries: Collection[LiveRecord], floor: Mapping[str, str]
    ) -> None:
        """Apply records in the order of the topic.

        floor: the database's version of each of these assets: an older record is a replay.
        """
        with self._lock:
            overlay = self._overlay.setdefault(scenario, {})
            offsets = self._offsets.setdefault(scenario, {})
            newest: dict[str, LiveRecord] = {}
            came: dict[str, LiveRecord] = {}
            for entry in entries:
                offsets[entry.place] = entry.offset + 1
                known = overlay.get(entry.asset)
                least = max(floor.get(entry.asset, ""), known.version if known else "")
                if entry.version < least or (known and entry.version == known.version):
                    continue
                overlay[entry.asset] = newest[entry.asset] = entry
                keep_coming(came, entry)
            if newest:
                self._distribute(scenario, newest, came)

    def _distribute(
        self, scenario: str, newest: Mapping[str, LiveRecord], came: Mapping[str, LiveRecord]
    ) -> None:
        """Pass records on to the sockets, by what feeds them.

        came: of the assets of `newest`, those that have come to their state with these records.
        """
        subscriptions = self._subscriptions.get(scenario, set())
        _alarm(subscriptions, came)
        self._feed(scenario, subscriptions, newest)
        for sub in subscriptions:
            if not sub.stale and (sub.receive(newest) or sub.alerted()):
                sub.rouse()

    def _feed(
        self,
        scenario: str,
        subscriptions: Iterable[SocketSubscription],
        newest: Mapping[str, LiveRecord],
    ) -> None:
        """Pass records on to what feeds the sockets, looking up only once what a page shows."""
        by_page: dict[Page, News] = {}
        feeds = {feed for sub in subscriptions if (feed := sub.feed)}
        for feed in feeds:
            if feed.page not in by_page:
                by_page[feed.page] = News.of(newest, feed.filter)
            feed.receive(by_page[feed.page])
        if scenario in self._apart and unite(feeds, self._offsets[scenario]):
            self._apart.discard(scenario)

    def annotate(self, scenario: str, marks: Iterable[RowMark]) -> None:
        """Apply marks of rows, in whatever order; those that are known already change nothing."""
        with self._lock:
            known = self._marks.setdefault(scenario, {})
            news = {
                mark.asset: mark
                for mark in marks
                if mark.asset not in known or mark.revision > known[mark.asset].revision
            }
            if not news:
                return
            regrouped = any(_handles_otherwise(known.get(a), mark) for a, mark in news.items())
            known.update(news)
            self._annotated.add(scenario)
            for sub in self._subscriptions.get(scenario, ()):
                if regrouped and sub.follows_marks():
                    sub.invalidate()
                    sub.rouse()
                elif sub.receive_marks(news):
                    sub.rouse()

    def set_next_expiry(self, scenario: str, at: int | None) -> None:
        """Set when the first acknowledgement or maintenance ends, Unix ms, None for never."""
        with self._lock:
            if at is None:
                self._expiries.pop(scenario, None)
            else:
                self._expiries[scenario] = at

    def expire(self, now: int) -> set[str]:
        """Have sockets read again of which what has ended by `now` (Unix ms) may change the rows.

        Returns the scenarios in which something has ended.
        """
        with self._lock:
            ended = {scenario for scenario, at in self._expiries.items() if at <= now}
            for scenario in ended:
                del self._expiries[scenario]
                for sub in self._subscriptions.get(scenario, ()):
                    if sub.follows_marks():
                        sub.invalidate()
                        sub.rouse()
            return ended

    def annotated(self) -> set[str]:
        """Return the scenarios whose marks have changed since the last call."""
        with self._lock:
            names, self._annotated = self._annotated, set()
            return names

    def prune(self, offsets: Offsets) -> None:
        """Forget what the database holds by now."""
        with self._lock:
            for scenario, overlay in self._overlay.items():
                kept = {a: e for a, e in overlay.items() if e.offset >= offsets.get(e.place, 0)}
                self._overlay[scenario] = kept

    def ahead(self) -> int:
        """Return how many assets have a record that the database may not hold yet."""
        with self._lock:
            return sum(map(len, self._overlay.values()))

    def set_figure(self, scenario: str, figure: Figure, numbers: Figures) -> None:
        """Set a figure of a scenario, and send it to its sockets if it has changed."""
        with self._lock:
            figures = self._figures.setdefault(scenario, {each: {} for each in EMPTY_AT_FIRST})
            if figures.get(figure) == numbers:
                return
            figures[figure] = numbers
            for sub in self._subscriptions.get(scenario, ()):
                sub.set_figure(figure, numbers)
                sub.rouse()

    def forget_counts(self, scenario: str) -> None:
        """Forget the counts of a scenario that were set: they are not those of now any more."""
        with self._lock:
            for figure in FORGOTTEN:
                self._figures.get(scenario, {}).pop(figure, None)

    def marks(self, scenario: str) -> Mapping[str, RowMark]:
        """Return what people have added to the scenario's assets."""
        return self._marks.get(scenario, {})

    def invalidate(self, scenario: str | None = None) -> None:
        """Invalidate every socket, or every one of a scenario, which needs a new snapshot.

        Records may have been passed over, or what belongs to them.
        """
        with self._lock:
            for name, subs in self._subscriptions.items():
                for sub in subs if scenario in (None, name) else ():
                    sub.invalidate()
                    sub.rouse()

    def record_heartbeat(self, at: int) -> None:
        """Record that a heartbeat of the job was appended at this time (Unix ms)."""
        self.heartbeat_at = max(at, self.heartbeat_at or 0)

    # ---- what pages and sockets ask ----

    def overlay(self, scenario: str) -> dict[str, LiveRecord]:
        """Return the newest records of a scenario beyond the database.

        Call before the database is read.
        """
        with self._lock:
            return dict(self._overlay.get(scenario, {}))

    def entry(self, scenario: str, asset: str) -> LiveRecord | None:
        """Return the newest record of one asset, if it may be newer than the database's."""
        with self._lock:
            return self._overlay.get(scenario, {}).get(asset)

    def figure(self, figure: Figure) -> dict[str, Figures]:
        """Return a figure by scenario where it is that of now; others are left out."""
        with self._lock:
            figures = self._figures.items()
            return {name: known[figure] for name, known in figures if figure in known}

    def sockets(self) -> int:
        """Return how many sockets are open."""
        return sum(map(len, self._subscriptions.values()))

    def subscribe(self, subscription: SocketSubscription) -> None:
        """Add a socket, to which changes are sent from here on."""
        with self._lock:
            self._subscriptions.setdefault(subscription.scenario, set()).add(subscription)

    def unsubscribe(self, subscription: SocketSubscription) -> None:
        """Remove a socket, which is closed."""
        with self._lock:
            self._subscriptions.get(subscription.scenario, set()).discard(subscription)

    def begin(self, subscription: SocketSubscription) -> None:
        """Begin a socket's snapshot, which is about to be read.

        Call for the overlay to merge after this.
        """
        with self._lock:
            subscription.begin()

    def settle(
        self,
        subscription: SocketSubscription,
        rows: Sequence[Row],
        last: Order | None,
        offsets: Offsets,
        stopped: bool = False,
    ) -> None:
        """Record that the socket's snapshot has been read."""
        with self._lock:
            subscription.settle(rows, last, offsets, stopped)
            self._apart.add(subscription.scenario)

    def restart(self, subscription: SocketSubscription) -> None:
        """Invalidate a socket that requests a new snapshot."""
        with self._lock:
            subscription.invalidate()

    def take(self, subscription: SocketSubscription) -> Changes:
        """Return what the socket has yet to be sent."""
        with self._lock:
            return subscription.take(self._marks.get(subscription.scenario, {}))

    def set_alarm(self, subscription: SocketSubscription, alarm: AlarmStates | None) -> None:
        """Set what the socket's browser is to be alarmed of from here on."""
        with self._lock:
            subscription.alarm = alarm

    def refilter(self, subscription: SocketSubscription, page_filter: PageFilter) -> None:
        """Show something else to the socket from here on."""
        with self._lock:
            before, subscription.filter = subscription.filter, page_filter
            if before.page() != page_filter.page():
                subscription.invalidate()


def _alarm(subscriptions: Iterable[SocketSubscription], came: Mapping[str, LiveRecord]) -> None:
    """Alert sockets of new states, looked up once for those with the same alarm."""
    by_alarm: dict[tuple[AlarmStates, Page], list[Raised]] = {}
    for sub in subscriptions:
        if sub.alarm is not None:
            key = (sub.alarm, sub.filter.page())
            if key not in by_alarm:
                by_alarm[key] = raised(came, sub.alarm, sub.filter)
            sub.alert(by_alarm[key])


def _handles_otherwise(before: RowMark | None, mark: RowMark) -> bool:
    """Return whether a mark says something else of who has the asset in hand, or of work on it."""
    known = (None, None) if before is None else (before.ack, before.work)
    return (mark.ack, mark.work) != known


# ---- shared live view ----------------------------------------------------------------------------
# The one LiveView of a web process.


@lru_cache(maxsize=1)
def live_view() -> LiveView:
    """Return what this process knows beyond the database; empty where no tailer runs."""
    return LiveView()
