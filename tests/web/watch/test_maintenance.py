"""Maintenance windows: what they cover and when, and who changes them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from dashboard.core.audit.models import AuditEntry
from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.times import HOUR_MS, field_text, now_ms
from dashboard.core.states.filter_parser import parse
from dashboard.watch.annotations.models import Label, Mark
from dashboard.watch.annotations.row_marks import Work, marks_of
from dashboard.watch.filters import search
from dashboard.watch.incidents.maintenance import FOLLOWED_MS, keep
from dashboard.watch.incidents.models import (
    ALL,
    FILTER,
    LISTED,
    Window,
    WindowAsset,
    WindowPlan,
    WindowRefused,
    windows_changed,
)
from support.web.web_fixtures import error_of, make_user
from support.web.world import World

pytestmark = pytest.mark.django_db

NOW = now_ms()


def window(covers: str = ALL, begin: int = NOW, end: int = NOW + HOUR_MS, **more: Any) -> Window:
    """A window of the scenario `attack`, stored."""
    given = {"scenario": "attack", "name": "racks", "covers": covers, "created_at": NOW} | more
    return Window.objects.create(begin=begin, end=end, planned_end=end, **given)


@pytest.fixture
def sites(world: World) -> World:
    """Two sites in Berlin, one in Oslo."""
    for asset, place in (("shop", "berlin"), ("api", "berlin"), ("mail", "oslo")):
        world.report(asset, "clear")
        Label.objects.create(
            scenario="attack", asset=asset, key="site", value=place, source="person", at=NOW
        )
    world.write()
    return world


def names(begin: int = NOW, end: int = NOW + HOUR_MS) -> list[str]:
    """The assets that are covered."""
    return sorted(Window.objects.covering("attack", ["shop", "api", "mail"], begin, end))


def test_a_window_covers_all_a_filter_or_a_list(sites: World):
    window(end=NOW + 1)
    assert names() == ["api", "mail", "shop"]
    Window.objects.all().delete()
    window(FILTER, filter="site:berlin -api")
    assert names() == ["shop"]
    listed = window(LISTED)
    WindowAsset.objects.create(window=listed, scenario="attack", asset="mail")
    assert names() == ["mail", "shop"]


def test_times_are_cut_off_where_it_is_asked_and_cancelled_ones_are_none(sites: World):
    window(begin=NOW - HOUR_MS)
    [span] = Window.objects.covering("attack", ["shop"], NOW - 5, NOW + 5)["shop"]
    assert (span.begin, span.end) == (NOW - 5, NOW + 5)
    assert Window.objects.covering("attack", ["shop"], NOW, NOW + 1)
    assert not Window.objects.covering("attack", ["shop"], NOW + HOUR_MS, NOW + HOUR_MS + 1)
    assert Window.objects.covering("order", ["shop"], NOW, NOW + 5) == {}
    Window.objects.update(cancelled_at=NOW)
    assert names() == []


def test_labels_that_change_later_change_no_history(sites: World):
    begun = window(FILTER, filter="site:berlin", begin=NOW - HOUR_MS, end=NOW, begun_at=NOW)
    WindowAsset.objects.create(window=begun, scenario="attack", asset="mail", end=NOW - 50)
    Label.objects.update(value="berlin")
    assert names(NOW - HOUR_MS, NOW) == ["mail"]
    [span] = Window.objects.covering("attack", ["mail"], 0, NOW)["mail"]
    assert (span.begin, span.end) == (NOW - HOUR_MS, NOW - 50)


def test_what_availability_leaves_out_is_one_time_where_windows_overlap(sites: World):
    window(end=NOW + 20)
    window(begin=NOW + 10, end=NOW + 30)
    window(begin=NOW + 5, end=NOW + 90, excluded=False)
    assert Window.objects.excluded("attack", NOW, NOW + 100).everywhere == [(NOW, NOW + 30)]


def assets_of(text: str) -> list[str]:
    """The assets that a filter finds."""
    attack = scenarios()["attack"]
    page = search.find(attack, [], parse(text, attack, NOW), NOW, after=None, limit=10, skip=())
    return sorted(record.asset for record in page.records)


def test_what_is_left_out_is_told_of_all_assets_together(sites: World):
    window(end=NOW + 20)
    window(FILTER, filter="site:berlin", begin=NOW + 10, end=NOW + 30)
    window(LISTED, excluded=False)
    listed = window(LISTED, end=NOW + 5)
    WindowAsset.objects.create(window=listed, scenario="attack", asset="shop", begin=NOW + 2)
    excluded = Window.objects.excluded("attack", NOW + 1, NOW + 100)
    assert excluded.everywhere == [(NOW + 1, NOW + 20)]
    assert excluded.by_asset == {
        "shop": [(NOW + 2, NOW + 5), (NOW + 10, NOW + 30)],
        "api": [(NOW + 10, NOW + 30)],
    }


# ---- what the worker does ---------------------------------------------------------------------


def marked(now: int = NOW) -> list[str]:
    """The assets whose rows are marked."""
    known = marks_of("attack", ["shop", "api", "mail"])
    return sorted(mark.asset for mark in known if mark.works(now))


def test_rows_are_marked_while_it_runs_and_no_longer(sites: World):
    made = window(FILTER, filter="site:berlin")
    keep(NOW - 1)
    assert marked() == []
    keep(NOW)
    assert marked() == ["api", "shop"]
    assert assets_of("in:maintenance") == ["api", "shop"]
    assert assets_of("-in:maintenance") == ["mail"]
    keep(made.end)
    assert marked() == []
    assert not Mark.objects.filter(work_until__isnull=False).exists()
    assert keep(made.end + HOUR_MS) == 0


def test_it_follows_labels_that_change_and_keeps_what_was(sites: World):
    window(FILTER, filter="site:berlin")
    keep(NOW)
    Label.objects.filter(asset="shop").update(value="oslo")
    Label.objects.filter(asset="mail").update(value="berlin")
    later = NOW + FOLLOWED_MS
    keep(later)
    assert marked(later) == ["api", "mail"]
    spans = Window.objects.covering("attack", ["shop", "api", "mail"], NOW, NOW + HOUR_MS)
    assert {asset: [(s.begin - NOW, s.end - NOW) for s in of] for asset, of in spans.items()} == {
        "shop": [(0, FOLLOWED_MS)],
        "api": [(0, HOUR_MS)],
        "mail": [(FOLLOWED_MS, HOUR_MS)],
    }


def test_a_begin_that_was_cut_short_is_done_again(sites: World):
    made = window(FILTER, filter="site:berlin")
    WindowAsset.objects.create(window=made, scenario="attack", asset="mail")
    keep(NOW)
    assert names() == ["api", "shop"]


@pytest.mark.parametrize("scenario", ["attack", ""])
def test_a_window_over_all_marks_every_row_and_new_ones_too(sites: World, scenario: str):
    window(scenario=scenario)
    keep(NOW)
    assert marked() == ["api", "mail", "shop"]
    sites.report("new", "clear")
    sites.write()
    keep(NOW + FOLLOWED_MS)
    assert [mark.work.name for mark in marks_of("attack", ["new"]) if mark.work] == ["racks"]


def test_of_two_windows_a_row_shows_the_one_that_ends_last(sites: World):
    short, long = window(end=NOW + 5, name="short"), window(name="long")
    keep(NOW)
    assert {mark.work for mark in marks_of("attack", ["shop"])} == {Work("long", long.end, long.pk)}
    long.cancel(make_user("admin"), NOW + 1)
    keep(NOW + 1)
    assert {mark.work for mark in marks_of("attack", ["shop"])} == {
        Work("short", short.end, short.pk)
    }


# ---- what people do ---------------------------------------------------------------------------


def plan(**more: Any) -> WindowPlan:
    """A window as somebody wants it."""
    given: dict[str, Any] = {
        "scenario": "attack", "name": "racks", "why": "", "covers": ALL, "filter": "",
        "assets": (), "begin": NOW + HOUR_MS, "end": NOW + 2 * HOUR_MS,
        "excluded": True, "held": True,
    }  # fmt: skip
    return WindowPlan(**given | more)


@pytest.fixture
def announced() -> Iterator[list[tuple[str, int, int]]]:
    """What is announced: scenario, begin, end."""
    heard: list[tuple[str, int, int]] = []

    def hear(scenario: str, begin: int, end: int, **_: Any) -> None:
        heard.append((scenario, begin - NOW, end - NOW))

    windows_changed.connect(hear)
    yield heard
    windows_changed.disconnect(hear)


def test_each_change_is_announced_for_the_time_that_it_concerns(
    user: User, announced: list[tuple[str, int, int]]
):
    made = Window.objects.plan(plan(begin=NOW + 10, end=NOW + 20), user, NOW)
    made.change(plan(begin=NOW + 5, end=NOW + 15), user, NOW)
    assert set(announced) == {("attack", 10, 20), ("attack", 5, 20)}
    announced.clear()
    made.end_early(user, NOW + 7)
    made.cancel(user, NOW + 8)
    assert announced == [("attack", 7, 15), ("attack", 5, 7)]


def test_a_window_that_has_begun_or_was_changed_meanwhile_is_not_changed(user: User):
    made = Window.objects.plan(plan(), user, NOW)
    stale = Window.objects.get(pk=made.pk)
    made.change(plan(name="other"), user, NOW)
    with pytest.raises(WindowRefused):
        stale.change(plan(name="lost"), user, NOW)
    with pytest.raises(WindowRefused):
        made.change(plan(name="late"), user, made.begin)
    with pytest.raises(WindowRefused):
        made.end_early(user, NOW)
    made.cancel(user, NOW)
    with pytest.raises(WindowRefused):
        made.cancel(user, NOW)
    assert Window.objects.get().name == "other"


def test_the_assets_that_a_window_lists_change_with_it(user: User):
    made = Window.objects.plan(plan(covers=LISTED, assets=("shop", "api")), user, NOW)
    made.change(plan(covers=LISTED, assets=("mail",)), user, NOW)
    assert names(made.begin, made.end) == ["mail"]


# ---- pages ------------------------------------------------------------------------------------

FORM = {
    "name": "racks", "scenario": "attack", "covers": FILTER, "filter": "site:berlin", "assets": "",
    "begin": field_text(NOW + HOUR_MS), "end": field_text(NOW + 2 * HOUR_MS), "why": "new cables",
    "excluded": "on",
}  # fmt: skip


def test_a_window_is_planned_changed_and_cancelled_by_forms(sites: World, client: Client):
    page = client.post("/maintenance/new/", FORM, follow=True)
    made = Window.objects.get()
    assert page.redirect_chain == [(f"/maintenance/{made.pk}/", 302)]
    assert (made.filter, made.excluded, made.held) == ("site:berlin", True, False)
    assert [row.asset for row in page.context["covered"].rows] == ["api", "shop"]
    edit = f"/maintenance/{made.pk}/edit/"
    assert 'value="site:berlin"' in client.get(edit).content.decode()
    changed = FORM | {"covers": LISTED, "assets": "mail\nmail\n", "revision": made.revision}
    page = client.post(edit, changed, follow=True)
    assert [row.asset for row in page.context["covered"].rows] == ["mail"]
    stale = client.post(edit, changed)
    assert (stale.status_code, "changed it meanwhile" in stale.content.decode()) == (422, True)
    client.post(f"/maintenance/{made.pk}/cancel/")
    assert "cancelled" in client.get("/maintenance/").content.decode()
    actions = AuditEntry.objects.filter(action__startswith="maintenance.").order_by("pk")
    assert list(actions.values_list("action", flat=True)) == [
        "maintenance.planned", "maintenance.changed", "maintenance.cancelled",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("field", "given", "words"),
    [
        ("name", "", "This field is required."),
        ("end", FORM["begin"], "after From"),
        ("end", field_text(NOW + 40 * 24 * HOUR_MS), "at most 31 days"),
        ("begin", "2020-01-01T00:00", "last 31 days"),
        ("filter", "state:clear", "by name and label"),
        ("filter", "", "expected a name or a label"),
        ("scenario", "lost", "Select a valid choice"),
    ],
)
def test_a_form_says_what_it_expects_and_keeps_what_was_typed(
    client: Client, field: str, given: str, words: str
):
    page = client.post("/maintenance/new/", FORM | {field: given})
    assert page.status_code == 422
    assert words in error_of(page, field)
    assert "new cables" in page.content.decode()
    assert not Window.objects.exists()


def test_a_list_needs_names_and_one_scenario(client: Client):
    page = client.post("/maintenance/new/", FORM | {"covers": LISTED, "scenario": "*"})
    assert error_of(page, "scenario").startswith("Expected one scenario")
    assert error_of(page, "assets").startswith("Expected names")


def test_nothing_chosen_is_not_everything(client: Client):
    chosen = client.get("/maintenance/new/").context["form"]
    assert chosen["covers"].value() is None
    for name, expected in (
        ("covers", "Choose which assets; “all assets” is"),
        ("scenario", "This field is"),
    ):
        for nothing in ({name: ""}, {}):
            given = {key: value for key, value in FORM.items() if key != name} | nothing
            assert error_of(client.post("/maintenance/new/", given), name).startswith(expected)
    page = client.post("/maintenance/new/", FORM | {"covers": FILTER, "filter": " "})
    assert error_of(page, "filter").startswith("expected a name or a label")
    assert not Window.objects.exists()


def test_all_assets_of_all_scenarios_is_a_choice(client: Client):
    client.post("/maintenance/new/", FORM | {"covers": ALL, "scenario": "*"})
    made = Window.objects.get()
    assert (made.covers, made.scenario) == (ALL, "")
    assert client.get(f"/maintenance/{made.pk}/edit/").context["form"]["scenario"].value() == "*"


def test_links_begin_the_form_with_what_was_looked_at(client: Client):
    page = client.get("/maintenance/new/?scenario=attack&asset=shop")
    form = page.context["form"]
    assert (form.initial["covers"], form.initial["assets"]) == (LISTED, "shop")
    form = client.get("/maintenance/new/?scenario=attack&q=site:oslo").context["form"]
    assert (form.initial["covers"], form.initial["filter"]) == (FILTER, "site:oslo")


def test_the_board_and_the_asset_announce_it_and_rows_are_marked(sites: World, client: Client):
    now = now_ms()
    window(FILTER, filter="site:berlin", begin=now - 1_000, end=now + HOUR_MS)
    window(LISTED, name="later", begin=now + HOUR_MS, end=now + 2 * HOUR_MS)
    WindowAsset.objects.create(window=Window.objects.get(name="later"), scenario="attack",
                               asset="shop")  # fmt: skip
    keep(now)
    board = client.get("/?scenario=attack").content.decode()
    assert board.count('title="in maintenance: racks"') == 2
    assert "later" in board
    page = client.get("/s/attack/a/shop/").content.decode()
    assert "<strong>In maintenance</strong>" in page
    assert "<strong>Maintenance planned</strong>" in page
    assert "note-work" not in client.get("/s/attack/a/mail/").content.decode()


def test_its_page_lists_the_incidents_of_its_assets(sites: World, client: Client):
    made = window(FILTER, filter="site:berlin", begin=now_ms() - HOUR_MS)
    keep(now_ms())
    for asset in ("shop", "mail"):
        sites.report(asset, "under-attack")
    sites.write()
    page = client.get(f"/maintenance/{made.pk}/")
    assert [each.asset for each in page.context["incidents"]] == ["shop"]


def test_the_list_is_filtered(client: Client):
    window(name="one")
    window(name="two", scenario="connectivity", begin=NOW + HOUR_MS * 5, end=NOW + HOUR_MS * 6)
    for query, expected in {
        "": ["one", "two"], "?status=running": ["one"], "?status=planned": ["two"],
        "?scenario=connectivity": ["two"], "?q=on": ["one"], "?status=ended": [],
    }.items():  # fmt: skip
        rows = client.get(f"/maintenance/{query}").context["page"].rows
        assert [each.name for each in rows] == expected, query
    assert client.get("/maintenance/?status=lost").status_code == 422


def test_durations_look_back_to_a_begin_and_ahead_to_an_end(client: Client):
    window(name="over", begin=NOW - 3 * HOUR_MS, end=NOW - 2 * HOUR_MS)
    window(name="on", begin=NOW - 2 * HOUR_MS, end=NOW + HOUR_MS)
    window(name="to come", begin=NOW + 5 * HOUR_MS, end=NOW + 9 * HOUR_MS)
    for line, expected in {
        "from:<1d": ["on", "over"], "until:<3h": ["on"], "until:>3h": ["to come"],
        "-until:<3h": ["to come", "over"], "from:<2100-01-01": ["on", "to come", "over"],
    }.items():  # fmt: skip
        rows = client.get("/maintenance/", {"q": line}).context["page"].rows
        assert [each.name for each in rows] == expected, line


def test_what_is_over_is_not_changed_and_what_is_not_there_not_found(client: Client):
    past = window(begin=NOW - HOUR_MS, end=NOW)
    assert client.get(f"/maintenance/{past.pk}/edit/").status_code == 302
    page = client.post(f"/maintenance/{past.pk}/end/", follow=True)
    assert "It is not running." in page.content.decode()
    assert client.get("/maintenance/4711/").status_code == 404


# ---- by REST ----------------------------------------------------------------------------------


def call(client: Client, path: str, body: dict[str, Any] | None = None) -> Any:
    """The answer to a POST."""
    return client.post(f"/api/v1/{path}", body or {}, content_type="application/json")


def test_rest_plans_lists_ends_and_cancels(sites: World, client: Client):
    given = {"name": "racks", "scenario": "attack", "filter": "site:berlin", "duration_ms": 60_000}
    made = call(client, "maintenance", given).json()
    assert (made["status"], made["covers"], made["end"] - made["begin"]) == (
        "running", "filter", 60_000,
    )  # fmt: skip
    listed = client.get("/api/v1/maintenance?status=running").json()
    assert [item["id"] for item in listed["items"]] == [made["id"]]
    ended = call(client, f"maintenance/{made['id']}/end").json()
    assert (ended["status"], ended["ended_by"]) == ("ended", "operator")
    assert call(client, f"maintenance/{made['id']}/end").json()["reason"] == "not-now"
    gone = client.delete(f"/api/v1/maintenance/{made['id']}").json()
    assert (gone["status"], gone["cancelled_by"]) == ("cancelled", "operator")


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({}, "end"),
        ({"end": NOW + 1, "duration_ms": 5}, "end"),
        ({"duration_ms": 5}, "all"),
        ({"duration_ms": 5, "assets": []}, "assets"),
        ({"duration_ms": 5, "filter": ""}, "filter"),
        ({"duration_ms": 5, "filter": "  "}, "filter"),
        ({"duration_ms": 5, "filter": "shop", "assets": ["shop"]}, "all"),
        ({"duration_ms": 5, "all": True, "assets": ["shop"]}, "all"),
        ({"end": NOW - HOUR_MS, "all": True}, "end"),
        ({"duration_ms": 5, "filter": "state:clear"}, "filter"),
        ({"duration_ms": 5, "assets": ["shop"]}, "scenario"),
        ({"duration_ms": 5, "begin": 5, "all": True}, "begin"),
    ],
)
def test_rest_says_what_it_expects(client: Client, more: dict[str, Any], field: str):
    answer = call(client, "maintenance", {"name": "racks"} | more)
    assert answer.status_code == 422
    assert [error["field"] for error in answer.json()["errors"]] == [field]
