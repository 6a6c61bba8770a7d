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

from dashboard.job.signs import Signs
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

    row: None after a purge; value: the record as it stands in the topic.
    """

    asset: str
    version: str
    row: Row | None
    place: Place
    offset: int
    value: bytes = b""
    _json: bytes = b""

    def json(self) -> bytes:
        """The row as JSON, made once for all sockets."""
        if not self._json:
            self._json = msgspec.json.encode(self.row)
        return self._json


@dataclass(frozen=True, slots=True)
class Filter:
    """What a socket shows. watch: an asset to be told of even where no row of it is shown;
    after: only what comes after this place in the board's order: a later page."""

    states: frozenset[str] = frozenset()
    q: str = ""
    rows: bool = True
    watch: str | None = None
    after: Order | None = None

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

    def page(self) -> Page:
        """What of it decides which rows are shown."""
        return (self.states, self.q, self.rows, self.after)


Page = tuple[frozenset[str], str, bool, Order | None]


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
            if entry.row is not None and wanted.shows(entry.row)
        ]
        shown.sort(key=lambda pair: pair[0])
        return cls(entries, [order for order, _ in shown], [entry for _, entry in shown])

    def up_to(self, last: Order | None) -> Sequence[Entry]:
        """Those shown that are not past `last`."""
        return self.shown if last is None else self.shown[: bisect_right(self.orders, last)]


class Changes(NamedTuple):
    """What one flush tells a socket. counts: None where they are as before."""

    entries: list[Entry]
    gone: list[tuple[str, str]]
    counts: dict[str, int] | None
    watched: str | None

    def __bool__(self) -> bool:
        return bool(self.entries or self.gone or self.watched or self.counts is not None)


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
    _last: Order | None = None
    _reading: bool = False
    _awake: bool = False
    _base: Offsets = field(default_factory=dict)
    _pending: dict[str, Entry] = field(default_factory=dict)
    _counts: dict[str, int] | None = None
    _watched: str | None = None

    def begin(self) -> None:
        """A snapshot is about to be read: everything that comes from here on is kept for after."""
        self._pending.clear()
        self._watched = None
        self._base = {}
        self._reading = True
        self._awake = False
        self.stale = False

    def settle(self, rows: Sequence[Row], more: bool, offsets: Offsets) -> None:
        """The snapshot was read: it holds these rows and all before `offsets`.

        more: rows that match follow after these.
        """
        self._reading = False
        self.held = {row["asset"] for row in rows}
        self._last = order_of(rows[-1]) if more and rows else None
        self._base = offsets
        waiting, self._pending = self._pending, {}
        if self.hear(News.of(waiting, self.filter)):
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

    def rouse(self) -> None:
        """Wake the socket, unless it has been woken and has not looked yet."""
        if not self._awake:
            self._awake = True
            self.wake()

    def invalidate(self) -> None:
        """Forget what waits: the socket needs a new snapshot."""
        self.stale = True
        self._pending.clear()

    def take(self) -> Changes:
        """All that waits, which is then told; check `stale` afterwards."""
        entries: list[Entry] = []
        gone: list[tuple[str, str]] = []
        for entry in self._pending.values():
            if self._shows(entry.row):
                entries.append(entry)
                self.held.add(entry.asset)
            elif entry.asset in self.held:
                gone.append((entry.asset, entry.version))
                self.held.discard(entry.asset)
        changes = Changes(entries, gone, self._counts, self._watched)
        self._pending, self._counts, self._watched = {}, None, None
        self._awake = False
        if len(self.held) > MOST_HELD or (self._last and len(self.held) < FEW_HELD):
            self.stale = True
        return changes

    def _shows(self, row: Row | None) -> bool:
        if row is None or not self.filter.shows(row):
            return False
        return self._last is None or order_of(row) <= self._last


class LiveView:
    """The overlay of records newer than the database, and the sockets to tell of them."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._overlay: dict[str, dict[str, Entry]] = {}
        self._subscriptions: dict[str, set[Subscription]] = {}
        self._counts: dict[str, dict[str, int]] = {}
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
            for entry in entries:
                known = overlay.get(entry.asset)
                least = max(floor.get(entry.asset, ""), known.version if known else "")
                if entry.version < least or (known and entry.version == known.version):
                    continue
                overlay[entry.asset] = newest[entry.asset] = entry
            if newest:
                self._tell(scenario, newest)

    def _tell(self, scenario: str, newest: Mapping[str, Entry]) -> None:
        """Sockets that show the same page share the looking up of what it shows."""
        by_page: dict[Page, News] = {}
        for sub in self._subscriptions.get(scenario, ()):
            if sub.stale:
                continue
            page = sub.filter.page()
            if page not in by_page:
                by_page[page] = News.of(newest, sub.filter)
            if sub.hear(by_page[page]):
                sub.rouse()

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

    def invalidate(self) -> None:
        """Records may have been passed over: every socket needs a new snapshot."""
        with self._lock:
            for subs in self._subscriptions.values():
                for sub in subs:
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
        self, subscription: Subscription, rows: Sequence[Row], more: bool, offsets: Offsets
    ) -> None:
        """The socket's snapshot has been read."""
        with self._lock:
            subscription.settle(rows, more, offsets)

    def restart(self, subscription: Subscription) -> None:
        """The socket asks for a new snapshot."""
        with self._lock:
            subscription.invalidate()

    def take(self, subscription: Subscription) -> Changes:
        """What the socket has yet to be told."""
        with self._lock:
            return subscription.take()

    def refilter(self, subscription: Subscription, wanted: Filter) -> None:
        """The socket shows something else from here on."""
        with self._lock:
            before, subscription.filter = subscription.filter, wanted
            if before.page() != wanted.page():
                subscription.invalidate()


class Merged(NamedTuple):
    """Rows of the database and the overlay as one page, in the board's order.

    next: the token of the page that follows, None where nothing does; least: more than `total` may
    match.
    """

    rows: list[Row]
    total: int
    counts: dict[str, int]
    next: str | None = None
    least: bool = False


class Stored(NamedTuple):
    """What the database has of a page. rows: more than LIMIT of those that no newer record has
    taken the place of, or all that there are; total: of all that match."""

    rows: Iterable[Row]
    total: int
    counts: Mapping[str, int]
    least: bool = False


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
            total -= wanted.matches({"asset": asset, "state": before})
        if entry.row is not None:
            tally[entry.row["state"]] = tally.get(entry.row["state"], 0) + 1
            total += wanted.matches(entry.row)
            if wanted.shows(entry.row):
                shown.append(entry.row)
    shown.sort(key=order_of)
    follows = token_of(shown[LIMIT - 1]) if len(shown) > LIMIT else None
    positive = {state: n for state, n in tally.items() if n > 0}
    return Merged(shown[:LIMIT], max(total, 0), positive, follows, stored.least)


def plain_changes(changes: Changes) -> bytes:
    """A `changes` message; each row was serialised once for all sockets."""
    rest: dict[str, Any] = {"type": "changes"}
    if changes.gone:
        rest["gone"] = changes.gone
    if changes.counts is not None:
        rest["counts"] = changes.counts
    if changes.watched:
        rest["watched"] = changes.watched
    rows = b",".join(entry.json() for entry in changes.entries)
    return msgspec.json.encode(rest)[:-1] + b',"rows":[' + rows + b"]}"


def numbered(seq: int, message: bytes) -> bytes:
    """A message that is to be acknowledged with this number."""
    return message[:-1] + b',"seq":%d}' % seq
