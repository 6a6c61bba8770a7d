"""The list of all overrides: whose, why, until when, and what the votes make beneath."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.db import connection
from django.test import Client

from dashboard.board.assets import overrides
from dashboard.core.common.times import now_ms
from dashboard.core.states.models import AssetState
from support.web.world import World

pytestmark = pytest.mark.django_db

DAY_MS = 24 * 3_600_000


def pin(world: World, asset: str, *, state: str = "clear", **more: Any) -> None:
    """An asset whose votes make an attack, pinned."""
    world.report(asset, "under-attack")
    world.command("set", asset, state=state, **more)


def shown(client: Client, query: str = "") -> list[str]:
    """The assets listed, from the top."""
    page = client.get(f"/overrides/{query}").content.decode()
    return re.findall(r'data-key="attack/([^"]+)"', page)


def test_those_that_end_first_are_on_top_and_those_without_end_last(
    world: World, client: Client
) -> None:
    now = now_ms()
    pin(world, "never")
    pin(world, "later", until=now + DAY_MS)
    pin(world, "sooner", until=now + 60_000)
    world.report("free", "under-attack")
    world.write()
    assert shown(client) == ["sooner", "later", "never"]


def test_each_says_whose_why_and_what_the_votes_make(world: World, client: Client) -> None:
    pin(world, "pinned", until=now_ms() + 60_000)
    pin(world, "same", state="under-attack")
    world.write()
    page = client.get("/overrides/").content.decode()
    one, other = re.findall(r'<tr data-key="attack/.*?</tr>', page, re.DOTALL)
    assert "Clear" in one
    assert "Under attack" in one
    assert "olga" in one
    assert "a drill" in one
    assert "it ends within 15 minutes" in one
    assert "1 ends within 15 minutes" in page
    assert "the same" in other
    assert "no end" in other


def test_released_and_purged_assets_are_gone(world: World, client: Client) -> None:
    for name in ("released", "purged", "stays"):
        pin(world, name)
    world.write()
    world.command("release", "released")
    world.command("purge", "purged")
    world.write()
    assert shown(client) == ["stays"]
    assert AssetState.objects.filter(override_since__isnull=False).count() == 1


def test_ones_own_and_a_scenarios(world: World, client: Client) -> None:
    pin(world, "hers")
    pin(world, "mine", user="operator")
    world.write()
    assert shown(client, "?whose=mine") == ["mine"]
    assert shown(client, "?scenario=attack") == ["hers", "mine"]
    assert shown(client, "?scenario=orders") == []
    assert "Show all" in client.get("/overrides/?scenario=orders").content.decode()


def test_an_old_one_without_an_end_is_marked() -> None:
    one = overrides.PinnedAsset(None, "a", "clear", None, "olga", "", 0, None)  # type: ignore[arg-type]
    assert one.forgotten(DAY_MS + 1)
    assert not one.forgotten(DAY_MS)
    assert not one._replace(until=5).forgotten(DAY_MS + 1)


def test_where_nothing_is_pinned_it_says_how_to(client: Client) -> None:
    page = client.get("/overrides/").content.decode()
    assert "Nothing is pinned" in page
    assert "Set a state" in page


def test_the_list_goes_on_page_by_page(
    world: World, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overrides, "MOST", 2)
    for name in "abcde":
        pin(world, name)
    world.write()
    seen, query = [], ""
    for size in (2, 2, 1):
        rows = shown(client, query)
        assert len(rows) == size
        seen += rows
        page = client.get(f"/overrides/{query}").content.decode()
        assert "5 overrides" in page
        following = re.search(r'href="(\?after=[\d.]+)">Next page', page)
        query = following[1] if following else ""
    assert sorted(seen) == list("abcde")
    assert not query


def test_what_is_misspelt_is_not_everybodys(client: Client) -> None:
    for query in ("whose=mnie", "scenario=atack"):
        assert client.get(f"/overrides/?{query}").status_code == 404


def test_a_script_gets_the_part_that_renews_itself(world: World, client: Client) -> None:
    pin(world, "a")
    world.write()
    part = client.get("/overrides/?whose=mine", headers={"HX-Request": "true"}).content.decode()
    assert part.startswith('<div id="overrides" data-refresh="/overrides/?whose=mine"')
    assert "<html" not in part


def test_the_list_is_read_by_its_index(world: World) -> None:
    if connection.vendor != "sqlite":
        pytest.skip("SQLite's plan")
    rows = AssetState.objects.filter(overridden=True, scenario__in=["attack", "orders"])
    for part in overrides._parts(rows):
        assert "overrides" in part.order.of(part.rows).explain()
