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

from dashboard.live import view as view_module
from dashboard.live.rows import order_of, row_of
from dashboard.live.view import (
    Entry,
    Filter,
    LiveView,
    Merged,
    Order,
    Stored,
    Subscription,
    merge,
    newer_than,
    order_of_token,
    plain_changes,
    token_of,
)
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
        page = shown[: view_module.LIMIT + 1]
        return merge(Stored(page, len(matching), counts), versions, overlay, self.wanted)

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
        expected = sorted(filter(self.wanted.shows, rows), key=order_of)
        limit = view_module.LIMIT
        assert fresh.rows == expected[:limit]
        assert fresh.next == (token_of(expected[limit - 1]) if len(expected) > limit else None)


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
    view.settle(subscription, [], False, {})
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
    view.settle(subscription, [row("a").row], False, {})
    view.apply("watch", [row("a", "good", 2), row("b", "good", 3)], {})
    changes = view.take(subscription)
    assert changes.gone == [("a", "002")]
    assert not changes.entries


def test_what_the_snapshot_holds_already_is_not_told_after_it(live):
    view, subscription, _ = live
    view.invalidate()
    view.begin(subscription)
    view.apply("watch", [row("a", version=1)], {})  # purged with offset 2, says the database
    view.settle(subscription, [], False, {PLACE: 3})
    assert not view.take(subscription)


def test_what_goes_while_a_snapshot_is_read_is_told_after_it(live):
    view, subscription, _ = live
    view.invalidate()
    view.begin(subscription)
    view.apply("watch", [gone("a", 2)], {})
    view.settle(subscription, [row("a", version=1).row], False, {PLACE: 2})
    assert view.take(subscription).gone == [("a", "002")]


def test_rows_beyond_the_last_one_shown_are_not_told(live):
    view, subscription, _ = live
    view.invalidate()
    view.begin(subscription)
    view.settle(subscription, [row("a").row, row("b").row], True, {})
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
    view.settle(subscription, [], False, {})
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
    view.take(subscription)
    view.invalidate()
    assert subscription.stale
    assert len(woken) == 2


def test_a_row_is_serialised_once_for_all_sockets(live):
    view, subscription, _ = live
    entry = row("a")
    view.apply("watch", [entry], {})
    plain_changes(view.take(subscription))
    assert entry.json() is entry.json()


# ---- a later page -------------------------------------------------------------------------------


@pytest.fixture
def page(live):
    """A page that begins after b, and ends with d."""
    view, subscription, woken = live
    view.refilter(subscription, Filter(after=(0, -1, "b")))
    view.begin(subscription)
    view.settle(subscription, [row("c").row, row("d").row], True, {})
    woken.clear()
    return view, subscription, woken


@pytest.mark.parametrize(("asset", "told"), [("a", 0), ("b", 0), ("bb", 1), ("d", 1), ("e", 0)])
def test_a_later_page_is_told_of_what_lies_on_it(page, asset: str, told: int):
    view, subscription, woken = page
    view.apply("watch", [row(asset, version=2)], {})
    assert len(woken) == told
    assert [entry.asset for entry in view.take(subscription).entries] == [asset] * told


def test_a_row_that_rises_above_a_later_page_goes(page):
    view, subscription, _ = page
    view.apply("watch", [row("c", version=2, since=9)], {})
    changes = view.take(subscription)
    assert changes.gone == [("c", "002")]
    assert subscription.stale, "there is room for a row that follows"


def test_another_page_of_the_same_filter_is_another_snapshot(page):
    view, subscription, _ = page
    view.refilter(subscription, replace(subscription.filter, watch="c"))
    assert not subscription.stale
    view.refilter(subscription, Filter())
    assert subscription.stale


@pytest.mark.parametrize(
    "asset", ["a", "a.b.c", "10.0.0.0/8", "%2F", "Zürich · 東京", "1.2.3", "\\"]
)
def test_a_token_names_a_place(asset: str):
    made = row(asset, severity=3, since=1_790_000_000_000).row or {}
    assert order_of_token(token_of(made)) == order_of(made)


@pytest.mark.parametrize(
    "text",
    ["", "1.2", "1.2.", "-1.2.a", "1.-2.a", "a.2.b", "1.2.a\n", "1.2.a\0", "١.2.a", "1 .2.a",
     f"1.{10**18}.a", "1.2." + "a" * 256, "1." * 200],
)  # fmt: skip
def test_what_is_no_token_names_none(text: str):
    assert order_of_token(text) is None


# ---- many sockets -------------------------------------------------------------------------------


def test_a_socket_is_woken_once_until_it_has_looked(live):
    view, subscription, woken = live
    view.apply("watch", [row("a", version=1)], {})
    view.apply("watch", [row("a", version=2)], {})
    view.set_counts("watch", {"bad": 1})
    assert woken == [1]
    view.take(subscription)
    view.apply("watch", [row("a", version=3)], {})
    assert woken == [1, 1]


def test_sockets_that_show_the_same_share_the_look_at_a_row(live, monkeypatch):
    view, _, _ = live
    looked, real = [], Filter.matches

    def noted(self: Filter, row: dict[str, Any] | None) -> bool:
        looked.append(row)
        return real(self, row)

    monkeypatch.setattr(Filter, "matches", noted)
    others = [Subscription("watch", lambda: None, Filter(q="z")) for _ in range(20)]
    for other in others:
        view.subscribe(other)
        view.begin(other)
        view.settle(other, [], False, {})
    looked.clear()
    view.apply("watch", [row("a")], {})
    assert len(looked) == 2, "once for each of two filters"
    assert not any(view.take(other) for other in others)
