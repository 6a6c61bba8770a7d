"""A board's past: as it stood at a moment, whatever has happened since, and what differs."""

from __future__ import annotations

import json
import random
import re
from datetime import UTC, datetime
from typing import Any

import pytest
from django.test import Client

from dashboard.board.assets import past_board
from dashboard.board.assets.past_board import AsOf, Narrowed
from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.times import now_ms
from dashboard.core.states import queries
from dashboard.core.states.models import CHANGE, AssetState, Transition
from support.web.world import World

pytestmark = [pytest.mark.django_db, pytest.mark.role("manager")]

HOUR_MS = 3_600_000


def stamp(at: int) -> str:
    """A moment as the address has it, to the ms."""
    return datetime.fromtimestamp(at / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")


def board_now() -> list[tuple[str, str, int]]:
    rows = AssetState.objects.filter(scenario="attack", purged=False)
    return list(rows.order_by("severity", "-since", "asset").values_list("asset", "state", "since"))


def in_another_order() -> bool:
    """Whether a dispute has rows stand elsewhere on the board of now."""
    rows = AssetState.objects.filter(scenario="attack", purged=False)
    ranked = rows.order_by("rank", "-since", "asset").values_list("asset", "state", "since")
    return list(ranked) != board_now()


def board_then(at: int, **narrowed: str) -> list[tuple[str, str, int]]:
    past = AsOf(scenarios()["attack"], at)
    return [(r.asset, r.state, r.since) for r in past.rows(Narrowed(**narrowed))]


Board = list[tuple[str, str, int]]


def a_day(world: World, seed: int) -> list[tuple[int, Board, dict[str, int], bool]]:
    """Reports, commands and hours at random; the board and its counts after each hour, and when,
    and whether a dispute has put a row elsewhere on it."""
    chance = random.Random(seed)
    seen = []
    for _hour in range(8):
        for _ in range(6):
            asset = f"shop-{chance.randrange(8)}"
            acts = ("report", "report", "report", "set", "release", "purge", "dispute")
            act = chance.choice(acts)
            if act == "dispute":
                world.report(asset, "under-attack")
                world.command("set", asset, state="clear")
            elif act == "report":
                world.report(asset, chance.choice(("under-attack", "clear", "clear")))
            else:
                world.command(act, asset, **({"state": "under-attack"} if act == "set" else {}))
            world.later(chance.randrange(1, 400_000))
        world.write()
        at = world.bus._clock()
        world.later(1)
        seen.append((at, board_now(), queries.counts("attack"), in_another_order()))
    return seen


@pytest.mark.spread(3)
@pytest.mark.parametrize("seed", range(6))
def test_every_past_board_comes_back_as_it_was(world: World, seed: int):
    day = a_day(world, seed)
    assert any(other for *_, other in day)
    for at, board, counts, _ in day:
        assert board_then(at) == board
        assert AsOf(scenarios()["attack"], at).counts() == counts


def test_pages_follow_one_another_without_a_gap(world: World, monkeypatch: pytest.MonkeyPatch):
    moments = a_day(world, 11)
    monkeypatch.setattr(past_board, "PAGE", 2)
    at, board, *_ = max(moments, key=lambda moment: len(moment[1]))
    past, rows, after = AsOf(scenarios()["attack"], at), [], None
    while page := past.page(Narrowed(), after)[:2]:
        rows += [(row.asset, row.state, row.since) for row in page]
        after = page[-1].order
    assert rows == board
    assert len(board) > 2


def test_a_filter_is_of_the_states_of_then(world: World):
    world.report("shop-1", "under-attack")
    world.report("farm-1", "under-attack")
    world.write()
    at = world.bus._clock()
    world.later(1)
    world.command("set", "shop-1", state="clear")
    world.write()
    assert [row[0] for row in board_then(at, state="under-attack")] == ["farm-1", "shop-1"]
    assert [row[0] for row in board_then(at, state="under-attack", q="SHOP")] == ["shop-1"]
    assert board_then(at, state="clear") == []


def differences(client: Client, at: int, **more: str) -> Any:
    given = {"scenario": "attack", "at": stamp(at), **more}
    return client.get("/as-of/as-of.ndjson", given).getvalue().decode().splitlines()


def test_what_differs_and_what_came_back(world: World, client: Client):
    for asset in ("stays", "worse", "there-and-back", "goes"):
        world.report(asset, "clear")
    world.write()
    at = world.bus._clock()
    world.later(1)
    world.report("worse", "under-attack")
    world.command("set", "there-and-back", state="under-attack")
    world.command("release", "there-and-back")
    world.command("purge", "goes")
    world.report("comes", "under-attack")
    world.write()
    lines = {line["asset"]: line for line in map(json.loads, differences(client, at))}
    assert {a: (f["state"], f["now"], f["worst"]) for a, f in lines.items()} == {
        "worse": ("clear", "under-attack", "under-attack"),
        "goes": ("clear", "", ""),
        "comes": ("", "under-attack", "under-attack"),
    }
    back = {line["asset"]: line for line in map(json.loads, differences(client, at, back="on"))}
    assert back["there-and-back"]["changes"] == 2
    assert back["there-and-back"]["worst"] == "under-attack"
    gone = [json.loads(line)["asset"] for line in differences(client, at, now="-")]
    assert gone == ["goes"]
    page = client.get("/as-of/", {"scenario": "attack", "at": stamp(at)}).content.decode()
    assert "3 assets; 1 more changed and is again as it was" in page
    assert re.findall(r'class="asset-name"[^>]*>\s*<bdi>([^<]+)', page) == [
        "comes",
        "worse",
        "goes",
    ]


def test_the_pages_say_what_to_do_where_there_is_nothing(world: World, client: Client):
    page = client.get("/as-of/").content.decode()
    assert "Every asset is as it was" in page
    page = client.get("/as-of/?view=board").content.decode()
    assert "No agent had reported anything by then" in page


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"at": "yesterday"}, "Expected a day and a time"),
        ({"at": "2100-01-01T00:00"}, "expected a moment that has passed"),
        ({"at": "2001-01-01T00:00"}, "expected a moment of the last 90 days"),
        ({"scenario": "nothing"}, "Expected one of the choices"),
        ({"view": "x"}, "(Hidden field view)"),
        ({"q": "a\x07b", "at": "2001-01-01T00:00"}, "no name contains such a character"),
    ],
)
def test_a_bad_moment_is_named_and_kept(
    world: World, client: Client, given: dict[str, str], said: str
):
    answer = client.get("/as-of/", given)
    assert answer.status_code == 422
    assert said in answer.content.decode()
    assert client.get("/as-of/as-of.csv", given).status_code == 422
    if "at" in given:
        assert f'value="{given["at"]}"' in answer.content.decode()


def test_too_much_since_then_is_said_and_not_worked_out(
    world: World, client: Client, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(past_board, "MOST_CHANGES", 2)
    before = now_ms() - HOUR_MS
    for n in range(3):
        world.report(f"shop-{n}", "under-attack")
    world.write()
    assert Transition.objects.filter(kind=CHANGE).count() == 3
    answer = client.get("/as-of/", {"at": stamp(before)})
    assert answer.status_code == 422
    assert "over 2 changes since then: expected a later moment" in answer.content.decode()
    assert client.get("/as-of/as-of.csv", {"at": stamp(before)}).status_code == 422
