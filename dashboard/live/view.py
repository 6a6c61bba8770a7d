"""What a process knows beyond the database, and what each of its sockets has yet to be told.

Nothing here asks a clock, a database or Kafka. One thread applies records; sockets read from
another: a lock guards both sides.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, NamedTuple

import msgspec

from dashboard.job.signs import Signs
from dashboard.live.rows import Row, order_of

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
    """What a socket shows. watch: an asset to be told of even where no row of it is shown."""

    states: frozenset[str] = frozenset()
    q: str = ""
    rows: bool = True
    watch: str | None = None

    def matches(self, row: Row | None) -> bool:
        """Whether a row belongs to what is shown."""
        if row is None or not self.rows:
            return False
        if self.states and row["state"] not in self.states:
            return False
        return self.q.lower() in row["asset"].lower()


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

    stale: it needs a new snapshot before anything else.
    """

    scenario: str
    wake: Callable[[], object]
    filter: Filter = Filter()
    stale: bool = True
    held: set[str] = field(default_factory=set)
    _last: tuple[int, int, str] | None = None
    _reading: bool = False
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
        self.stale = False

    def settle(self, rows: Sequence[Row], total: int, offsets: Offsets) -> None:
        """The snapshot was read: it holds these rows of `total`, and all before `offsets`."""
        self._reading = False
        self.held = {row["asset"] for row in rows}
        self._last = order_of(rows[-1]) if total > len(rows) > 0 else None
        self._base = offsets
        waiting, self._pending = self._pending, {}
        for entry in waiting.values():
            self.offer(entry)

    def offer(self, entry: Entry) -> bool:
        """Take a change that this socket has to hear of; whether it is one."""
        if self.stale or entry.offset < self._base.get(entry.place, 0):
            return False
        watched = entry.asset == self.filter.watch
        if watched:
            self._watched = entry.version
        known = entry.asset in self.held or entry.asset in self._pending
        if not (known or self._reading or self._shows(entry.row)):
            return watched
        self._pending[entry.asset] = entry
        if len(self._pending) > (MOST_WAITING if self._reading else MOST_HELD):
            self.invalidate()
        return True

    def offer_counts(self, counts: dict[str, int]) -> None:
        """The scenario's counts have changed."""
        self._counts = counts

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
        if len(self.held) > MOST_HELD or (self._last and len(self.held) < FEW_HELD):
            self.stale = True
        return changes

    def _shows(self, row: Row | None) -> bool:
        if row is None or not self.filter.matches(row):
            return False
        return self._last is None or order_of(row) <= self._last


class LiveView:
    """The overlay of records newer than the database, and the sockets to tell of them."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._overlay: dict[str, dict[str, Entry]] = {}
        self._subscriptions: set[Subscription] = set()
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
            concerned = [sub for sub in self._subscriptions if sub.scenario == scenario]
            woken: set[int] = set()
            for entry in entries:
                known = overlay.get(entry.asset)
                newest = max(floor.get(entry.asset, ""), known.version if known else "")
                if entry.version < newest or (known and entry.version == known.version):
                    continue
                overlay[entry.asset] = entry
                woken.update(id(sub) for sub in concerned if sub.offer(entry))
            for sub in concerned:
                if id(sub) in woken:
                    sub.wake()

    def prune(self, offsets: Offsets) -> None:
        """Forget what the database holds by now."""
        with self._lock:
            for scenario, overlay in self._overlay.items():
                kept = {a: e for a, e in overlay.items() if e.offset >= offsets.get(e.place, 0)}
                self._overlay[scenario] = kept

    def set_counts(self, scenario: str, counts: dict[str, int]) -> None:
        """The counts by state of a scenario, as of now."""
        with self._lock:
            if self._counts.get(scenario) == counts:
                return
            self._counts[scenario] = counts
            for sub in self._subscriptions:
                if sub.scenario == scenario:
                    sub.offer_counts(counts)
                    sub.wake()

    def invalidate(self) -> None:
        """Records may have been passed over: every socket needs a new snapshot."""
        with self._lock:
            for sub in self._subscriptions:
                sub.invalidate()
                sub.wake()

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

    def watched(self) -> bool:
        """Whether any socket is open."""
        return bool(self._subscriptions)

    def subscribe(self, subscription: Subscription) -> None:
        """From here on the socket is told of changes."""
        with self._lock:
            self._subscriptions.add(subscription)

    def unsubscribe(self, subscription: Subscription) -> None:
        """The socket is closed."""
        with self._lock:
            self._subscriptions.discard(subscription)

    def begin(self, subscription: Subscription) -> dict[str, Entry]:
        """A socket is about to read a snapshot: the overlay to merge into it."""
        with self._lock:
            subscription.begin()
            return dict(self._overlay.get(subscription.scenario, {}))

    def settle(
        self, subscription: Subscription, rows: Sequence[Row], total: int, offsets: Offsets
    ) -> None:
        """The socket has read its snapshot."""
        with self._lock:
            subscription.settle(rows, total, offsets)

    def take(self, subscription: Subscription) -> Changes:
        """What the socket has yet to be told."""
        with self._lock:
            return subscription.take()

    def refilter(self, subscription: Subscription, wanted: Filter) -> None:
        """The socket shows something else from here on."""
        with self._lock:
            shown = (subscription.filter.states, subscription.filter.q, subscription.filter.rows)
            subscription.filter = wanted
            if shown != (wanted.states, wanted.q, wanted.rows):
                subscription.invalidate()


class Merged(NamedTuple):
    """Rows of the database and the overlay as one, in the board's order."""

    rows: list[Row]
    total: int
    counts: dict[str, int]


def merge(
    rows: Iterable[Row],
    total: int,
    counts: Mapping[str, int],
    stored: Mapping[str, tuple[str, str]],
    overlay: Mapping[str, Entry],
    wanted: Filter,
) -> Merged:
    """The newest of both by version.

    total, counts: of the database alone; stored: version and state ("" once purged) that the
    database has of the overlay's assets.
    """
    newer = {a: e for a, e in overlay.items() if e.version > stored.get(a, ("", ""))[0]}
    shown = [row for row in rows if row["asset"] not in newer]
    tally = dict(counts)
    for asset, entry in newer.items():
        before = stored.get(asset, ("", ""))[1]
        if before:
            tally[before] = tally.get(before, 0) - 1
            total -= wanted.matches({"asset": asset, "state": before})
        if entry.row is not None:
            tally[entry.row["state"]] = tally.get(entry.row["state"], 0) + 1
        if wanted.matches(entry.row):
            assert entry.row is not None
            shown.append(entry.row)
            total += 1
    shown.sort(key=order_of)
    return Merged(shown[:LIMIT], total, {state: n for state, n in tally.items() if n > 0})


def plain_changes(seq: int, changes: Changes) -> bytes:
    """A `changes` message; each row was serialised once for all sockets."""
    rest: dict[str, Any] = {"type": "changes", "seq": seq}
    if changes.gone:
        rest["gone"] = changes.gone
    if changes.counts is not None:
        rest["counts"] = changes.counts
    if changes.watched:
        rest["watched"] = changes.watched
    rows = b",".join(entry.json() for entry in changes.entries)
    return msgspec.json.encode(rest)[:-1] + b',"rows":[' + rows + b"]}"
