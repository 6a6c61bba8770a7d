"""One board in Python: a topic, a database and a tailer that read it, a socket and its browser."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import pytest

from dashboard.board.live import consumer, feeds, snapshots
from dashboard.board.live.consumer import plain_changes
from dashboard.board.live.feeds import Changes
from dashboard.board.live.live_view import LiveView
from dashboard.board.live.page_filter import LiveRecord, Order, PageFilter, token_of_order
from dashboard.board.live.snapshots import Merged, StoredPage, merge, newer_than
from dashboard.board.live.subscription import SocketSubscription
from dashboard.core.states.board_rows import Row, row_of
from dashboard.core.states.caveats import DOUBTS
from dashboard.core.states.filter_terms import UNHANDLED, Filter, Term
from dashboard.core.states.queries import Kept
from dashboard.watch.annotations.row_marks import NO_HAND, AckMark, Hand, RowMark, Work, in_force
from domain.records import DeadLetter, StateRecord
from domain.scenario import Scenario
from support.histories.histories import History, play
from support.web.liveclient import Client, assert_snapshot_plus_events
from wire.sink import encode_state, state_value

PLACE = ("watch.states", 0)
LIMIT = 2
"""Small, so that the few assets of a history do not all fit."""


UNHANDLED_ONLY = PageFilter(terms=Filter((Term("is", (UNHANDLED,)),)))


def made_bodies(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Return a list into which every message with changes goes when it is made."""
    made: list[bytes] = []
    make = consumer._body

    def noted(changes: Changes) -> bytes:
        made.append(make(changes))
        return made[-1]

    monkeypatch.setattr(consumer, "_body", noted)
    return made


@contextmanager
def small_board() -> Iterator[None]:
    """A board of two rows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(snapshots, "LIMIT", LIMIT)
        patch.setattr(feeds, "MOST_HELD", 2 * LIMIT)
        patch.setattr(feeds, "FEW_HELD", LIMIT)
        yield


def log_of(history: History, replays: list[tuple[int, int]]) -> list[LiveRecord]:
    """The states topic that the history makes; replays: where the sink repeats how many."""
    scenario = history.scenario
    emissions = [
        e for e in play(history.bucket(), history.entries) if not isinstance(e, DeadLetter)
    ]
    for at, length in replays:
        here = at % (len(emissions) + 1)
        emissions[here:here] = emissions[max(0, here - length) : here]
    return [_entry(scenario, emission, offset) for offset, emission in enumerate(emissions)]


def _entry(scenario: Scenario, emission: Any, offset: int) -> LiveRecord:
    row = None
    if isinstance(emission, StateRecord):
        row = row_of(scenario, state_value(encode_state(emission)))
    return LiveRecord(emission.asset, emission.version.sortable(), row, PLACE, offset)


def kept_of(entry: LiveRecord) -> Kept:
    """What a database says of an asset of which this is the newest record that it has."""
    row = entry.row
    return Kept(entry.version, row["state"], tuple(row["doubts"])) if row else Kept(entry.version)


def doubts_among(rows: Iterable[Row]) -> dict[str, int]:
    """How many of these rows there is each doubt of."""
    counts = Counter(doubt for row in rows for doubt in row["doubts"])
    return {doubt: counts[doubt] for doubt in DOUBTS}


@dataclass
class Board:
    """A topic, a database that has read some of it, a tailer that has read some of it.

    looks: at so many rows is looked for a page, at most; None: at all that it takes; marks: what
    people said of assets, which is there at once; now: of the clock by which that ends.
    """

    log: list[LiveRecord]
    wanted: PageFilter
    looks: int | None = None
    view: LiveView = field(default_factory=LiveView)
    client: Client = field(default_factory=Client)
    stored: dict[str, LiveRecord] = field(default_factory=dict)
    marks: dict[str, RowMark] = field(default_factory=dict)
    now: int = 0
    written: int = 0
    tailed: int = 0
    reading: Any = None
    seen: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.view.follow("watch", {PLACE: 0})
        self.subscription = SocketSubscription("watch", lambda: None, self.wanted)
        self.view.subscribe(self.subscription)
        self.client.ranking = self.wanted.ranking

    def materialise(self, many: int) -> None:
        for entry in self.log[self.written : self.written + many]:
            old = self.stored.get(entry.asset)
            if old is None or entry.version > old.version:
                self.stored[entry.asset] = entry
        self.written = min(len(self.log), self.written + many)

    def tail(self, many: int) -> None:
        entries = self.log[self.tailed : self.tailed + many]
        floor = {asset: entry.version for asset, entry in self.stored.items()}
        self.view.apply("watch", [self.judged(entry) for entry in entries], floor)
        self.tailed += len(entries)

    def prune(self, _: int = 0) -> None:
        self.view.prune({PLACE: self.written})

    def snapshot(self, number: int = 0) -> None:
        """Begin one, or end the one that was begun: what lies between happens meanwhile.

        number: odd where the database is read at its beginning, else it is at its end.
        """
        if self.reading is None:
            if self.subscription.stale:
                self.view.begin(self.subscription)
                overlay = self.view.overlay("watch")
                early = self.read(overlay) if number % 2 else None
                self.reading = lambda: early or self.read(overlay)
            return
        merged, written, page = self.reading()
        self.reading = None
        stopped = merged.stopped is not None
        self.view.settle(self.subscription, merged.rows, merged.last, {PLACE: written}, stopped)
        self.seen["snapshot"] += 1
        self.seen["later page"] += self.wanted.after is not None and bool(merged.rows)
        self.send({"type": "snapshot", **page, "unhandled": self.unhandled()})

    def read(self, overlay: dict[str, LiveRecord]) -> tuple[Merged, int, dict[str, Any]]:
        """What the database has now, merged: how far it is written, and what a snapshot says."""
        merged = self.database(overlay)
        return merged, self.written, self.page(merged)

    def page(self, merged: Merged) -> dict[str, Any]:
        """What a snapshot says of the rows, and of the marks that they have."""
        marks = [self.marks[row["asset"]] for row in merged.rows if row["asset"] in self.marks]
        return {**merged._asdict(), "marks": marks}

    def reread(self, number: int = 0) -> None:
        """The browser requests a snapshot, of which the reading begins."""
        if self.reading is None:
            self.view.restart(self.subscription)
            self.snapshot(number)

    def flush(self, _: int = 0) -> None:
        if self.reading is not None or self.subscription.stale:
            self.snapshot()
            return
        changes = self.view.take(self.subscription)
        if changes:
            self.seen["gone"] += len(changes.gone)
            self.send(msgspec.json.decode(plain_changes(changes)))

    def acknowledge(self, number: int) -> None:
        """Somebody has an asset in hand for a while, from some severity on, or takes it back."""
        ack = AckMark("ada", 0, self.now + number, number % 2, "") if number else None
        self.mark(number, ack=ack)

    def work(self, number: int) -> None:
        """Maintenance of an asset begins, or ends."""
        self.mark(number, work=Work("racks", self.now + number, 1) if number else None)

    def join(self, number: int) -> None:
        """The trouble of an asset becomes part of an incident, or is over."""
        self.mark(number, case=1_000 + number if number else None)

    def asset(self, number: int) -> str:
        """One of the assets that alarm, else of the log's."""
        alarming = {entry.asset for entry in self.newest() if entry.row and entry.row["alarming"]}
        names = sorted(alarming or {entry.asset for entry in self.log}) or [""]
        return names[number % len(names)]

    def mark(self, number: int, **said: Any) -> None:
        """Something is said of an asset; with 0 it is taken back, of one that has such a mark."""
        named = [asset for asset, mark in self.marks.items() for key in said if getattr(mark, key)]
        asset = self.asset(number) if number or not named else named[0]
        before = self.marks.get(asset, RowMark(asset, 0, None, 0))
        self.seen["mark"] += 1
        self.marks[asset] = before._replace(revision=before.revision + 1, **said)
        self.view.annotate("watch", [self.marks[asset]])
        self.view.set_next_expiry("watch", min(self.ends(), default=None))

    def ends(self) -> list[int]:
        """When what handles assets ends."""
        parts = [part for mark in self.marks.values() for part in (mark.ack, mark.work)]
        return [part.until for part in parts if part is not None and part.until > self.now]

    def wait(self, ms: int) -> None:
        """Time passes; what ends meanwhile is looked up by the tailer."""
        self.now += ms
        self.client.now = self.now
        if self.view.expire(self.now):
            self.seen["end"] += 1
            self.view.set_next_expiry("watch", min(self.ends(), default=None))

    def hand(self, entry: LiveRecord) -> Hand:
        """What handles an asset by now."""
        mark = self.marks.get(entry.asset)
        if mark is None or entry.row is None:
            return NO_HAND
        held = in_force(mark.ack, entry.row["severity"], 100, self.now)
        return Hand(mark.ack.by if mark.ack and held else None, mark.works(self.now))

    def judged(self, entry: LiveRecord) -> LiveRecord:
        return replace(entry, hand=self.hand(entry))

    def order(self, entry: LiveRecord) -> Order:
        return self.wanted.order(entry.row or {}, self.hand(entry).holds)

    def send(self, message: dict[str, Any]) -> None:
        self.client.apply({**message, "seq": self.client.seq + 1})

    def refilter(self, number: int) -> None:
        if self.reading is None:
            self.wanted = (PageFilter(), PageFilter(frozenset(["good"])), PageFilter(q="A"))[
                number % 3
            ]
            if number > 2:
                self.wanted = replace(self.wanted, after=self.somewhere(number))
            self.view.refilter(self.subscription, self.wanted)

    def somewhere(self, number: int) -> Order | None:
        """The place in the board's order of a row that the database has or had."""
        entries = [entry for entry in self.log[: self.written] if entry.row]
        return self.order(entries[number % len(entries)]) if entries else None

    def database(self, overlay: dict[str, LiveRecord]) -> Merged:
        entries = [self.judged(entry) for entry in self.stored.values() if entry.row]
        entries.sort(key=self.order)
        rows = [entry.row for entry in entries if entry.row]
        counts = Counter(row["state"] for row in rows)
        kept = {asset: kept_of(e) for asset, e in self.stored.items() if asset in overlay}
        newer = {a: self.judged(entry) for a, entry in newer_than(overlay, kept).items()}
        page, stopped = self._page([entry for entry in entries if entry.asset not in newer])
        doubts = doubts_among(rows)
        apart = self.wanted.terms is not None
        left = [entry for entry in entries if not apart or entry.asset not in newer]
        total = self.matching(left)
        stored = StoredPage(page, total, counts, stopped=stopped, apart=apart, doubts=doubts)
        hands = {entry.asset: entry.hand for entry in (*entries, *newer.values())}
        return merge(stored, kept, newer, self.wanted, hands)

    def matching(self, entries: Iterable[LiveRecord]) -> int:
        """How many of these match, on whatever page."""
        return sum(self.wanted.matches(e.row) and self.wanted.allows(e) for e in entries)

    def _page(self, entries: list[LiveRecord]) -> tuple[list[Row], Order | None]:
        """Of what is in order, the page's rows and one more; and where looking ended, before the
        last."""
        after = self.wanted.after
        ahead = [entry for entry in entries if after is None or entry.order > after]
        looked = ahead[: self.looks]
        page = [entry.row for entry in looked if entry.row and self.wanted.shows(entry)]
        ended = len(looked) == len(ahead) or len(page) > LIMIT
        return page[: LIMIT + 1], None if ended else looked[-1].order

    def settle(self) -> None:
        """All is read by the tailer, and told, as often as it takes."""
        self.tail(len(self.log))
        self.view.set_figure("watch", "unhandled", self.unhandled())
        for _ in range(4):
            self.flush()

    def newest(self) -> list[LiveRecord]:
        """The newest record of each asset that is on the board."""
        newest: dict[str, LiveRecord] = {}
        for entry in self.log:
            if entry.asset not in newest or entry.version > newest[entry.asset].version:
                newest[entry.asset] = entry
        return [self.judged(entry) for entry in newest.values() if entry.row]

    def unhandled(self) -> dict[str, int]:
        """How many assets are unhandled, by state."""
        entries = [entry for entry in self.newest() if entry.row and not entry.hand.holds]
        return dict(Counter(e.row["state"] for e in entries if e.row and e.row["alarming"]))

    def check(self) -> None:
        fresh = self.database(self.view.overlay("watch"))
        assert_snapshot_plus_events(self.client, self.page(fresh), LIMIT)
        assert self.client.unhandled == self.unhandled()
        entries = self.newest()
        rows = [entry.row for entry in entries if entry.row]
        assert fresh.counts == Counter(row["state"] for row in rows)
        assert fresh.doubts == doubts_among(rows)
        self.seen.update(fresh.doubts)
        assert fresh.total == self.matching(entries)
        expected = sorted(filter(self.wanted.shows, entries), key=self.order)
        self.seen["handled"] += any(e.hand.holds for e in expected)
        assert fresh.rows == [entry.row for entry in expected[:LIMIT]]
        cut = len(expected) > LIMIT and not self.wanted.ranking
        assert fresh.next == (token_of_order(expected[LIMIT - 1].order) if cut else None)


def beside(board: Board) -> Board:
    """Return another browser's board of the same database and process, which shows the same.

    How far these have come is the first one's to say.
    """
    return Board(board.log, board.wanted, board.looks, board.view, stored=board.stored)
