"""The tabs with their counts: on every page, right from the first answer on, and in its title."""

from __future__ import annotations

import re

import pytest
from django.test import Client
from web_fixtures import make_user, show
from world import World

from dashboard.board import scenario_tabs
from dashboard.core.scenarios import scenarios, topics
from dashboard.live import heartbeats
from dashboard.live.entries import Entry
from dashboard.live.shared_live_view import live_view
from dashboard.live.tailer import Tailer

pytestmark = pytest.mark.django_db

PAGES = (
    "/", "/?scenario=orders", "/job/", "/partitions/", "/agents/", "/users/", "/audit/", "/bulk/",
    "/s/attack/a/shop/", "/s/attack/record/0/0/", "/account/tokens/", "/account/password/change/",
    "/nowhere/",
)  # fmt: skip

SHOWN = {"attack": 2, "connectivity": 1, "orders": 1, "clients": 0, "customers": 0}


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    monkeypatch.setattr(scenario_tabs, "_shared", (0.0, {}))
    live_view.cache_clear()
    yield
    live_view.cache_clear()


@pytest.fixture
def admin(world: World) -> Client:
    show("attack", "shop", "under-attack")
    show("attack", "other", "under-attack")
    show("connectivity", "192.0.2.0/25", "down")
    show("orders", "o-1", "received")
    client = Client()
    client.force_login(make_user("admin"))
    return client


def counts(body: str) -> dict[str, int]:
    found: list[tuple[str, str]] = re.findall(
        r'data-scenario="(\w+)".*?data-count="(\d+)"', body, re.DOTALL
    )
    return {name: int(n) for name, n in found}


def title(body: str) -> str:
    found: str = re.findall(r"<title>(.*?)</title>", body)[0]
    return found.removesuffix(" · Tallyboard")


@pytest.mark.parametrize("path", PAGES)
def test_every_page_has_the_counts(admin: Client, path: str):
    body = admin.get(path).content.decode()
    head = body[: body.index("<main")]
    assert counts(head) == SHOWN


def test_the_title_tells_of_the_board_that_is_shown_or_of_all(admin: Client):
    assert title(admin.get("/").content.decode()) == "(2) Attacks"
    assert title(admin.get("/?scenario=connectivity").content.decode()).startswith("(1) ")
    assert title(admin.get("/job/").content.decode()) == "(3) Job"
    orders = title(admin.get("/?scenario=orders").content.decode())
    assert not orders.startswith("(")  # none of its states is worse than another


def test_who_is_not_logged_in_is_told_no_counts(admin: Client):
    body = Client().get("/account/login/").content.decode()
    assert "data-scenario" not in body
    assert "(" not in title(body)


def test_an_open_page_is_told_the_counts(admin: Client):
    assert admin.get("/tabs/").json() == {"worst": SHOWN}
    assert 'data-tabs="/tabs/"' in admin.get("/job/").content.decode()
    assert "data-tabs" not in admin.get("/").content.decode()  # its socket tells it


def test_counts_of_a_time_when_nobody_looked_are_shown_to_nobody(admin: Client, world: World):
    """Without a socket nothing is counted: a page, and its first beat, know what is so now."""
    view = live_view()
    tailer = Tailer(world.bus, topics(), scenarios(), view)
    view.set_figure("attack", "counts", {"clear": 2})  # as it was when the last socket went
    entry = Entry("new", "0000000001.0000000000000000009.0000000000", None, ("t", 0), 9)
    view.apply("attack", [entry], {})
    tailer._uncounted.add("attack")
    tailer.care()
    assert counts(admin.get("/job/").content.decode())["attack"] == 2
    told = heartbeats.Beats().message("attack", 10_000)
    assert b'"worst":{}' in told.replace(b" ", b"")
