"""What a socket is told, and when it needs a new snapshot."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dashboard.board.live.consumer import plain_changes
from dashboard.board.live.feeds import MOST_HELD
from dashboard.board.live.live_view import LiveView
from dashboard.board.live.page_filter import LiveRecord, PageFilter
from dashboard.board.live.subscription import SocketSubscription

PLACE = ("watch.states", 0)


def row(
    asset: str, state: str = "bad", version: int = 1, rank: int = 0, since: int = 1
) -> LiveRecord:
    made = {"asset": asset, "state": state, "version": f"{version:03d}"}
    return LiveRecord(
        asset,
        f"{version:03d}",
        {**made, "rank": rank, "since": since, "doubts": [], "alarming": True},
        PLACE,
        version,
    )


def gone(asset: str, version: int) -> LiveRecord:
    return LiveRecord(asset, f"{version:03d}", None, PLACE, version)


@pytest.fixture
def live():
    view, woken = LiveView(), []
    subscription = SocketSubscription("watch", lambda: woken.append(1))
    view.subscribe(subscription)
    view.begin(subscription)
    view.settle(subscription, [], None, {})
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
    view.refilter(subscription, PageFilter(frozenset(["bad"])))
    view.begin(subscription)
    view.settle(subscription, [row("a").row], None, {})
    view.apply("watch", [row("a", "good", 2), row("b", "good", 3)], {})
    changes = view.take(subscription)
    assert changes.gone == [("a", "002")]
    assert not changes.entries


def test_what_the_snapshot_holds_already_is_not_told_after_it(live):
    view, subscription, _ = live
    view.invalidate()
    view.begin(subscription)
    view.apply("watch", [row("a", version=1)], {})  # purged with offset 2, says the database
    view.settle(subscription, [], None, {PLACE: 3})
    assert not view.take(subscription)


def test_what_goes_while_a_snapshot_is_read_is_told_after_it(live):
    view, subscription, _ = live
    view.invalidate()
    view.begin(subscription)
    view.apply("watch", [gone("a", 2)], {})
    view.settle(subscription, [row("a", version=1).row], None, {PLACE: 2})
    assert view.take(subscription).gone == [("a", "002")]


def test_rows_beyond_the_last_one_shown_are_not_told(live):
    view, subscription, _ = live
    view.invalidate()
    view.begin(subscription)
    view.settle(subscription, [row("a").row, row("b").row], (0, -1, "b"), {})
    view.apply("watch", [row("z", version=5, rank=2)], {})
    assert not view.take(subscription)


def test_a_browser_that_does_not_read_costs_no_memory(live):
    view, subscription, _ = live
    view.apply("watch", [row(f"a{n}", version=n) for n in range(MOST_HELD + 1)], {})
    assert subscription.stale
    assert len(subscription._pending) <= MOST_HELD


def test_a_watched_asset_is_told_of_though_no_row_shows_it(live):
    view, subscription, woken = live
    view.refilter(subscription, PageFilter(rows=False, watch="a"))
    view.begin(subscription)
    view.settle(subscription, [], None, {})
    view.apply("watch", [row("b"), gone("a", 2)], {})
    changes = view.take(subscription)
    assert changes.watched == "002"
    assert not changes.entries
    assert woken


def test_counts_are_told_once_when_they_change(live):
    view, subscription, _ = live
    view.set_figure("watch", "counts", {"bad": 1})
    view.set_figure("watch", "counts", {"bad": 1})
    assert view.take(subscription).figures == {"counts": {"bad": 1}}
    view.set_figure("watch", "counts", {"bad": 1})
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
    view.refilter(subscription, PageFilter(after=(0, -1, "b")))
    view.begin(subscription)
    view.settle(subscription, [row("c").row, row("d").row], (0, -1, "d"), {})
    woken.clear()
    return view, subscription, woken


@pytest.mark.parametrize(("asset", "count"), [("a", 0), ("b", 0), ("bb", 1), ("d", 1), ("e", 0)])
def test_a_later_page_is_told_of_what_lies_on_it(page, asset: str, count: int):
    view, subscription, woken = page
    view.apply("watch", [row(asset, version=2)], {})
    assert len(woken) == count
    assert [entry.asset for entry in view.take(subscription).entries] == [asset] * count


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
    view.refilter(subscription, PageFilter())
    assert subscription.stale


# ---- many sockets -------------------------------------------------------------------------------


def test_a_socket_is_woken_once_until_it_has_looked(live):
    view, subscription, woken = live
    view.apply("watch", [row("a", version=1)], {})
    view.apply("watch", [row("a", version=2)], {})
    view.set_figure("watch", "counts", {"bad": 1})
    assert woken == [1]
    view.take(subscription)
    view.apply("watch", [row("a", version=3)], {})
    assert woken == [1, 1]


def test_sockets_that_show_the_same_share_the_look_at_a_row(live, monkeypatch):
    view, _, _ = live
    looked, real = [], PageFilter.matches

    def noted(self: PageFilter, row: dict[str, Any] | None) -> bool:
        looked.append(row)
        return real(self, row)

    monkeypatch.setattr(PageFilter, "matches", noted)
    others = [SocketSubscription("watch", lambda: None, PageFilter(q="z")) for _ in range(20)]
    for other in others:
        view.subscribe(other)
        view.begin(other)
        view.settle(other, [], None, {})
    looked.clear()
    view.apply("watch", [row("a")], {})
    assert len(looked) == 2, "once for each of two filters"
    assert not any(view.take(other) for other in others)
