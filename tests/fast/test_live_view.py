"""The overlay and the sockets' side of it, held against a fresh snapshot in any interleaving."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import pytest
from histories import History, histories, play, seeded
from hypothesis import given, settings
from hypothesis import strategies as st
from liveclient import Client, assert_snapshot_plus_events

from dashboard.live import merging, subscription
from dashboard.live.entries import Entry
from dashboard.live.merging import Merged, Stored, merge, newer_than
from dashboard.live.messages import plain_changes
from dashboard.live.rows import order_of, row_of
from dashboard.live.shown import Filter, Order, order_of_token, token_of
from dashboard.live.subscription import Subscription
from dashboard.live.view import LiveView
from domain.records import DeadLetter, StateRecord
from domain.scenario import Scenario
from wire.sink import encode_state

PLACE = ("watch.states", 0)
LIMIT = 2
"""Small, so that the few assets of a history do not all fit."""


@pytest.fixture(autouse=True, scope="module")
def small_board():
    """A board of two rows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merging, "LIMIT", LIMIT)
        patch.setattr(subscription, "MOST_HELD", 2 * LIMIT)
        patch.setattr(subscription, "FEW_HELD", LIMIT)
        yield


def log_of(history: History, replays: list[tuple[int, int]]) -> list[Entry]:
    """The states topic that the history makes; replays: where the sink repeats how many."""
    scenario = history.scenario
    emissions = [
        e for e in play(history.bucket(), history.entries) if not isinstance(e, DeadLetter)
    ]
    for at, length in replays:
        here = at % (len(emissions) + 1)
        emissions[here:here] = emissions[max(0, here - length) : here]
    return [_entry(scenario, emission, offset) for offset, emission in enumerate(emissions)]


def _entry(scenario: Scenario, emission: Any, offset: int) -> Entry:
    row = None
    if isinstance(emission, StateRecord):
        row = row_of(scenario, msgspec.json.decode(encode_state(emission)))
    return Entry(emission.asset, emission.version.sortable(), row, PLACE, offset)


@dataclass
class Board:
    """A topic, a database that has read some of it, a tailer that has read some of it."""

    log: list[Entry]
    wanted: Filter
    view: LiveView = field(default_factory=LiveView)
    client: Client = field(default_factory=Client)
    stored: dict[str, Entry] = field(default_factory=dict)
    written: int = 0
    tailed: int = 0
    reading: Any = None
    seen: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.subscription = Subscription("watch", lambda: None, self.wanted)
        self.view.subscribe(self.subscription)

    def materialise(self, many: int) -> None:
        for entry in self.log[self.written : self.written + many]:
            old = self.stored.get(entry.asset)
            if old is None or entry.version > old.version:
                self.stored[entry.asset] = entry
        self.written = min(len(self.log), self.written + many)

    def tail(self, many: int) -> None:
        entries = self.log[self.tailed : self.tailed + many]
        floor = {asset: entry.version for asset, entry in self.stored.items()}
        self.view.apply("watch", entries, floor)
        self.tailed += len(entries)

    def prune(self, _: int = 0) -> None:
        self.view.prune({PLACE: self.written})

    def snapshot(self, _: int = 0) -> None:
        """Begin one, or end the one that was begun: what lies between happens meanwhile."""
        if self.reading is None:
            if self.subscription.stale:
                self.view.begin(self.subscription)
                self.reading = self.view.overlay("watch")
            return
        overlay, self.reading = self.reading, None
        merged = self.database(overlay)
        more = merged.next is not None
        self.view.settle(self.subscription, merged.rows, more, {PLACE: self.written})
        self.seen["snapshot"] += 1
        self.seen["later page"] += self.wanted.after is not None and bool(merged.rows)
        self.send({"type": "snapshot", **merged._asdict()})

    def flush(self, _: int = 0) -> None:
        if self.reading is not None or self.subscription.stale:
            self.snapshot()
            return
        changes = self.view.take(self.subscription)
        if changes:
            self.seen["gone"] += len(changes.gone)
            self.send(msgspec.json.decode(plain_changes(changes)))

    def send(self, message: dict[str, Any]) -> None:
        self.client.apply({**message, "seq": self.client.seq + 1})

    def refilter(self, number: int) -> None:
        if self.reading is None:
            self.wanted = (Filter(), Filter(frozenset(["good"])), Filter(q="A"))[number % 3]
            if number > 2:
                self.wanted = replace(self.wanted, after=self.somewhere(number))
            self.view.refilter(self.subscription, self.wanted)

    def somewhere(self, number: int) -> Order | None:
        """The place in the board's order of a row that the database has or had."""
        rows = [entry.row for entry in self.log[: self.written] if entry.row]
        return order_of_token(token_of(rows[number % len(rows)])) if rows else None

    def database(self, overlay: dict[str, Entry]) -> Merged:
        rows = sorted((e.row for e in self.stored.values() if e.row), key=order_of)
        matching = [row for row in rows if self.wanted.matches(row)]
        counts = Counter(row["state"] for row in rows)
        versions = {
            asset: (e.version, e.row["state"] if e.row else "")
            for asset, e in self.stored.items()
            if asset in overlay
        }
        newer = newer_than(overlay, versions)
        shown = [r for r in rows if self.wanted.shows(r) and r["asset"] not in newer]
        page = shown[: LIMIT + 1]
        return merge(Stored(page, len(matching), counts), versions, overlay, self.wanted)

    def settle(self) -> None:
        """All is read by the tailer, and told, as often as it takes."""
        self.tail(len(self.log))
        for _ in range(4):
            self.flush()

    def check(self) -> None:
        fresh = self.database(self.view.overlay("watch"))
        assert_snapshot_plus_events(self.client, fresh._asdict(), LIMIT)
        newest: dict[str, Entry] = {}
        for entry in self.log:
            if entry.asset not in newest or entry.version > newest[entry.asset].version:
                newest[entry.asset] = entry
        rows = [entry.row for entry in newest.values() if entry.row]
        assert fresh.counts == Counter(row["state"] for row in rows)
        assert fresh.total == sum(self.wanted.matches(row) for row in rows)
        expected = sorted(filter(self.wanted.shows, rows), key=order_of)
        assert fresh.rows == expected[:LIMIT]
        assert fresh.next == (token_of(expected[LIMIT - 1]) if len(expected) > LIMIT else None)


STEPS = ("materialise", "tail", "prune", "snapshot", "flush", "refilter")
FILTERS = st.sampled_from([Filter(), Filter(frozenset(["bad", "odd"])), Filter(q="Ü/")])
SCRIPTS = st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 6)), max_size=25)
REPLAYS = st.lists(st.tuples(st.integers(0, 60), st.integers(1, 8)), max_size=3)


def run(board: Board, script: list[tuple[str, int]]) -> None:
    for name, number in script:
        getattr(board, name)(number)
    board.settle()
    board.check()


@settings(max_examples=60, deadline=None)
@given(histories(), REPLAYS, FILTERS, SCRIPTS)
def test_snapshot_plus_events_is_a_fresh_snapshot(history, replays, wanted, script):
    run(Board(log_of(history, replays), wanted), script)


def test_many_seeds_and_everything_is_reached():
    import random

    seen: Counter[str] = Counter()
    wanted = (Filter(), Filter(frozenset(["bad", "odd"])), Filter(q="a"))
    for seed in range(150):
        dice = random.Random(seed)
        replays = [(dice.randrange(60), dice.randrange(1, 9)) for _ in range(dice.randrange(4))]
        board = Board(log_of(seeded(seed), replays), wanted[seed % 3])
        run(board, [(dice.choice(STEPS), dice.randrange(7)) for _ in range(40)])
        seen.update(board.seen)
    assert seen["snapshot"] > 200
    assert seen["gone"] > 20
    assert seen["later page"] > 10
