"""The command palette's list: the assets that a text names, nearest first, by an index."""

from __future__ import annotations

import html
import re

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from dashboard.board.assets import palette
from dashboard.board.assets.palette import acts
from dashboard.core.common.scenarios import scenarios
from dashboard.core.states.models import AssetState
from dashboard.watch.agents.models import Agent
from dashboard.watch.commands.models import Command
from support.web.web_fixtures import make_user, show

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
    offers = {(offer.scenario.name, offer.asset) for offer in palette.offers("shop")}
    assert offers == {("attack", "shop-1"), ("orders", "shop-2")}


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
    asked = [one["sql"] for one in made if 'FROM "states_assetstate"' in one["sql"]]
    plans = [plan(sql) for sql in asked]
    assert all("(scenario=? AND asset>? AND asset<?)" in each for each in plans[:-1])
    assert "states_assetstate USING INTEGER PRIMARY KEY" in plans[-1]
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


# ---- what can be done ----------------------------------------------------------------------------


def links(text: str, board: str = "", role: str = "operator") -> dict[str, str]:
    client = Client()
    client.force_login(make_user(role))
    body = client.get("/palette/", {"q": text, "board": board}).content.decode()
    acts = re.findall(r'class="option act".*? href="([^"]+)">\s*<span[^>]*>(.*?)</span>', body)
    return {re.sub("[\u2066-\u2069]", "", title): html.unescape(href) for href, title in acts}


def test_a_text_leads_to_the_form_filled_in_and_does_nothing():
    show("attack", "shop.example", "under-attack")
    hrefs = links("set shop.example clear")
    assert hrefs == {
        "Set shop.example to Clear…": "/s/attack/a/shop.example/?do=set&to=clear",
    }
    client = Client()
    client.force_login(User.objects.get(username="operator"))
    page = client.get(hrefs["Set shop.example to Clear…"]).content.decode()
    assert re.search(r'<details class="command command-set" open>', page)
    assert re.search(r'<option value="clear" selected>Clear</option>', page)
    assert re.search(r'name="reason"[^>]* autofocus', page)
    assert not Command.objects.exists()


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("set shop under", "Set shop to Under attack…"),
        ("SET shop Under attack", "Set shop to Under attack…"),
        ("set shop", "Set shop…"),
        ("ack shop", "Acknowledge shop…"),
        ("release sh", "Release shop…"),
        ("purge shop", "Purge shop…"),
        ("vote shop clear", "Vote shop to Clear…"),
        ("mute waf", "Mute waf-1…"),
        ("unmute waf-1", "Unmute waf-1…"),
    ],
)
def test_each_verb_finds_what_it_is_for_and_opens_its_form(text: str, title: str):
    show("attack", "shop", "clear")
    Agent.objects.create(scenario="attack", agent="waf-1", first_seen=1, last_seen=1)
    hrefs = links(text)
    assert title in hrefs, hrefs
    client = Client()
    client.force_login(User.objects.get(username="operator"))
    page = client.get(hrefs[title])
    assert page.status_code == 200
    verb = title.split(maxsplit=1)[0].lower()
    if verb != "unmute":  # an agent that is not muted has no such form
        kind = {"acknowledge": "ack"}.get(verb, verb)
        opened = rf'class="(?:command command-{kind}|ask)" open'
        assert re.search(opened, page.content.decode())


def test_a_bulk_run_begins_with_the_filter_that_the_board_shows():
    hrefs = links("bulk", "/?scenario=orders&q=shop&state=picking&state=shipped")
    href = hrefs["Purge all that this filter shows, in bulk…"]
    asked = "/bulk/?scenario=orders&kind=purge&q=shop&state=picking&state=shipped"
    assert href == asked
    assert "Set all sites, in bulk…" in links("bulk", role="admin")


@pytest.mark.parametrize("text", ["set", "s shop", "set nothing-there", "set shop purple", "\0"])
def test_what_is_not_known_is_not_offered(text: str):
    show("attack", "shop", "clear")
    assert links(text) == {}


def test_who_may_not_command_is_offered_nothing_to_do():
    show("attack", "shop", "clear")
    assert links("set shop clear", role="manager") == {}
    client = Client()
    client.force_login(User.objects.get(username="manager"))
    assert "data-verb" not in client.get("/").content.decode()
    client.force_login(make_user("operator"))
    assert 'data-verb="set"' in client.get("/").content.decode()


def test_a_text_of_many_words_asks_little(django_assert_max_num_queries):
    with django_assert_max_num_queries(80):
        acts("set " + "a " * 120)
