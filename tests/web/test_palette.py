"""The command palette's list: the assets that a text names, nearest first, by an index."""

from __future__ import annotations

import re

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from webkit import make_user, show

from dashboard.board import palette
from dashboard.board.models import AssetState
from dashboard.scenarios import scenarios

pytestmark = pytest.mark.django_db


def names(text: str) -> list[str]:
    return [offer.asset for offer in palette.offers(text)]


def test_the_name_itself_comes_first_then_what_begins_so_then_what_contains_it():
    for asset in ("my-shop", "shop-1", "shop", "Shop-2", "bookshop", "other"):
        show("attack", asset, "clear")
    show("attack", "shop-9", "under-attack")
    assert names("shop") == ["shop", "shop-9", "Shop-2", "shop-1", "my-shop", "bookshop"]
    assert names("SHOP-1") == ["shop-1"]
    assert names("zz") == []


def test_of_a_short_text_it_knows_what_begins_with_it():
    for asset in ("a1", "ba", "A2"):
        show("attack", asset, "clear")
    assert names("a") == ["a1"]
    assert names("A") == ["A2", "a1"]
    assert names("a1") == ["a1"]
    assert "ba" not in names("a")


def test_every_board_is_searched_and_what_was_purged_is_not_offered():
    show("attack", "shop-1", "clear")
    show("orders", "shop-2", "picking")
    show("orders", "shop-3", "picking")
    AssetState.objects.filter(asset="shop-3").update(purged=True)
    found = {(offer.scenario.name, offer.asset) for offer in palette.offers("shop")}
    assert found == {("attack", "shop-1"), ("orders", "shop-2")}


def test_no_more_than_ten_are_offered():
    for n in range(30):
        show("attack", f"shop-{n:02}", "clear")
    assert names("shop") == [f"shop-{n:02}" for n in range(10)]
    assert len(names("hop")) == 10


def test_a_name_is_found_behind_many_that_hold_its_parts_elsewhere(monkeypatch):
    for n in range(20):
        show("attack", f"{n}-999-1999.example", "clear")
    show("attack", "site-199999.example", "clear")
    monkeypatch.setattr(palette, "LOOKED_AT", (5, 100))
    assert names("99999.EXAMPLE") == ["site-199999.example"]
    monkeypatch.setattr(palette, "LOOKED_AT", (5,))
    assert names("99999.EXAMPLE") == []


def test_each_look_at_names_goes_by_the_index_made_for_it():
    show("attack", "shop", "clear")
    with CaptureQueriesContext(connection) as made:
        names("sho")
    asked = [one["sql"] for one in made if 'FROM "board_assetstate"' in one["sql"]]
    plans = [plan(sql) for sql in asked]
    assert all("(scenario=? AND asset>? AND asset<?)" in each for each in plans[:-1])
    assert "board_assetstate USING INTEGER PRIMARY KEY" in plans[-1]
    assert len(plans) == len(scenarios()) + 1


def plan(sql: str) -> str:
    with connection.cursor() as cursor:
        cursor.execute("EXPLAIN QUERY PLAN " + sql.replace("%", "%%"))
        return " ".join(str(line) for line in cursor.fetchall())


def test_the_answer_is_options_and_nothing_in_a_name_is_markup():
    asset = '<b>"shop"</b>'
    show("attack", asset, "clear")
    client = Client()
    client.force_login(make_user("manager"))
    body = client.get("/palette/", {"q": "shop"}).content.decode()
    assert "<b>" not in body
    assert "&lt;b&gt;&quot;shop&quot;&lt;/b&gt;" in body
    (href,) = re.findall(r'role="option"[^>]* href="([^"]+)"', body)
    assert client.get(href).status_code == 200


@pytest.mark.parametrize("text", ["", " ", "a\0b", "\x07", "'", '"', "%", "_", "x" * 300, "\u202e"])
def test_any_text_may_be_asked_for(text: str):
    client = Client()
    client.force_login(make_user("manager"))
    assert client.get("/palette/", {"q": text}).status_code == 200
