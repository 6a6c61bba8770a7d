"""Sockets that show the same are told the same bytes, made once, and none what is not its own."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dashboard.board.live.consumer import plain_changes
from dashboard.board.live.feeds import AlarmStates
from dashboard.board.live.live_view import LiveView
from dashboard.board.live.page_filter import LiveRecord, Offsets, PageFilter
from dashboard.board.live.subscription import SocketSubscription
from dashboard.watch.annotations.row_marks import RowMark
from support.histories.histories import histories
from support.run.selection import examples
from support.web.liveboard import Board, beside, log_of, made_bodies, small_board

PLACE = ("watch.states", 0)


def row(asset: str, version: int, state: str = "bad") -> LiveRecord:
    made = {"asset": asset, "state": state, "version": f"{version:03d}", "rank": 0, "doubts": []}
    made |= {"since": version, "caused_at": version, "alarming": True}
    return LiveRecord(asset, f"{version:03d}", made, PLACE, version)


def rows(*assets: str) -> list[dict[str, Any]]:
    """What a snapshot holds: each in its first version."""
    return [row(asset, 1).row or {} for asset in assets]


@pytest.fixture
def view() -> LiveView:
    made = LiveView()
    made.follow("watch", {PLACE: 2})
    return made


def opened(
    view: LiveView, *assets: str, wanted: PageFilter | None = None, base: Offsets | None = None
) -> SocketSubscription:
    """A socket whose snapshot holds these assets."""
    sub = SocketSubscription("watch", lambda: None, wanted or PageFilter(frozenset(["bad"])))
    view.subscribe(sub)
    view.begin(sub)
    view.settle(sub, rows(*assets), None, base or {})
    return sub


def together(view: LiveView, *assets: str, sockets: int = 2) -> list[SocketSubscription]:
    """Sockets with the same page, which have been told of a record since their snapshots."""
    subs = [opened(view, *assets) for _ in range(sockets)]
    view.apply("watch", [row("first", 2)], {})
    for sub in subs:
        view.take(sub)
    return subs


def next_message(view: LiveView, sub: SocketSubscription) -> dict[str, Any]:
    """What the browser is sent next."""
    message: dict[str, Any] = msgspec.json.decode(plain_changes(view.take(sub)))
    return message


def versions(message: dict[str, Any]) -> dict[str, str]:
    return {each["asset"]: each["version"] for each in message["rows"]}


# ---- the same bytes -------------------------------------------------------------------------


def test_boards_of_one_page_are_sent_the_same_bytes_made_once(view, monkeypatch):
    made = made_bodies(monkeypatch)
    subs = together(view, "a", sockets=20)
    view.apply("watch", [row("a", 3), row("b", 4)], {})
    view.set_figure("watch", "counts", {"bad": 3})
    bodies = [plain_changes(view.take(sub)) for sub in subs]
    assert len(made) == 1
    assert all(body is bodies[0] for body in bodies)
    message = msgspec.json.decode(bodies[0])
    assert versions(message) == {"a": "003", "b": "004"}
    assert message["counts"] == {"bad": 3}
    assert not any(view.take(sub) for sub in subs)


def test_boards_of_other_pages_and_scenarios_are_not(view):
    one, _ = together(view, "a")
    other = opened(view, "a", wanted=PageFilter(q="a"))
    view.apply("watch", [row("a", 3), row("b", 4)], {})
    assert versions(next_message(view, one)) == {"a": "003", "b": "004"}
    assert versions(next_message(view, other)) == {"a": "003"}


def test_a_board_that_comes_later_is_told_with_the_others(view):
    one, _ = together(view, "a")
    late = opened(view, "a", "first")
    view.apply("watch", [row("a", 3)], {})
    assert view.take(one) is not view.take(late), "it is told of its first record by itself"
    view.apply("watch", [row("a", 4)], {})
    assert view.take(one) is view.take(late)


def test_a_board_whose_snapshot_is_ahead_of_the_log_waits_for_it(view):
    one, _ = together(view, "a")
    ahead = opened(view, "a", "first", base={PLACE: 5})
    view.apply("watch", [row("a", 3)], {})
    assert versions(next_message(view, one)) == {"a": "003"}
    assert not view.take(ahead), "its snapshot rests on that already"
    for version in (4, 5):
        view.apply("watch", [row("a", version)], {})
        view.take(one)
        view.take(ahead)
    view.apply("watch", [row("a", 6)], {})
    assert view.take(one) is view.take(ahead)


def test_boards_that_hold_other_rows_are_told_apart(view):
    one, _ = together(view, "a")
    other = opened(view, "a", "first", "more")
    for version in (3, 4):
        view.apply("watch", [row("a", version), row("more", version + 10, "good")], {})
        mine, others = next_message(view, one), next_message(view, other)
        assert versions(mine) == versions(others) == {"a": f"{version:03d}"}
        assert ("gone" in mine, "gone" in others) == (False, version == 3)


# ---- one that lags --------------------------------------------------------------------------


def test_one_that_lags_is_sent_the_newest_of_each_asset(view):
    quick, slow = together(view, "a")
    for version in (3, 4, 5):
        view.apply("watch", [row("a", version), row(f"b{version}", version + 10)], {})
        assert versions(next_message(view, quick))["a"] == f"{version:03d}"
    message = next_message(view, slow)
    assert versions(message) == {"a": "005", "b3": "013", "b4": "014", "b5": "015"}
    view.apply("watch", [row("a", 20)], {})
    assert view.take(quick) is view.take(slow), "then it is with the others again"


def test_what_came_and_went_meanwhile_is_told_to_who_was_told_that_it_came(view):
    quick, slow = together(view, "a")
    view.apply("watch", [row("b", 3)], {})
    assert versions(next_message(view, quick)) == {"b": "003"}
    view.apply("watch", [row("b", 4, "good")], {})
    assert next_message(view, quick)["gone"] == [["b", "004"]]
    assert not view.take(slow)


def test_one_with_too_much_waiting_needs_a_snapshot_and_nobody_else_does(view):
    with small_board():
        quick, slow = together(view)
        for version in range(3, 8):
            view.apply("watch", [row("first", version, "good"), row(f"b{version}", version)], {})
            view.apply("watch", [row(f"b{version}", version + 10, "good")], {})
            view.take(quick)
    assert (quick.stale, slow.stale) == (False, True)
    assert not view.take(slow)


# ---- one that differs -----------------------------------------------------------------------


def test_one_whose_filter_changes_is_sent_nothing_of_its_former_page(view):
    stays, goes = together(view, "a")
    view.apply("watch", [row("a", 3)], {})
    view.refilter(goes, PageFilter(q="z"))
    assert goes.stale
    assert not view.take(goes)
    view.begin(goes)
    view.apply("watch", [row("a", 4), row("z", 5)], {})
    view.settle(goes, [], None, {})
    assert versions(next_message(view, goes)) == {"z": "005"}
    assert versions(next_message(view, stays)) == {"a": "004", "z": "005"}


def test_what_is_of_one_viewer_alone_is_told_to_that_one(view):
    plain, own = together(view, "a")
    view.refilter(own, PageFilter(frozenset(["bad"]), watch="z"))
    view.set_alarm(own, AlarmStates(frozenset(["bad"])))
    view.apply("watch", [row("a", 3), row("z", 4, "good")], {})
    expected = next_message(view, plain)
    message = next_message(view, own)
    assert (message.pop("watched"), message.pop("alerts")) == ("004", [1, [["a", "bad", 3]]])
    assert message == expected


def test_marks_of_rows_are_in_the_message_of_all(view):
    one, other = together(view, "a")
    view.annotate("watch", [RowMark("a", 7, None, 1), RowMark("unseen", 8, None, 1)])
    assert view.take(one) is view.take(other)
    view.annotate("watch", [RowMark("a", 9, None, 1)])
    assert next_message(view, one)["marks"] == [["a", 9, None, 1, None, None]]


def test_a_board_that_is_closed_leaves_nothing(view):
    one, other = together(view, "a")
    view.apply("watch", [row("a", 3)], {})
    view.take(one)
    feed = one.feed
    assert feed is not None
    assert other.feed is feed
    assert len(feed._backlogs) == 2
    view.unsubscribe(other)
    del other
    assert len(feed._backlogs) == 1


# ---- in any interleaving --------------------------------------------------------------------

WORLD = ("materialise", "tail", "prune")
STEPS = st.one_of(
    st.tuples(st.sampled_from(WORLD), st.just(0), st.integers(0, 6)),
    st.tuples(st.sampled_from(["snapshot", "flush"]), st.integers(0, 2), st.just(0)),
    st.tuples(st.just("refilter"), st.integers(0, 2), st.integers(0, 6)),
)
FILTERS = st.sampled_from([PageFilter(), PageFilter(frozenset(["bad", "odd"])), PageFilter(q="Ü/")])


@settings(max_examples=examples(100), deadline=None)
@given(histories(), FILTERS, st.lists(STEPS, max_size=40))
def test_each_of_several_boards_shows_what_a_fresh_snapshot_does(history, wanted, script):
    with small_board():
        board = Board(log_of(history, []), wanted)
        boards = [board, beside(board), beside(board)]
        for step, number, many in script:
            chosen = boards[number]
            chosen.written, chosen.tailed = board.written, board.tailed
            getattr(chosen, step)(many)
        board.tail(len(board.log))
        for each in boards:
            each.written, each.tailed = board.written, board.tailed
            each.settle()
            each.check()
