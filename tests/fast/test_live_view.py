"""The overlay and the sockets' side of it, held against a fresh snapshot in any interleaving."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from histories import History, histories, play, seeded
from hypothesis import given, settings
from hypothesis import strategies as st
from liveclient import Client, assert_snapshot_plus_events

from dashboard.live import view as view_module
from dashboard.live.rows import order_of, row_of
from dashboard.live.view import Entry, Filter, LiveView, Merged, Subscription, merge, plain_changes
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
        patch.setattr(view_module, "LIMIT", LIMIT)
        patch.setattr(view_module, "MOST_HELD", 2 * LIMIT)
        patch.setattr(view_module, "FEW_HELD", LIMIT)
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
                self.reading = self.view.begin(self.subscription)
            return
        overlay, self.reading = self.reading, None
        merged = self.database(overlay)
        self.view.settle(self.subscription, merged.rows, merged.total, {PLACE: self.written})
        self.seen["snapshot"] += 1
        self.send({"type": "snapshot", **merged._asdict()})

    def flush(self, _: int = 0) -> None:
        if self.reading is not None or self.subscription.stale:
            self.snapshot()
            return
        changes = self.view.take(self.subscription)
        if changes:
            self.seen["gone"] += len(changes.gone)
            self.send(msgspec.json.decode(plain_changes(0, changes)))

    def send(self, message: dict[str, Any]) -> None:
        self.client.apply({**message, "seq": self.client.seq + 1})

    def refilter(self, number: int) -> None:
        if self.reading is None:
            self.wanted = (Filter(), Filter(frozenset(["good"])), Filter(q="A"))[number % 3]
            self.view.refilter(self.subscription, self.wanted)

    def database(self, overlay: dict[str, Entry]) -> Merged:
        rows = sorted((e.row for e in self.stored.values() if e.row), key=order_of)
        shown = [row for row in rows if self.wanted.matches(row)]
        counts = Counter(row["state"] for row in rows)
        stored = {
            asset: (e.version, e.row["state"] if e.row else "")
            for asset, e in self.stored.items()
            if asset in overlay
        }
        limit = view_module.LIMIT + len(overlay)
        return merge(shown[:limit], len(shown), counts, stored, overlay, self.wanted)

    def settle(self) -> None:
        """All is read by the tailer, and told, as often as it takes."""
        self.tail(len(self.log))
        for _ in range(4):
            self.flush()

    def check(self) -> None:
        fresh = self.database(self.view.overlay("watch"))
        assert_snapshot_plus_events(self.client, fresh._asdict(), view_module.LIMIT)
        newest: dict[str, Entry] = {}
        for entry in self.log:
            if entry.asset not in newest or entry.version > newest[entry.asset].version:
                newest[entry.asset] = entry
        rows = [entry.row for entry in newest.values() if entry.row]
        assert fresh.counts == Counter(row["state"] for row in rows)
        assert fresh.total == sum(self.wanted.matches(row) for row in rows)
        expected = sorted(filter(self.wanted.matches, rows), key=order_of)[: view_module.LIMIT]
        assert fresh.rows == expected


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


# ---- examples -------------------------------------------------------------------------------


def row(
    asset: str, state: str = "bad", version: int = 1, severity: int = 0, since: int = 1
) -> Entry:
    made = {"asset": asset, "state": state, "version": f"{version:03d}"}
    return Entry(
        asset,
        f"{version:03d}",
        {**made, "severity": severity, "since": since},
        PLACE,
        version,
    )


def gone(asset: str, version: int) -> Entry:
    return Entry(asset, f"{version:03d}", None, PLACE, version)


@pytest.fixture
def live():
    view, woken = LiveView(), []
    subscription = Subscription("watch", lambda: woken.append(1))
    view.subscribe(subscription)
    view.begin(subscription)
    view.settle(subscription, [], 0, {})
    return view, subscription, woken


def test_only_the_newest_of_an_asset_is_told(live):
    view, subscription, woken = live
    view.apply("watch", [row("a", version=n) for n in (1, 2, 3)], {})
    changes = view.take(subscription)
    assert [entry.version for entry in changes.entries] == ["003"]
    assert woken == [1]
    assert not view.take(subscription)


def test_a_replayed_record_is_not_told(live):
    view, subscription, _ = live
    view.apply("watch", [row("a", version=3), row("a", version=2), row("a", version=3)], {})
    assert [entry.version for entry in view.take(subscription).entries] == ["003"]
    view.prune({PLACE: 100})
    view.apply("watch", [row("a", version=2)], {"a": "003"})
    assert not view.take(subscription)


def test_what_another_scenario_does_is_not_told(live):
    view, subscription, woken = live
    view.apply("other", [row("a")], {})
    assert not view.take(subscription)
    assert not woken


def test_a_row_that_no_longer_matches_goes(live):
    view, subscription, _ = live
    view.refilter(subscription, Filter(frozenset(["bad"])))
    view.begin(subscription)
    view.settle(subscription, [row("a").row], 1, {})
    view.apply("watch", [row("a", "good", 2), row("b", "good", 3)], {})
    changes = view.take(subscription)
    assert changes.gone == [("a", "002")]
    assert not changes.entries


def test_what_the_snapshot_holds_already_is_not_told_after_it(live):
    view, subscription, _ = live
    view.invalidate()
    view.begin(subscription)
    view.apply("watch", [row("a", version=1)], {})  # purged with offset 2, says the database
    view.settle(subscription, [], 0, {PLACE: 3})
    assert not view.take(subscription)


def test_what_goes_while_a_snapshot_is_read_is_told_after_it(live):
    view, subscription, _ = live
    view.invalidate()
    view.begin(subscription)
    view.apply("watch", [gone("a", 2)], {})
    view.settle(subscription, [row("a", version=1).row], 1, {PLACE: 2})
    assert view.take(subscription).gone == [("a", "002")]


def test_rows_beyond_the_last_one_shown_are_not_told(live):
    view, subscription, _ = live
    view.invalidate()
    view.begin(subscription)
    view.settle(subscription, [row("a").row, row("b").row], 9, {})
    view.apply("watch", [row("z", version=5, severity=2)], {})
    assert not view.take(subscription)


def test_a_browser_that_does_not_read_costs_no_memory(live):
    view, subscription, _ = live
    view.apply("watch", [row(f"a{n}", version=n) for n in range(1, 200)], {})
    assert subscription.stale
    assert len(subscription._pending) <= view_module.MOST_HELD


def test_a_watched_asset_is_told_of_though_no_row_shows_it(live):
    view, subscription, woken = live
    view.refilter(subscription, Filter(rows=False, watch="a"))
    view.begin(subscription)
    view.settle(subscription, [], 0, {})
    view.apply("watch", [row("b"), gone("a", 2)], {})
    changes = view.take(subscription)
    assert changes.watched == "002"
    assert not changes.entries
    assert woken


def test_counts_are_told_once_when_they_change(live):
    view, subscription, _ = live
    view.set_counts("watch", {"bad": 1})
    view.set_counts("watch", {"bad": 1})
    assert view.take(subscription).counts == {"bad": 1}
    view.set_counts("watch", {"bad": 1})
    assert not view.take(subscription)


def test_missed_records_make_every_socket_ask_anew(live):
    view, subscription, woken = live
    view.apply("watch", [row("a")], {})
    view.invalidate()
    assert subscription.stale
    assert len(woken) == 2


def test_a_row_is_serialised_once_for_all_sockets(live):
    view, subscription, _ = live
    entry = row("a")
    view.apply("watch", [entry], {})
    plain_changes(1, view.take(subscription))
    assert entry.json() is entry.json()
