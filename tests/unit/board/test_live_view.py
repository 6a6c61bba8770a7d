"""The overlay and the sockets' side of it, held against a fresh snapshot in any interleaving."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dashboard.board.live.page_filter import PageFilter
from dashboard.core.states.caveats import DOUBTS
from support.histories.histories import histories, seeded
from support.run.selection import examples
from support.web.liveboard import UNHANDLED_ONLY, Board, log_of, small_board


@pytest.fixture(autouse=True, scope="module")
def small():
    """Few rows, so that the few assets of a history do not all fit."""
    with small_board():
        yield


STEPS = (
    "materialise", "tail", "prune", "snapshot", "flush", "refilter", "acknowledge", "work", "join",
    "wait",
)  # fmt: skip
AFTER = ("reread", "acknowledge", "work", "join", "wait")
"""What may change a board to which nothing comes any more."""
FILTERS = st.sampled_from(
    [PageFilter(), PageFilter(frozenset(["bad", "odd"])), PageFilter(q="Ü/"), UNHANDLED_ONLY]
)
SCRIPTS = st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 6)), max_size=25)
ENDINGS = st.lists(st.tuples(st.sampled_from(AFTER), st.integers(0, 6)), max_size=6)
REPLAYS = st.lists(st.tuples(st.integers(0, 60), st.integers(1, 8)), max_size=3)


def run(board: Board, script: list[tuple[str, int]], ending: list[tuple[str, int]]) -> None:
    for name, number in script:
        getattr(board, name)(number)
    board.settle()
    board.check()
    for name, number in ending:
        getattr(board, name)(number)
        board.settle()
        board.check()


@settings(max_examples=examples(60), deadline=None)
@given(histories(), REPLAYS, FILTERS, SCRIPTS, ENDINGS)
def test_snapshot_plus_events_is_a_fresh_snapshot(history, replays, wanted, script, ending):
    run(Board(log_of(history, replays), wanted), script, ending)


@pytest.mark.extensive(
    guard="tests/unit/board/test_live_view.py::test_snapshot_plus_events_is_a_fresh_snapshot"
)
def test_many_seeds_and_everything_is_reached():
    import random

    seen: Counter[str] = Counter()
    some = PageFilter(frozenset(["bad", "odd"]))
    wanted = (PageFilter(), some, PageFilter(q="a"), UNHANDLED_ONLY)
    for seed in range(450):
        dice = random.Random(seed)
        replays = [(dice.randrange(60), dice.randrange(1, 9)) for _ in range(dice.randrange(4))]
        board = Board(log_of(seeded(seed), replays), wanted[seed % 4])
        script = [(dice.choice(STEPS), dice.randrange(7)) for _ in range(40)]
        run(board, script, [(dice.choice(AFTER), dice.randrange(7)) for _ in range(10)])
        seen.update(board.seen)
    assert seen["snapshot"] > 200
    assert seen["gone"] > 10
    assert seen["later page"] > 10
    assert min(seen[doubt] for doubt in DOUBTS) > 10
    assert min(seen["handled"], seen["end"]) > 10
