"""What a process knows beyond the database, and what each of its sockets has yet to be told.

Nothing here asks a clock, a database or Kafka. One thread applies records; sockets read from
another: a lock guards both sides.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, NamedTuple

import msgspec

from dashboard.annotations.marks import Mark
from dashboard.filters.terms import Filter as Terms
from dashboard.filters.terms import Sight
from dashboard.filters.votes import votes_of
from dashboard.job.signs import Signs
from dashboard.labels.store import chips_of
from dashboard.live.alarms import Alarm, Alerts, Raised, note_coming, raised
from dashboard.live.rows import Row, order_of
from domain.names import name_ok

LIMIT = 500
"""Most rows of a snapshot, and most that a browser shows."""
MOST_HELD = 2 * LIMIT
"""More rows than this in one browser, or waiting for it, and it gets a new snapshot instead."""
MOST_WAITING = 20 * LIMIT
"""Most changes that are kept while a snapshot is read."""
FEW_HELD = LIMIT * 4 // 5
"""Fewer rows than this while more would match, and the browser gets a new snapshot."""

Place = tuple[str, int]
"""A sink topic and one of its partitions."""
Offsets = Mapping[Place, int]
Order = tuple[int, int, str]
"""A place in the board's order, as `order_of` gives it."""

_TOKEN = re.compile(r"([0-9]{1,9})\.([0-9]{1,18})\.(.+)", re.DOTALL)
MAX_TOKEN = 300
"""Longest token of a page, characters."""


def token_of(row: Row) -> str:
    """A row's place in the board's order, for an address: `<severity>.<since>.<asset>`."""
    return f"{row['severity']}.{row['since']}.{row['asset']}"


def order_of_token(text: str) -> Order | None:
    """The place that a token names; None for what is no token."""
    found = _TOKEN.fullmatch(text) if len(text) <= MAX_TOKEN else None
    if found is None or not name_ok(found[3]):
        return None
    return (int(found[1]), -int(found[2]), found[3])


@dataclass(slots=True)
class Entry:
    """The newest record of one asset, and where it was read.

    row: None after a purge; value: the record as it stands in the topic; labels: the asset's; ack:
    who has acknowledged it.
    """

    asset: str
    version: str
    row: Row | None
    place: Place
    offset: int
    value: bytes = b""
    labels: Mapping[str, str] = field(default_factory=dict)
    ack: str | None = None
    _json: bytes = b""

    def json(self) -> bytes:
        """The row as JSON, made once for all sockets."""
        if not self._json:
            self._json = msgspec.json.encode(self.row)
        return self._json

    def tell(self, labels: Mapping[str, str], chips: Collection[str], ack: str | None) -> None:
        """Say what is known of the asset beside its states. chips: keys of the labels shown."""
        self.labels, self.ack, self._json = labels, ack, b""
        if self.row is not None:
            self.row["labels"] = chips_of(labels, chips)

    def sight(self) -> Sight:
        """What a filter looks at. Only of an asset that is on the board."""
        row = self.row
        assert row is not None
        votes = votes_of(self.value) if self.value else []
        return Sight(
            row["asset"],
            row["state"],
            row["since"],
            row["unconfirmed"],
            row["pending"][0] if row["pending"] else None,
            tuple(row["override"]) if row["override"] else None,
            [(vote.agent, vote.state) for vote in votes],
            self.labels,
            self.ack,
            any(vote.muted is not None for vote in votes),
        )


@dataclass(frozen=True, slots=True)
class Filter:
    """What a socket shows. watch: an asset to be told of even where no row of it is shown;
    after: only what comes after this place in the board's order: a later page; terms: what is asked
    beyond states and a part of the name, looked at as of `now` (Unix ms) or later."""

    states: frozenset[str] = frozenset()
    q: str = ""
    rows: bool = True
    watch: str | None = None
    after: Order | None = None
    terms: Terms | None = None
    now: int = 0

    def matches(self, row: Row | None) -> bool:
        """Whether a row belongs to what is shown, be it on this page or on another."""
        if row is None or not self.rows:
            return False
        if self.states and row["state"] not in self.states:
            return False
        return not self.q or self.q.lower() in row["asset"].lower()

    def shows(self, row: Row | None) -> bool:
        """Whether a row belongs to this page or to what follows it."""
        if row is None or not self.matches(row):
            return False
        return self.after is None or order_of(row) > self.after

    def allows(self, entry: Entry) -> bool:
        """Whether what is asked beyond states and name is so of an asset that is on the board."""
        if self.terms is None or entry.row is None:
            return entry.row is not None
        return self.terms.matches(entry.sight(), max(self.now, entry.row["caused_at"]))

    @property
    def timed(self) -> bool:
        """Whether the passing of time alone changes what it finds."""
        return self.terms is not None and self.terms.timed

    def page(self) -> Page:
        """What of it decides which rows are shown."""
        return (self.states, self.q, self.rows, self.after, self.terms)


Page = tuple[frozenset[str], str, bool, Order | None, Terms | None]


class News(NamedTuple):
    """Records that were applied together. shown: those that a page shows, in the board's order."""

    entries: Mapping[str, Entry]
    orders: Sequence[Order]
    shown: Sequence[Entry]

    @classmethod
    def of(cls, entries: Mapping[str, Entry], wanted: Filter) -> News:
        """What they are to everybody who shows this page: looked up once for all of them."""
        shown = [
            (order_of(entry.row), entry)
            for entry in entries.values()
            if entry.row is not None and wanted.shows(entry.row) and wanted.allows(entry)
        ]
        shown.sort(key=lambda pair: pair[0])
        return cls(entries, [order for order, _ in shown], [entry for _, entry in shown])

    def up_to(self, last: Order | None) -> Sequence[Entry]:
        """Those shown that are not past `last`."""
        return self.shown if last is None else self.shown[: bisect_right(self.orders, last)]


class Changes(NamedTuple):
    """What one flush tells a socket. counts, acknowledged: None where they are as before; marks:
    what is new, and those of the entries; alerts: of how many the browser is to be alarmed."""

    entries: list[Entry]
    gone: list[tuple[str, str]]
    counts: dict[str, int] | None
    watched: str | None
    marks: list[Mark] = []
    acknowledged: dict[str, int] | None = None
    alerts: tuple[int, list[Raised]] | None = None

    def __bool__(self) -> bool:
        counted = self.counts is not None or self.acknowledged is not None
        said = self.watched or self.marks or self.alerts
        return bool(self.entries or self.gone or said or counted)


@dataclass(slots=True, eq=False)
class Subscription:
    """One socket's side: the newest change per asset until the next flush, and what it holds.

    stale: it needs a new snapshot before anything else. `wake` is called when there is something
    to take, once until it is taken.
    """

    scenario: str
    wake: Callable[[], object]
    filter: Filter = Filter()
    stale: bool = True
    held: set[str] = field(default_factory=set)
    alarm: Alarm | None = None
    _begun: bool = False
    _alerts: Alerts = field(default_factory=Alerts)
    _last: Order | None = None
    _full: bool = True
    _reading: bool = False
    _awake: bool = False
    _base: Offsets = field(default_factory=dict)
    _pending: dict[str, Entry] = field(default_factory=dict)
    _counts: dict[str, int] | None = None
    _acknowledged: dict[str, int] | None = None
    _watched: str | None = None
    _marks: dict[str, Mark] = field(default_factory=dict)

    def begin(self) -> None:
        """A snapshot is about to be read: everything that comes from here on is kept for after."""
        self._pending.clear()
        self._marks.clear()
        self._watched = None
        self._base = {}
        self._reading = True
        self._awake = False
        self.stale = False

    def settle(
        self, rows: Sequence[Row], more: bool, offsets: Offsets, stopped: Order | None = None
    ) -> None:
        """The snapshot was read: it holds these rows and all before `offsets`.

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
        """Take what this socket has to be told of it; whether there is anything."""
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
        if len(self._pending) > most:
            self.invalidate()
        return heard

    def alert(self, found: Iterable[Raised]) -> None:
        """What the browser is to be alarmed of, though it may have missed other changes by now."""
        if self._begun:
            self._alerts.add(found)

    def alerted(self) -> bool:
        """Whether there is something to alarm the browser of."""
        return bool(self._alerts)

    def hear_marks(self, marks: Mapping[str, Mark]) -> bool:
        """Take what this socket has to be told of them; whether there is anything."""
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
        """Whether the snapshot does not rest on it already."""
        return entry.offset >= self._base.get(entry.place, 0)

    def tell_counts(self, counts: dict[str, int]) -> None:
        """The scenario's counts have changed."""
        self._counts = counts

    def tell_acknowledged(self, counts: dict[str, int]) -> None:
        """How many of the scenario are acknowledged has changed."""
        self._acknowledged = counts

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
        """All that waits, which is then told; check `stale` afterwards. marks: all there are."""
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
        told = list(self._marks.values())
        counted = self._acknowledged
        alerts = self._alerts.take()
        changes = Changes(entries, gone, self._counts, self._watched, told, counted, alerts)
        self._pending, self._counts, self._watched = {}, None, None
        self._marks, self._acknowledged = {}, None
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


class LiveView:
    """The overlay of records newer than the database, and the sockets to tell of them."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._overlay: dict[str, dict[str, Entry]] = {}
        self._subscriptions: dict[str, set[Subscription]] = {}
        self._counts: dict[str, dict[str, int]] = {}
        self._acknowledged: dict[str, dict[str, int]] = {}
        self._marks: dict[str, dict[str, Mark]] = {}
        self._annotated: set[str] = set()
        self.heard: int | None = None
        self.signs = Signs()

    # ---- what the tailer tells ----

    def apply(self, scenario: str, entries: Collection[Entry], floor: Mapping[str, str]) -> None:
        """Take records in the order of the topic.

        floor: the database's version of each of these assets: an older record is a replay.
        """
        with self._lock:
            overlay = self._overlay.setdefault(scenario, {})
            newest: dict[str, Entry] = {}
            came: dict[str, Entry] = {}
            for entry in entries:
                known = overlay.get(entry.asset)
                least = max(floor.get(entry.asset, ""), known.version if known else "")
                if entry.version < least or (known and entry.version == known.version):
                    continue
                overlay[entry.asset] = newest[entry.asset] = entry
                note_coming(came, entry)
            if newest:
                self._tell(scenario, newest, came)

    def _tell(self, scenario: str, newest: Mapping[str, Entry], came: Mapping[str, Entry]) -> None:
        """Sockets that show the same page share the looking up of what it shows.

        came: of the assets of `newest`, those that have come to their state with these records.
        """
        by_page: dict[Page, News] = {}
        by_alarm: dict[tuple[Alarm, Page], list[Raised]] = {}
        for sub in self._subscriptions.get(scenario, ()):
            if sub.alarm is not None:
                wanted = (sub.alarm, sub.filter.page())
                if wanted not in by_alarm:
                    by_alarm[wanted] = raised(came, sub.alarm, sub.filter)
                sub.alert(by_alarm[wanted])
            if sub.stale:
                continue
            page = sub.filter.page()
            if page not in by_page:
                by_page[page] = News.of(newest, sub.filter)
            if sub.hear(by_page[page]) or sub.alerted():
                sub.rouse()

    def annotate(self, scenario: str, marks: Iterable[Mark]) -> None:
        """Take marks of rows, in whatever order; those that are known already change nothing."""
        with self._lock:
            known = self._marks.setdefault(scenario, {})
            news = {
                mark.asset: mark
                for mark in marks
                if mark.asset not in known or mark.revision > known[mark.asset].revision
            }
            if not news:
                return
            known.update(news)
            self._annotated.add(scenario)
            for sub in self._subscriptions.get(scenario, ()):
                if sub.filter.terms is not None and sub.filter.terms.asks("ack"):
                    sub.invalidate()
                    sub.rouse()
                elif sub.hear_marks(news):
                    sub.rouse()

    def annotated(self) -> set[str]:
        """The scenarios of which marks were taken since this was last asked."""
        with self._lock:
            found, self._annotated = self._annotated, set()
            return found

    def prune(self, offsets: Offsets) -> None:
        """Forget what the database holds by now."""
        with self._lock:
            for scenario, overlay in self._overlay.items():
                kept = {a: e for a, e in overlay.items() if e.offset >= offsets.get(e.place, 0)}
                self._overlay[scenario] = kept

    def ahead(self) -> int:
        """How many assets have a record that the database may not hold yet."""
        with self._lock:
            return sum(map(len, self._overlay.values()))

    def set_counts(self, scenario: str, counts: dict[str, int]) -> None:
        """The counts by state of a scenario, as of now."""
        with self._lock:
            if self._counts.get(scenario) == counts:
                return
            self._counts[scenario] = counts
            for sub in self._subscriptions.get(scenario, ()):
                sub.tell_counts(counts)
                sub.rouse()

    def set_acknowledged(self, scenario: str, counts: dict[str, int]) -> None:
        """How many assets in each state are acknowledged, as of now."""
        with self._lock:
            if self._acknowledged.get(scenario, {}) == counts:
                return
            self._acknowledged[scenario] = counts
            for sub in self._subscriptions.get(scenario, ()):
                sub.tell_acknowledged(counts)
                sub.rouse()

    def marks(self, scenario: str) -> Mapping[str, Mark]:
        """What people have added to the scenario's assets."""
        return self._marks.get(scenario, {})

    def invalidate(self, scenario: str | None = None) -> None:
        """Records may have been passed over, or what stands beside them: every socket, or every one
        of a scenario, needs a new snapshot."""
        with self._lock:
            for name, subs in self._subscriptions.items():
                for sub in subs if scenario in (None, name) else ():
                    sub.invalidate()
                    sub.rouse()

    def hear(self, at: int) -> None:
        """A heartbeat of the job was appended at this time (Unix ms)."""
        self.heard = max(at, self.heard or 0)

    # ---- what pages and sockets ask ----

    def overlay(self, scenario: str) -> dict[str, Entry]:
        """The newest records of a scenario beyond the database. Ask before the database is read."""
        with self._lock:
            return dict(self._overlay.get(scenario, {}))

    def entry(self, scenario: str, asset: str) -> Entry | None:
        """The newest record of one asset, if it may be newer than the database's."""
        with self._lock:
            return self._overlay.get(scenario, {}).get(asset)

    def counts(self) -> dict[str, dict[str, int]]:
        """The counts by scenario that were last set."""
        with self._lock:
            return dict(self._counts)

    def sockets(self) -> int:
        """How many sockets are open."""
        return sum(map(len, self._subscriptions.values()))

    def subscribe(self, subscription: Subscription) -> None:
        """From here on the socket is told of changes."""
        with self._lock:
            self._subscriptions.setdefault(subscription.scenario, set()).add(subscription)

    def unsubscribe(self, subscription: Subscription) -> None:
        """The socket is closed."""
        with self._lock:
            self._subscriptions.get(subscription.scenario, set()).discard(subscription)

    def begin(self, subscription: Subscription) -> None:
        """A socket is about to have a snapshot read. Ask for the overlay to merge after this."""
        with self._lock:
            subscription.begin()

    def settle(
        self,
        subscription: Subscription,
        rows: Sequence[Row],
        more: bool,
        offsets: Offsets,
        stopped: Order | None = None,
    ) -> None:
        """The socket's snapshot has been read."""
        with self._lock:
            subscription.settle(rows, more, offsets, stopped)

    def restart(self, subscription: Subscription) -> None:
        """The socket asks for a new snapshot."""
        with self._lock:
            subscription.invalidate()

    def take(self, subscription: Subscription) -> Changes:
        """What the socket has yet to be told."""
        with self._lock:
            return subscription.take(self._marks.get(subscription.scenario, {}))

    def set_alarm(self, subscription: Subscription, alarm: Alarm | None) -> None:
        """What the socket's browser is to be alarmed of from here on."""
        with self._lock:
            subscription.alarm = alarm

    def refilter(self, subscription: Subscription, wanted: Filter) -> None:
        """The socket shows something else from here on."""
        with self._lock:
            before, subscription.filter = subscription.filter, wanted
            if before.page() != wanted.page():
                subscription.invalidate()


class Merged(NamedTuple):
    """Rows of the database and the overlay as one page, in the board's order.

    next: the token of the page that follows, None where nothing does; least: more than `total` may
    match; stopped: the place up to which the board was looked at, where that was not its end.
    """

    rows: list[Row]
    total: int
    counts: dict[str, int]
    next: str | None = None
    least: bool = False
    stopped: Order | None = None


class Stored(NamedTuple):
    """What the database has of a page. rows: more than LIMIT of those that no newer record has
    taken the place of, or all that there are; total: of all that match; stopped: where looking
    ended before the board did; apart: `total` is without what a newer record has taken the place
    of."""

    rows: Iterable[Row]
    total: int
    counts: Mapping[str, int]
    least: bool = False
    stopped: Order | None = None
    apart: bool = False


def newer_than(
    overlay: Mapping[str, Entry], versions: Mapping[str, tuple[str, str]]
) -> dict[str, Entry]:
    """Of the overlay, what is newer than the database's version of the asset."""
    return {a: e for a, e in overlay.items() if e.version > versions.get(a, ("", ""))[0]}


def merge(
    stored: Stored,
    versions: Mapping[str, tuple[str, str]],
    overlay: Mapping[str, Entry],
    wanted: Filter,
) -> Merged:
    """The newest of both by version.

    versions: version and state ("" once purged) that the database has of the overlay's assets.
    """
    newer = newer_than(overlay, versions)
    shown = [row for row in stored.rows if row["asset"] not in newer]
    tally, total = dict(stored.counts), stored.total
    for asset, entry in newer.items():
        before = versions.get(asset, ("", ""))[1]
        if before:
            tally[before] = tally.get(before, 0) - 1
            total -= not stored.apart and wanted.matches({"asset": asset, "state": before})
        if entry.row is not None:
            tally[entry.row["state"]] = tally.get(entry.row["state"], 0) + 1
            if wanted.matches(entry.row) and wanted.allows(entry):
                total += 1
                if wanted.shows(entry.row):
                    shown.append(entry.row)
    shown.sort(key=order_of)
    follows, stopped = _cut(shown, stored.stopped)
    positive = {state: n for state, n in tally.items() if n > 0}
    return Merged(shown[:LIMIT], max(total, 0), positive, follows, stored.least, stopped)


def _cut(shown: list[Row], stopped: Order | None) -> tuple[str | None, Order | None]:
    """The token of the page that follows, and the place where this one ends early, if either is.

    What lies past the place where looking ended belongs to the next page.
    """
    if stopped is not None:
        shown[:] = [row for row in shown if order_of(row) <= stopped]
    if len(shown) > LIMIT:
        return token_of(shown[LIMIT - 1]), None
    if stopped is None:
        return None, None
    severity, newest, asset = stopped
    return f"{severity}.{-newest}.{asset}", stopped


def plain_changes(changes: Changes) -> bytes:
    """A `changes` message; each row was serialised once for all sockets."""
    rest: dict[str, Any] = {"type": "changes"}
    if changes.gone:
        rest["gone"] = changes.gone
    if changes.counts is not None:
        rest["counts"] = changes.counts
    if changes.watched:
        rest["watched"] = changes.watched
    if changes.marks:
        rest["marks"] = changes.marks
    if changes.acknowledged is not None:
        rest["acknowledged"] = changes.acknowledged
    if changes.alerts is not None:
        rest["alerts"] = changes.alerts
    rows = b",".join(entry.json() for entry in changes.entries)
    return msgspec.json.encode(rest)[:-1] + b',"rows":[' + rows + b"]}"


def numbered(seq: int, message: bytes) -> bytes:
    """A message that is to be acknowledged with this number."""
    return message[:-1] + b',"seq":%d}' % seq
