"""How a board is looked at: its order, its file, what a filter is called by, and the help."""

from __future__ import annotations

import csv
import html
import io
import re
from typing import Any

import pytest
from django.test import Client

from dashboard.core.audit.models import AuditEntry
from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.times import now_ms
from dashboard.core.states.queries import orders
from dashboard.watch.annotations import labels
from domain.records import Report
from support.web.pages import text_of
from support.web.web_fixtures import bearer, make_user
from support.web.world import World

NAME_HEAD = r'class="col-asset"( aria-sort="(\w+)")?><a class="sort" href="([^"]*)"'
LABELS = ["suspicious", "Suspicious", "SUSPICIOUS", "under-attack", "Under attack"]
PANEL = "/s/attack/a/pinned.example/"

pytestmark = pytest.mark.django_db


@pytest.fixture
def board(world: World) -> World:
    """Sites in several states, one of them pinned to what its votes do not say."""
    for asset, state, agents in (
        ("b.example", "clear", 2),
        ("c.example", "under-attack", 4),
        ("a.example", "suspicious", 3),
    ):
        world.report(asset, state, *(f"waf-{n}" for n in range(agents)))
    world.report("pinned.example", "under-attack", "waf-1", "waf-2", "waf-3")
    world.command("set", "pinned.example", state="clear")
    world.write()
    return world


def rows(client: Client, **query: Any) -> list[str]:
    """The assets of a board, from the top."""
    page = client.get("/", {"scenario": "attack", **query}).content.decode()
    return re.findall(r'<tr role="row"[^>]*data-asset="([^"]*)"', page)


def lines(answer: Any) -> list[dict[str, str]]:
    """The lines of a CSV file, by column."""
    whole = b"".join(answer.streaming_content).decode()
    return list(csv.DictReader(io.StringIO(whole)))


def test_a_page_is_sorted_as_its_address_says(client: Client, board: World) -> None:
    usual = ["c.example", "a.example", "pinned.example", "b.example"]
    by_name = ["a.example", "b.example", "c.example", "pinned.example"]
    assert rows(client) == usual
    assert rows(client, sort="no such order") == usual
    assert rows(client, sort="-state") == usual[::-1]
    assert rows(client, sort="asset") == by_name
    assert rows(client, sort="-asset") == by_name[::-1]
    assert rows(client, sort="votes")[0] == "c.example"
    assert rows(client, sort="-votes")[0] == "b.example"
    for sort, way in (("since", -1), ("-since", 1)):
        page_rows = client.get("/", {"scenario": "attack", "sort": sort}).context["rows"]
        assert [row["since"] * way for row in page_rows] == sorted(
            row["since"] * way for row in page_rows
        )
    assert all(len(rows(client, sort=name)) == 4 for name, _ in orders(scenarios()["attack"]))


def test_heads_lead_from_order_to_order(client: Client, board: World) -> None:
    query, seen = {"scenario": "attack"}, []
    for _ in range(3):
        page = client.get("/", query).content.decode()
        match = re.search(
            r'class="col-asset"( aria-sort="(\w+)")?><a class="sort" href="([^"]*)"', page
        )
        assert match
        seen.append(match[2])
        query = dict(re.findall(r"(\w+)=([^&]*)", html.unescape(match[3])))
    assert seen == [None, "ascending", "descending"]
    assert "sort" not in query


def test_the_file_has_all_that_the_filter_finds(client: Client, board: World) -> None:
    file_lines = lines(client.get("/board.csv", {"scenario": "attack"}))
    assert [line["asset"] for line in file_lines] == sorted(line["asset"] for line in file_lines)
    assert len(file_lines) == 4
    pinned = file_lines[-1]
    assert (pinned["state"], pinned["label"]) == ("clear", "Clear")
    assert (pinned["disputed"], pinned["underlying"]) == ("under-attack", "under-attack")
    assert pinned["pinned_by"] == "olga"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", pinned["since"])
    assert "waf-1=under-attack" in pinned["votes"]
    some = {"scenario": "attack", "q": "-pinned", "state": ["Clear", "suspicious"]}
    assert [line["asset"] for line in lines(client.get("/board.csv", some))] == [
        "a.example",
        "b.example",
    ]
    assert AuditEntry.objects.filter(action="export.board").count() == 2


def test_the_file_says_who_is_in_doubt_and_why(client: Client, world: World) -> None:
    world.report("a.example", "clear")
    world.job.put("attack", Report("a.example", "waf-1", "odd"))
    world.job.put("attack", Report("a.example", "=cmd", None))  # type: ignore[arg-type]
    world.write()
    (line,) = lines(client.get("/board.csv", {"scenario": "attack", "q": "has:doubt"}))
    assert line["in_doubt"] == (
        "'=cmd (its reports are refused: no state); "
        "waf-1 (says odd, which this board does not know)"
    )
    assert line["votes"] == "waf-1=clear (in doubt) waf-2=clear"
    assert (line["disputed"], line["cause"]) == ("unreadable", "report of =cmd not taken")


def test_the_file_refuses_what_is_no_filter(client: Client, board: World) -> None:
    refused = client.get("/board.csv", {"scenario": "attack", "q": "since:soon"})
    assert (refused.status_code, refused.content[:3]) == (422, b"q: ")
    assert client.get("/board.csv", {"scenario": "none"}).status_code == 404
    assert client.get("/board.xlsx", {"scenario": "attack"}).status_code == 404


@pytest.mark.parametrize(
    "named", ["suspicious", "Suspicious", "SUSPICIOUS", "under-attack", "Under attack"]
)
def test_a_state_is_named_by_its_label_everywhere(client: Client, board: World, named: str) -> None:
    asset = "a.example" if named.casefold() == "suspicious" else "c.example"
    assert rows(client, state=named) == [asset]
    assert rows(client, q=f'state:"{named}"') == [asset]
    token = bearer(make_user("manager"))
    for given in ({"state": named}, {"q": f'state:"{named}"'}):
        answer = client.get("/api/v1/scenarios/attack/assets", given, headers=token).json()
        assert [each["asset"] for each in answer["items"]] == [asset]
    for scenario in ("", "attack"):
        for given in ({"state": named}, {"q": f'state:"{named}"'}):
            page = client.get("/events/", {"scenario": scenario, **given}).content.decode()
            assert f"<bdi>{asset}</bdi>" in page
            assert "<bdi>b.example</bdi>" not in page


@pytest.mark.spread(1)
@pytest.mark.parametrize("scenario", ["attack", "connectivity", "orders"])
def test_each_example_of_the_help_can_be_typed(client: Client, world: World, scenario: str) -> None:
    """With nothing on the board yet, with reports, and with a label."""
    whole = scenarios()[scenario]
    for step in ("empty", "reported", "labelled"):
        if step == "reported":
            world.report("one", whole.states[0].name, 'odd "agent', scenario=scenario)
            world.write()
        if step == "labelled":
            labels.put(scenario, {"one": {"tier": "pure gold"}}, "olga", now_ms())
        page = client.get("/", {"scenario": scenario}).content.decode()
        shown = re.search(r'id="examples">(.*?)</span>', page)
        assert shown
        terms = [
            html.unescape(each) for each in re.findall(r"<code><bdi>(.*?)</bdi></code>", shown[1])
        ]
        assert len(terms) >= 3
        for term in terms:
            answer = client.get("/", {"scenario": scenario, "q": term})
            assert answer.context["problem"] == "", term
            matches = not term.startswith(("override", "is:dis", "has:"))
            assert (rows_of(answer) == ["one"]) == (matches and step != "empty"), term
    assert 'tier:"pure gold"' in terms


def rows_of(answer: Any) -> list[str]:
    return [row["asset"] for row in answer.context["rows"]]


def test_a_pin_that_the_votes_gainsay_is_not_plainly_what_it_says(
    client: Client, board: World
) -> None:
    page = client.get("/", {"scenario": "attack", "q": "is:disputed override:yes"})
    assert rows_of(page) == ["pinned.example"]
    (line,) = re.findall(r'<tr role="row" class="([^"]*)"[^>]*>(.*?)</tr>', page.content.decode())
    assert "is-disputed" in line[0].split()
    assert "c-red" in line[0].split()
    assert "disputed: somebody says, or said, Under attack" in line[1]


def test_a_pin_over_worse_is_marked_when_nobody_says_so_any_more(
    client: Client, board: World
) -> None:
    board.later(40 * 60_000)
    board.write()
    (row,) = client.get("/", {"scenario": "attack", "q": "name:pinned.example"}).context["rows"]
    assert (row["votes"], row["disputed"], row["beneath"]) == ([], None, "under-attack")
    page = client.get("/", {"scenario": "attack", "q": "pinned"}).content.decode()
    (line,) = re.findall(r'<tr role="row" class="([^"]*)"[^>]*>(.*?)</tr>', page)
    assert {"is-disputed", "c-red"} <= set(line[0].split())
    assert "without the pin: Under attack" in text_of(line[1])
    assert "without the pin" in client.get(PANEL).content.decode()


def test_commands_come_before_the_history_and_after_the_state(client: Client, board: World) -> None:
    fragment = {"HX-Request": "true"}
    panel = client.get(PANEL, headers=fragment).content.decode()
    places = ["panel-title", "panel-state", "facts", "panel-commands", "grounds", "past"]
    at = [panel.index(f'id="{name}"') for name in places]
    assert at == sorted(at)
    renewed = client.get(
        "/s/attack/a/pinned.example/?part=facts", headers=fragment
    ).content.decode()
    assert re.findall(r'id="([\w-]+)" hx-swap-oob="true"', renewed) == [
        "panel-state",
        "grounds",
        "past",
    ]
    assert "<form" not in renewed
