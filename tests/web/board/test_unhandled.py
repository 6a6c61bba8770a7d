"""Unhandled: what nobody has in hand comes first, and chip, tabs, title and socket count it."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from dashboard.board.assets import scenario_tabs
from dashboard.board.live import snapshots
from dashboard.board.live.live_view import live_view
from dashboard.board.live.page_filter import PageFilter
from dashboard.board.live.snapshots import MergedSnapshot, read
from dashboard.core.common.scenarios import scenarios
from dashboard.watch.annotations.acknowledgements import acknowledge, take_back
from dashboard.watch.annotations.models import Mark
from dashboard.watch.filters import query
from support.web.web_fixtures import make_user, show

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("fresh")]

NOW = int(time.time() * 1000)
HOUR_MS = 3_600_000


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch, world: Any):
    monkeypatch.setattr(scenario_tabs, "_shared", (0.0, {}))
    live_view.cache_clear()
    yield
    live_view.cache_clear()


@pytest.fixture
def user() -> User:
    """An operator; and a board of two attacked sites, a suspicious one and a calm one."""
    for asset in ("bank", "shop"):
        show("attack", asset, "under-attack")
    show("attack", "mail", "suspicious")
    show("attack", "blog", "clear")
    made: User = make_user("operator")
    return made


def have(user: User, *assets: str, until: int = NOW + HOUR_MS) -> None:
    outcome = acknowledge(scenarios()["attack"], assets, user, "", until, NOW)
    assert outcome.taken == list(assets)


def work_on(asset: str, until: int) -> None:
    Mark.objects.update_or_create(
        scenario="attack", asset=asset,
        defaults={"revision": NOW, "changed_at": NOW, "work_name": "racks", "work_until": until,
                  "work_window": 1},
    )  # fmt: skip


def page(after: Any = None) -> MergedSnapshot:
    return read(scenarios()["attack"], PageFilter(after=after), {})


def names(snapshot: MergedSnapshot) -> list[str]:
    return [row["asset"] for row in snapshot.merged.rows]


def test_what_is_handled_comes_after_all_that_is_not(user: User):
    assert names(page()) == ["bank", "shop", "mail", "blog"]
    have(user, "bank")
    work_on("shop", NOW + HOUR_MS)
    assert names(page()) == ["mail", "bank", "shop", "blog"]
    assert page().unhandled == {"suspicious": 1}
    assert page().handled.acknowledged == {"under-attack": 1}
    take_back(scenarios()["attack"], ["bank"], user, NOW)
    work_on("shop", NOW - 1)
    assert names(page()) == ["bank", "shop", "mail", "blog"]
    assert page().unhandled == {"under-attack": 2, "suspicious": 1}


def test_page_after_page_has_every_row_once(user: User, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(snapshots, "LIMIT", 1)
    have(user, "bank", "mail")
    assets, after = [], None
    for _ in range(5):
        snapshot = page(after)
        assets += names(snapshot)
        after = snapshot.merged.last
        if after is None:
            break
    assert assets == ["shop", "bank", "mail", "blog"]


def test_an_acknowledgement_does_not_hide_what_gets_worse(user: User):
    have(user, "mail")
    assert names(page()) == ["bank", "shop", "mail", "blog"]
    assert page().unhandled == {"under-attack": 2}
    show("attack", "mail", "under-attack", offset=2, since=2_000)
    assert page().unhandled == {"under-attack": 3}
    assert names(page()) == ["mail", "bank", "shop", "blog"]


def test_the_filter_finds_what_is_counted(user: User, client: Client):
    have(user, "bank")
    answer = client.get("/", {"scenario": "attack", "q": "is:unhandled"})
    assert [row["asset"] for row in answer.context["rows"]] == ["shop", "mail"]
    answer = client.get("/", {"scenario": "attack", "q": "-is:unhandled"})
    assert [row["asset"] for row in answer.context["rows"]] == ["bank", "blog"]


def test_the_chip_counts_and_leads_to_them(user: User, client: Client):
    have(user, "bank")
    answer = client.get("/?scenario=attack")
    chip = answer.context["unhandled"]
    assert (chip["count"], chip["on"]) == (2, False)
    assert "q=is%3Aunhandled" in chip["address"]
    body = answer.content.decode()
    assert re.search(r'data-doubt="unhandled"\s+data-term="is:unhandled"', body)
    assert re.findall(r'<tr role="row" class="([^"]*)" data-asset="bank"', body) == [
        "s0 c-red is-handled"
    ]
    on = client.get("/?scenario=attack&q=is:unhandled").context["unhandled"]
    assert (on["on"], on["address"]) == (True, "/?scenario=attack")


def test_tabs_and_title_count_it_in_the_colour_of_the_worst(user: User, client: Client):
    have(user, "bank", "shop")
    body = client.get("/job/").content.decode()
    assert "<title>(1) " in body
    badge = re.findall(r'class="tab-count c-(\w+)"\s+data-count="(\d+)"', body)
    assert badge[0] == ("amber", "1")
    assert client.get("/tabs/").json()["badges"]["attack"] == [1, "amber", "Suspicious"]


def test_a_life_cycle_has_neither_chip_nor_badge(client: Client):
    show("orders", "o-1", "received")
    answer = client.get("/?scenario=orders")
    assert 'data-term="is:unhandled"' not in answer.content.decode()
    assert "orders" not in client.get("/tabs/").json()["badges"]
    assert not query.rows(query.parse("is:unhandled", scenarios()["orders"], NOW),
                          scenarios()["orders"], NOW).exists()  # fmt: skip


def test_rest_counts_it(client: Client, user: User):
    have(user, "bank")
    boards = client.get("/api/v1/scenarios").json()
    attack = next(each for each in boards if each["name"] == "attack")
    assert attack["unhandled"] == {"under-attack": 1, "suspicious": 1}
    answer = client.get("/api/v1/scenarios/attack/assets?q=is:unhandled").json()
    assert [each["asset"] for each in answer["items"]] == ["mail", "shop"]


@pytest.mark.parametrize("text", ["", "is:unhandled", "-is:unhandled"])
def test_order_and_filter_read_by_an_index(user: User, text: str):
    have(user, "bank")
    work_on("mail", NOW + HOUR_MS)
    attack = scenarios()["attack"]
    terms = query.parse(text, attack, NOW) if text else None
    with CaptureQueriesContext(connection) as captured:
        assert read(attack, PageFilter(terms=terms, now=NOW), {}).merged.rows
    plans = []
    with connection.cursor() as cursor:
        for each in captured.captured_queries:
            if each["sql"].startswith("SELECT"):
                cursor.execute("EXPLAIN QUERY PLAN " + each["sql"].replace("%", "%%"))
                plans += [detail for *_, detail in cursor.fetchall()]
    assert any("INDEX board_order" in plan for plan in plans)
    assert any("INDEX marks_in_force" in plan for plan in plans)
    large = re.compile(r"SCAN (states_assetstate|annotations_mark|incidents_|U0)")
    assert [plan for plan in plans if large.match(plan) or "TEMP B-TREE" in plan] == []


@pytest.mark.parametrize(("role", "offered"), [("admin", 2), ("manager", 0)])
def test_who_may_act_has_a_button_on_each_row(user: User, role: str, offered: int):
    have(user, "bank")
    client = Client()
    client.force_login(make_user(role))
    body = client.get("/?scenario=attack").content.decode()
    rows = re.findall(r'<tr role="row" class="[^"]*is-unhandled.*?</tr>', body, re.DOTALL)
    assert len(rows) == 2
    assert sum('class="have"' in row for row in rows) == offered


def test_one_click_acknowledges_for_an_hour(user: User, client: Client):
    answer = client.post(
        "/s/attack/acknowledge/", {"asset": "shop", "end": "1h", "zone": "UTC"},
        headers={"Accept": "application/json"},
    )  # fmt: skip
    assert answer.json()["taken"] == ["shop"]
    assert page().unhandled == {"under-attack": 1, "suspicious": 1}
