"""What agents add beside a state: as columns, sorted, filtered, in files and in REST."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from dashboard.board.live import snapshots
from dashboard.core.common.scenarios import scenarios
from dashboard.core.states import queries
from dashboard.core.states.board_rows import details_of, row_of
from dashboard.core.states.models import AssetState, DetailKeys
from dashboard.core.states.queries import sorted_rows
from dashboard.core.states.rows import DETAIL_COLUMNS
from dashboard.notify.notifications import texts
from dashboard.notify.notifications.decisions import traits_of
from dashboard.serve.materialiser.worker import fill_details_anew
from dashboard.watch.annotations import labels
from dashboard.watch.filters.completion import offers
from domain.notifications.events import Event
from domain.notifications.group import Member
from domain.notifications.machine import Send
from domain.notifications.rule_parser import rule_from_plain
from domain.records import Vote
from domain.scenario import DetailSpec
from support.histories.state_records import as_read, record, vote
from support.web.web_fixtures import bearer, known_incident, show

ATTACK = "under-attack"


def said(state: str, *votes: dict[str, Any]) -> list[Any]:
    """What a row of this state shows: kind, rate and source."""
    return details_of(scenarios()["attack"], as_read(record(state=state, votes=list(votes))))


def by(agent: str, state: str, offset: int, **detail: Any) -> dict[str, Any]:
    """A vote that adds a detail."""
    return vote(agent, state, offset=offset, time=offset, detail=detail)


def test_all_values_are_of_the_newest_live_vote_that_adds_one() -> None:
    older, newer = by("a", ATTACK, 1, kind="syn-flood", rate=9), by("b", ATTACK, 2, rate=7)
    assert said(ATTACK, older, newer) == [None, 7, None]
    assert said(ATTACK, older, by("b", ATTACK, 2, other=7)) == ["syn-flood", 9, None]
    assert said(ATTACK, older, newer | {"silent": 3}) == ["syn-flood", 9, None]
    assert said(ATTACK, older, newer | {"muted": {"until": None, "user": "ada"}})[1] == 9


def test_the_worst_that_a_vote_says_is_shown_and_nothing_milder() -> None:
    worse, milder = by("a", ATTACK, 1, rate=9), by("b", "clear", 2, rate=7)
    assert said("clear", worse, milder)[1] == 9
    assert said(ATTACK, milder) == [None, None, None]


def test_only_texts_and_numbers_are_values() -> None:
    assert said("clear", by("a", "clear", 1, kind=["x"], rate=10**15, source="")) == [None] * 3
    assert said("clear", by("a", "clear", 1, kind=True, rate=-2, source="a\0b")) == [
        "yes",
        -2,
        "a\ufffdb",
    ]
    cells = row_of(
        scenarios()["attack"],
        as_read(record(votes=[by("a", "clear", 1, kind="x" * 300, rate=41_200.5)])),
    )["details"]
    assert cells == [["x" * 200, None], ["41,200.5 /s", 41_200.5], None]


def test_a_page_is_sorted_with_rows_without_the_detail_last() -> None:
    attack = scenarios()["attack"]
    rates = {"none": None, "text": "many", "small": 7, "large": 41_200}
    rows = [
        row_of(attack, as_read(record(name, votes=[by("a", "clear", 1, rate=rate)])))
        for name, rate in rates.items()
    ]
    names = [[row["asset"] for row in sorted_rows(attack, rows, way)] for way in ("rate", "-rate")]
    assert names == [["large", "small", "text", "none"], ["text", "small", "large", "none"]]


def attacked(asset: str, offset: int, **detail: Any) -> AssetState:
    """A site under attack, on the board."""
    votes = (Vote("waf-1", ATTACK, 5, 5, offset, None, 1, json.dumps(detail)),)
    return show("attack", asset, ATTACK, offset, votes=votes)


@pytest.fixture
def wave() -> None:
    """Three sites under attack, of two kinds."""
    attacked("big.example", 1, kind="syn-flood", rate=41_200, source="198.18.0.0/24")
    attacked("small.example", 2, kind="syn-flood", rate=900)
    attacked("other.example", 3, kind="scraping", rate=20_000)


@pytest.mark.django_db
def test_the_board_shows_sorts_and_filters_by_details(client: Client, wave: None) -> None:
    page = client.get("/", {"scenario": "attack", "q": "kind:syn-flood rate:>10k"})
    assert [row["asset"] for row in page.context["rows"]] == ["big.example"]
    body = page.content.decode()
    assert 'class="amount" title="41,200 /s">41,200 /s</bdi>' in body
    assert 'data-sort="rate">Rate</a>' in body
    assert '<input type="checkbox" name="column" value="d1"' in body
    sorted_by_rate = client.get("/", {"scenario": "attack", "sort": "rate"}).context["rows"]
    assert [row["asset"][:3] for row in sorted_by_rate] == ["big", "oth", "sma"]
    problem = client.get("/", {"scenario": "orders", "q": "kind:syn-flood"}).content.decode()
    assert "no asset has a label kind" in problem


@pytest.mark.django_db
def test_the_first_page_by_a_detail_has_the_first_of_all_that_match(
    client: Client, wave: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "LIMIT", 2)
    attacked("zoo.example", 4, kind="scraping", rate=90_000)

    def names(**query: str) -> list[str]:
        rows = client.get("/", {"scenario": "attack", **query}).context["rows"]
        return [row["asset"][:3] for row in rows]

    assert names() == ["big", "oth"]
    assert names(sort="rate") == ["zoo", "big"]
    assert names(sort="-rate") == ["sma", "oth"]
    assert names(sort="kind") == ["big", "sma"]
    for text in ("kind:s*", "agent:waf-1", "since:>1h", "state:under-attack", "example"):
        assert names(sort="rate", q=text) == ["zoo", "big"], text
    assert names(sort="-rate", q="kind:scraping") == ["oth", "zoo"]
    assert names(sort="-rate", wall="1") == ["oth", "big"], "a wall has the board's first"
    page = client.get("/", {"scenario": "attack", "sort": "rate"}).context
    assert (page["boot"]["ranked"], page["next_after"], page["more"]) == (True, "", 2)
    monkeypatch.setattr(queries, "COUNTED", 3)
    page = client.get("/", {"scenario": "attack", "sort": "rate"}).context
    assert [row["asset"][:3] for row in page["rows"]] == ["big", "oth"], "too many match"
    assert page["boot"]["ranked"] is False
    assert names(sort="rate", after=page["next_after"]) == ["zoo", "sma"]


@pytest.mark.django_db
def test_files_and_rest_have_the_details(client: Client, user: User, wave: None) -> None:
    answer: Any = client.get("/board.csv", {"scenario": "attack", "q": "big"})
    [line] = csv.DictReader(io.StringIO(b"".join(answer.streaming_content).decode()))
    assert (line["detail_kind"], line["detail_rate"]) == ("syn-flood", "41200")
    assert line["detail_source"] == "198.18.0.0/24"
    for path in ("assets?q=rate:>40k", "assets/big.example"):
        rest = client.get(f"/api/v1/scenarios/attack/{path}", headers=bearer(user)).json()
        [item] = rest.get("items", [rest])
        assert item["details"] == {
            "kind": "syn-flood", "rate": 41_200, "source": "198.18.0.0/24",
        }  # fmt: skip


@pytest.mark.django_db
def test_links_are_on_the_pages_of_an_asset_and_in_rest(
    client: Client, user: User, wave: None
) -> None:
    name = "big.example"
    waf = '<a href="https://waf.example/sites/big.example" rel="noopener noreferrer nofollow"'
    page = client.get(f"/s/attack/a/{name}/").content.decode()
    assert waf in page
    assert "wiki.example" not in page
    labels.put("attack", {name: {"tier": "gold & more"}}, "ada", 1)
    runbook = "https://wiki.example/runbooks/attack/gold%20%26%20more"
    assert f'href="{runbook}"' in client.get(f"/s/attack/a/{name}/").content.decode()
    path = f"/api/v1/scenarios/attack/assets/{name}"
    links = client.get(path, headers=bearer(user)).json()["links"]
    assert [link["title"] for link in links] == ["WAF", "Runbook"]
    assert links[1]["url"] == runbook
    known_incident(7)
    of_shop = '<bdi>shop</bdi>:</span> <a href="https://waf.example/sites/shop"'
    assert of_shop in client.get("/incidents/INC-7/").content.decode()


@pytest.mark.django_db
def test_messages_say_what_agents_add_and_where_to_look(wave: None) -> None:
    member = Member("attack", "big.example", "1", 0, ATTACK, ATTACK)
    send = Send("k", 0, "opened", (0,), (member,))
    text = texts.as_text(send, "why", "")
    assert "; Kind syn-flood, Rate 41,200 /s, Source 198.18.0.0/24" in text
    assert "WAF: https://waf.example/sites/big.example" in text
    mail = texts.as_html(send, "why", "")
    assert "<small>Kind syn-flood, Rate 41,200 /s, Source 198.18.0.0/24</small>" in mail
    assert '<a href="https://waf.example/sites/big.example">WAF</a>' in mail
    [incident] = texts.payload(send, "rule", "")["incidents"]
    assert incident["details"].startswith("Kind syn-flood")


@pytest.mark.django_db
def test_completion_knows_keys_and_values(wave: None) -> None:
    attack = scenarios()["attack"]

    def offered(text: str) -> list[str]:
        return [item.text for item in offers(attack, text, len(text), "ada").items]

    assert offered("kin") == ["kind:"]
    assert offered("kind:") == ["scraping", "syn-flood"]
    assert offered("rate:") == [">10000", ">1000", ">100"]


@pytest.mark.django_db
def test_other_details_in_the_file_fill_the_columns_of_rows_that_are_there(wave: None) -> None:
    attack = scenarios()["attack"]
    fill_details_anew({"attack": attack})
    fewer = replace(attack, details=(DetailSpec("rate", "Rate"),))
    fill_details_anew({"attack": fewer})
    row = AssetState.objects.values(*DETAIL_COLUMNS).get(asset="big.example")
    assert {name: value for name, value in row.items() if value is not None} == {"amount_1": 41_200}
    assert DetailKeys.objects.get().keys == '["rate"]'


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("labels_of_rule", "joins"),
    [
        (["kind=syn-flood"], True),
        (["kind=scraping"], False),
        (["rate=>10000"], True),
        (["rate=<10000"], False),
        (["rate=41200"], True),
        (["kind=>5", "source=<5"], False),
        (["tier=gold"], True),
    ],
)
def test_a_rule_tells_of_what_agents_add(
    wave: None, labels_of_rule: list[str], joins: bool
) -> None:
    labels.put("attack", {"big.example": {"tier": "gold"}}, "ada", 1)
    rule = rule_from_plain({"stages": [{"channels": [1]}], "labels": labels_of_rule})
    traits = traits_of("attack", {"big.example"})["big.example"]
    event = Event("begun", "attack", "big.example", 1, state=ATTACK, labels=traits)
    assert rule.joins(scenarios()["attack"], event) is joins
