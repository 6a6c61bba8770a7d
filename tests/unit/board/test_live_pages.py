"""Page by page, each read whenever: what does not change meanwhile is met once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dashboard.board.live.page_filter import LiveRecord, PageFilter, order_of_token
from dashboard.board.live.subscription import SocketSubscription
from dashboard.core.states.board_rows import Row
from dashboard.core.states.queries import Ranking
from support.run.selection import examples
from support.web.liveboard import LIMIT, PLACE, UNHANDLED_ONLY, Board, small_board
from support.web.liveclient import Client

STATES = ("bad", "odd", "good")
NAMES = [f"{prefix}{number}" for prefix in "aüz" for number in range(5)]
CELLS = (["7 /s", 7], None, ["9.5 /s", 9.5], ["many", None], ["7 /s", 7], ["more", None])
"""What agents add to the records of a log, one after the other."""
MEANWHILE = ("materialise", "tail", "prune", "flush")


@pytest.fixture(autouse=True, scope="module")
def small():
    """Few rows, so that the few assets of a log are many pages."""
    with small_board():
        yield


@st.composite
def logs(draw: st.DrawFn, least: int, most: int) -> list[tuple[str, int | None, int]]:
    """Asset, the place of its state (None: purged) and since when: often the same for many."""
    one = st.tuples(
        st.sampled_from(NAMES), st.sampled_from([0, 1, 1, 1, 2, None]), st.integers(0, 3)
    )
    return draw(st.lists(one, min_size=least, max_size=most))


def entries_of(log: Sequence[tuple[str, int | None, int]]) -> list[LiveRecord]:
    made = []
    for offset, (asset, severity, since) in enumerate(log):
        version = f"{offset:04d}"
        row = None
        if severity is not None:
            row = {"asset": asset, "state": STATES[severity], "rank": severity, "doubts": []}
            row |= {"since": since, "version": version, "alarming": severity < 2}
            row |= {"severity": severity, "unconfirmed": False, "pending": None, "override": None}
            row |= {"caused_at": since, "details": [CELLS[offset % len(CELLS)]]}
        made.append(LiveRecord(asset, version, row, PLACE, offset))
    return made


SAID = st.tuples(
    st.sampled_from(["reread", "acknowledge", "acknowledge", "work", "join", "wait"]),
    st.integers(0, 6),
)
RANKED = tuple(PageFilter(ranking=Ranking(0, lowest)) for lowest in (False, True))
"""Pages of the first rows by what agents add."""
PAGES = st.sampled_from([PageFilter(), PageFilter(after=(1, -2, "a2")), UNHANDLED_ONLY, *RANKED])


@settings(max_examples=examples(250), deadline=None)
@given(logs(2, 24), PAGES, st.lists(st.lists(SAID, min_size=1, max_size=3), max_size=6))
def test_what_is_said_of_assets_moves_the_rows_as_in_a_fresh_snapshot(log, wanted, said):
    board = Board(entries_of(log), wanted)
    board.materialise(len(log) // 2)
    board.settle()
    for portion in said:
        for name, number in portion:
            getattr(board, name)(number)
        board.settle()
        board.check()


DONE = st.tuples(
    st.sampled_from([*MEANWHILE, "reread", "snapshot", "acknowledge", "wait"]), st.integers(0, 6)
)


@settings(max_examples=examples(250), deadline=None)
@given(logs(2, 30), st.sampled_from(RANKED), st.lists(DONE, max_size=20))
def test_the_first_rows_by_a_detail_are_followed_live(log, wanted, done):
    board = Board(entries_of(log), wanted)
    for name, number in done:
        getattr(board, name)(number)
    board.settle()
    board.check()


def opened(board: Board, after: str | None) -> None:
    """The page after a token, in a browser that has not been told anything."""
    board.view.unsubscribe(board.subscription)
    board.wanted = replace(board.wanted, after=order_of_token(after) if after else None)
    board.subscription = SocketSubscription("watch", lambda: None, board.wanted)
    board.view.subscribe(board.subscription)
    board.client, board.reading = Client(), None


def by_http(board: Board, meanwhile: Callable[[], None]) -> tuple[list[Row], str | None]:
    """Return what the page says that the server makes, and where its link leads."""
    overlay = board.view.overlay("watch")
    meanwhile()
    merged = board.database(overlay)
    return merged.rows, merged.next


def by_socket(board: Board, meanwhile: Callable[[], None]) -> tuple[list[Row], str | None]:
    """Return what a browser shows some time after its first snapshot, and where its link leads."""
    board.snapshot()
    meanwhile()
    if board.reading is not None:
        board.snapshot()
    meanwhile()
    return board.client.shown(LIMIT), board.client.token(LIMIT)


def met(board: Board, dice: Iterator[Any]) -> Counter[str]:
    """Walk from the top to the last page; how often each asset was on one."""
    counts: Counter[str] = Counter()
    after: str | None = None

    def meanwhile() -> None:
        for _ in range(next(dice)):
            getattr(board, MEANWHILE[next(dice)])(1 + next(dice))

    for _ in range(len(board.log) + len(NAMES)):
        opened(board, after)
        read = by_socket if next(dice) % 2 else by_http
        rows, after = read(board, meanwhile)
        counts.update(row["asset"] for row in rows)
        meanwhile()
        if after is None:
            return counts
    raise AssertionError(f"no last page: {after} again and again")


FILTERS = st.sampled_from([PageFilter(), PageFilter(frozenset(["bad", "odd"])), PageFilter(q="1")])
LOOKS = st.sampled_from([None, 3, 5])


@settings(max_examples=examples(300), deadline=None)
@given(logs(10, 40), logs(5, 30), FILTERS, LOOKS, st.integers(0, 2**32))
def test_what_does_not_change_is_met_once(known, later, wanted, looks, seed):
    dice = Random(seed)
    log = entries_of(known + later)
    board = Board(log, wanted, looks)
    board.materialise(dice.randrange(len(known) + 1))
    board.tail(len(known))
    changing = {entry.asset for entry in log[len(known) :]}
    still = {entry.asset: entry.row for entry in log if entry.asset not in changing}
    expected = {asset for asset, row in still.items() if wanted.matches(row)}

    counts = met(board, iter(lambda: dice.randrange(4), None))

    assert {asset: counts[asset] for asset in still} == {
        asset: int(asset in expected) for asset in still
    }


def test_a_page_that_fills_goes_on_after_its_own_last_row():
    """It was looked no further for it; what came since is more than it shows."""
    known, later = [(name, 1, 1) for name in NAMES[:2]], [(name, 0, 9) for name in NAMES[2:5]]
    board = Board(entries_of(known + later), PageFilter(frozenset(["bad"])), looks=1)
    board.materialise(2)
    board.snapshot()
    board.snapshot()
    assert board.client.token(LIMIT) == f"r1.1.{NAMES[0]}"
    board.tail(len(board.log))
    board.flush()
    assert board.client.token(LIMIT) == f"r0.9.{NAMES[3]}"
