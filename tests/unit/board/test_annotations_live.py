"""What a live process tells of annotations and alarms, and which change ends an acknowledgement."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from dashboard.board.live.consumer import plain_changes
from dashboard.board.live.feeds import MOST, AlarmStates, Alerts, Raised
from dashboard.board.live.live_view import LiveView
from dashboard.board.live.page_filter import LiveRecord, PageFilter, filter_of
from dashboard.board.live.subscription import SocketSubscription
from dashboard.core.states.filter_parser import parse
from dashboard.watch.annotations.models import Acknowledgement
from dashboard.watch.annotations.row_marks import AckMark, Hand, RowMark, Work, in_force
from dashboard.watch.annotations.templatetags.annotations import linked
from domain.scenario_parser import scenario_from_plain

PLACE = ("watch.states", 0)
SCENARIO = scenario_from_plain(
    {
        "name": "watch",
        "states": [{"name": "bad"}, {"name": "odd"}, {"name": "good"}],
        "rule": {"kind": "latest"},
    }
)


def row(asset: str, state: str = "bad", offset: int = 1, since: int = 5, at: int = 5) -> LiveRecord:
    made = {"asset": asset, "state": state, "version": f"{offset:03d}", "severity": 0}
    made |= {"rank": 1, "alarming": True, "doubts": []}
    return LiveRecord(
        asset, f"{offset:03d}", {**made, "since": since, "caused_at": at}, PLACE, offset
    )


def mark(asset: str, revision: int = 1, notes: int = 1) -> RowMark:
    return RowMark(asset, revision, None, notes)


@pytest.fixture
def live() -> tuple[LiveView, SocketSubscription, list[int]]:
    """A board that shows `a`."""
    view, woken = LiveView(), list[int]()
    subscription = SocketSubscription("watch", lambda: woken.append(1))
    view.subscribe(subscription)
    view.begin(subscription)
    view.settle(subscription, [row("a").row or {}], None, {PLACE: 1})
    return view, subscription, woken


def next_message(view: LiveView, subscription: SocketSubscription) -> dict[str, Any]:
    """The message that the browser gets."""
    message: dict[str, Any] = msgspec.json.decode(plain_changes(view.take(subscription)))
    return message


# ---- marks ----------------------------------------------------------------------------------


def test_a_mark_is_told_to_who_shows_the_row_and_to_nobody_else(live):
    view, subscription, woken = live
    view.annotate("watch", [mark("b")])
    view.annotate("other", [mark("a")])
    assert (woken, bool(view.take(subscription))) == ([], False)
    view.annotate("watch", [mark("a", 7, 2)])
    assert next_message(view, subscription)["marks"] == [["a", 7, None, 2, None, None]]


def test_an_older_mark_and_the_same_again_are_not_told(live):
    view, subscription, _ = live
    view.annotate("watch", [mark("a", 7)])
    view.take(subscription)
    view.annotate("watch", [mark("a", 7), mark("a", 6)])
    assert not view.take(subscription)


def test_a_row_that_comes_brings_its_mark(live):
    view, subscription, _ = live
    view.annotate("watch", [mark("b", 7)])
    view.apply("watch", [row("b", offset=2)], {})
    message = next_message(view, subscription)
    assert [each["asset"] for each in message["rows"]] == ["b"]
    assert message["marks"] == [["b", 7, None, 1, None, None]]


def test_a_mark_that_comes_while_the_snapshot_is_read_is_told_after_it(live):
    view, subscription, woken = live
    view.restart(subscription)
    view.begin(subscription)
    view.annotate("watch", [mark("a", 7)])
    view.settle(subscription, [row("a").row or {}], None, {PLACE: 1})
    assert woken == [1]
    assert next_message(view, subscription)["marks"] == [["a", 7, None, 1, None, None]]


def test_the_watched_asset_is_told_of_its_marks(live):
    view, subscription, _ = live
    view.refilter(subscription, PageFilter(rows=False, watch="z"))
    view.begin(subscription)
    view.settle(subscription, [], None, {})
    view.annotate("watch", [mark("z", 7)])
    assert view.take(subscription).watched == "7"


def test_what_is_acknowledged_is_told_once_when_it_changes(live):
    view, subscription, _ = live
    view.set_figure("watch", "acknowledged", {"bad": 1})
    view.set_figure("watch", "acknowledged", {"bad": 1})
    assert next_message(view, subscription)["acknowledged"] == {"bad": 1}
    view.set_figure("watch", "acknowledged", {})
    assert next_message(view, subscription)["acknowledged"] == {}
    view.set_figure("watch", "acknowledged", {})
    assert not view.take(subscription)


# ---- what is handled ------------------------------------------------------------------------

HELD = RowMark("a", 7, AckMark("ada", 0, 9, 0, ""), 0)
WORKED = RowMark("a", 7, None, 0, Work("racks", 9, 1))


def shown_by(
    view: LiveView, subscription: SocketSubscription, wanted: PageFilter, cut: bool
) -> None:
    """The socket shows `a`; cut: there are further pages."""
    view.refilter(subscription, wanted)
    view.begin(subscription)
    last = (0, -5, "a") if cut else None
    view.settle(subscription, [row("a").row or {}], last, {PLACE: 1})


@pytest.mark.parametrize("news", [HELD, WORKED])
@pytest.mark.parametrize(
    ("text", "cut", "anew"),
    [("", False, False), ("", True, True), ("-is:unhandled", False, True), ("ack:no", False, True),
     ("is:disputed", False, False)],
)  # fmt: skip
def test_a_board_is_read_again_if_what_is_handled_decides_its_rows(
    live: Any, text: str, cut: bool, anew: bool, news: RowMark
):
    view, subscription, _ = live
    shown_by(view, subscription, filter_of(parse(text, SCENARIO, 0), frozenset(), 0), cut)
    view.annotate("watch", [mark("a", 6)])
    assert not subscription.stale, "a note handles nothing"
    view.annotate("watch", [news])
    assert subscription.stale is anew
    shown_by(view, subscription, subscription.filter, cut)
    view.set_next_expiry("watch", 9)
    assert (view.expire(8), view.expire(9), view.expire(9)) == (set(), {"watch"}, set())
    assert subscription.stale is anew, "its end too"


def test_what_is_handled_while_a_snapshot_is_read_has_it_read_again(live: Any):
    view, subscription, _ = live
    view.restart(subscription)
    view.begin(subscription)
    view.annotate("watch", [HELD])
    view.settle(subscription, [row("a").row or {}], (0, -5, "a"), {PLACE: 1})
    assert subscription.stale


@pytest.mark.parametrize("hand", [Hand("ada"), Hand(works=True)])
def test_nobody_is_alarmed_of_what_is_handled(live: Any, hand: Hand):
    entries = replace(row("a", offset=2), hand=hand), row("b", offset=3)
    assert alarmed(live, AlarmStates(frozenset(["bad"]), any=True), *entries) == ["b"]


# ---- alarms ---------------------------------------------------------------------------------


def alarmed(live: Any, alarm: AlarmStates, *entries: LiveRecord) -> list[Any]:
    """Of which assets the browser is alarmed."""
    view, subscription, _ = live
    view.set_alarm(subscription, alarm)
    view.apply("watch", entries, {})
    alerts = view.take(subscription).alerts
    return [] if alerts is None else [each.asset for each in alerts[1]]


def test_an_asset_that_comes_to_a_chosen_state_is_told(live):
    entries = row("a", offset=2), row("b", "odd", 3), row("c", offset=4, since=1, at=9)
    assert alarmed(live, AlarmStates(frozenset(["bad"])), *entries) == ["a"]


def test_what_follows_in_the_same_portion_hides_no_coming(live):
    comes = row("a", offset=2), row("a", offset=3, at=7)  # another agent says the same
    goes = row("b", offset=4), row("b", "good", 5, since=6, at=6)
    gone = row("c", offset=6), LiveRecord("c", "007", None, PLACE, 7)
    states = frozenset(["bad"])
    assert alarmed(live, AlarmStates(states), *comes, *goes, *gone) == ["a"]


def test_any_asset_or_those_that_the_filter_shows(live):
    view, subscription, _ = live
    view.refilter(subscription, PageFilter(q="a"))
    view.begin(subscription)
    view.settle(subscription, [], None, {})
    states = frozenset(["bad"])
    assert alarmed(live, AlarmStates(states), row("a", offset=2), row("b", offset=3)) == ["a"]
    entries = row("a2", offset=4), row("b2", offset=5)
    assert alarmed(live, AlarmStates(states, any=True), *entries) == ["a2", "b2"]


def test_a_storm_is_told_though_the_rows_wait_for_a_snapshot(live):
    view, subscription, _ = live
    view.set_alarm(subscription, AlarmStates(frozenset(["bad"])))
    view.apply("watch", [row(f"s{n}", offset=n + 2) for n in range(2_000)], {})
    assert subscription.stale
    view.begin(subscription)
    view.settle(subscription, [], None, {PLACE: 9_999})
    n, named = view.take(subscription).alerts or (0, [])
    assert (n, len(named)) == (2_000, MOST)


def test_before_the_first_snapshot_nobody_is_alarmed():
    view = LiveView()
    subscription = SocketSubscription("watch", lambda: None)
    view.subscribe(subscription)
    view.set_alarm(subscription, AlarmStates(frozenset(["bad"])))
    view.apply("watch", [row("a")], {})
    view.begin(subscription)
    view.settle(subscription, [], None, {})
    assert view.take(subscription).alerts is None


def test_an_asset_is_told_once_in_a_message():
    alerts = Alerts()
    alerts.add([Raised("a", "bad", 1), Raised("a", "bad", 2)])
    assert alerts.take() == (1, [Raised("a", "bad", 2)])
    assert alerts.take() is None


# ---- how long an acknowledgement holds -------------------------------------------------------


@pytest.mark.parametrize(
    ("severity", "now", "holds"),
    [(1, 5, True), (0, 5, False), (2, 5, False), (1, 10, False), (1, 9, True)],
)
def test_it_holds_while_the_state_is_no_worse_and_not_calm(severity: int, now: int, holds: bool):
    assert in_force(AckMark("olga", 1, 10, 1, ""), severity, 2, now) is holds
    assert not in_force(None, severity, 2, now)


@pytest.mark.parametrize(
    ("state", "place", "why"),
    [
        ("bad", "2", "worse"), ("odd", "2", ""), ("good", "2", "calm"), ("", "2", "purged"),
        ("unheard of", "2", "worse"), ("bad", "1", ""), ("good", "0", ""),
    ],
)  # fmt: skip
def test_which_change_ends_it(state: str, place: str, why: str):
    ack = Acknowledgement(severity=1, place="1")
    assert ack.why_ended_by(place, state, SCENARIO) == why


# ---- links in notes -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "href"),
    [
        ("see https://a.example/b.", "https://a.example/b"),
        ("(http://a.example/?q=1&r=2)", "http://a.example/?q=1&amp;r=2"),
        ("https://a.example/\u202eevil", "https://a.example/"),
        ('https://a.example/"onclick=x', "https://a.example/"),
    ],
)
def test_an_address_can_be_followed(text: str, href: str):
    assert f'href="{href}"' in linked(text)


@pytest.mark.parametrize(
    "text", ["javascript:alert(1)", "ftp://a", "<a href=x>", "//a.example", "data:text/html,x"]
)
def test_nothing_else_is_a_link(text: str):
    assert "<a" not in linked(text)
