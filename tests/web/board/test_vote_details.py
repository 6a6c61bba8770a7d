"""What agents add to their reports, on the page of an asset; who fills an empty board."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client

from dashboard.board.assets.asset_page import EARLIEST, details_of
from dashboard.core.common.times import now_ms
from dashboard.core.states.stores import record_of
from domain.records import Vote
from support.web.pages import text_of
from support.web.web_fixtures import show

pytestmark = pytest.mark.django_db

AT = 1_790_000_000_000
WINDOWS = {
    "windows": [
        {"begin": AT, "end": AT + 5_000, "count": 6},
        {"begin": AT + 2_000, "end": AT + 7_000, "count": 1_204},
    ],
    "verified_until": AT + 900_000,
}


def vote(agent: str, detail: Any, silent: int | None = None) -> Vote:
    now = now_ms()
    text = detail if isinstance(detail, str) or detail is None else json.dumps(detail)
    return Vote(agent, "challenge", now, now, 1, now + 60_000, 1, text, silent=silent)


def shown(client: Client, *votes: Vote) -> str:
    """The text of the page of a client that has these votes."""
    show("clients", "client-0", "challenge", votes=votes)
    return text_of(client.get("/s/clients/a/client-0/").content.decode())


def test_windows_are_a_table_with_times_in_the_readers_zone(bus: Any, client: Client) -> None:
    text = shown(client, vote("login-guard", WINDOWS))
    begin, end, later = "2026-09-21 14:13:20 UTC", "2026-09-21 14:13:25 UTC", "2026-09-21 14:13:27"
    assert "What login-guard adds Verified until 2026-09-21 14:28:20 UTC Windows" in text
    assert f"Begin End Count {begin} {end} 6 2026-09-21 14:13:22 UTC {later} UTC 1,204" in text
    body = client.get("/s/clients/a/client-0/").content.decode()
    assert f'<time data-at="{AT}"' in body, "which the browser puts into the reader's zone"


def test_what_is_not_there_is_a_dash(bus: Any, client: Client) -> None:
    text = shown(client, vote("login-guard", {"windows": [], "verified_until": None}))
    assert "Windows – Verified until –" in text


def test_the_panel_renews_it_with_the_votes(bus: Any, client: Client) -> None:
    show("clients", "client-0", "challenge", votes=(vote("login-guard", WINDOWS),))
    address = "/s/clients/a/client-0/?part=facts"
    body = client.get(address, headers={"HX-Request": "true"}).content.decode()
    assert "What <bdi>login-guard</bdi> adds" in body


def test_agents_without_a_detail_add_nothing(bus: Any, client: Client) -> None:
    labels = {"labels": {"tier": "gold"}}
    assert " adds " not in shown(client, vote("a", None), vote("b", {}), vote("c", labels))


def test_silent_agents_are_named_and_many_are_counted(bus: Any, client: Client) -> None:
    text = shown(client, vote("gone", {"n": 1}, silent=now_ms()))
    assert "What gone adds N 1" in text
    text = shown(client, *(vote(f"a{n:02}", {"n": n}) for n in range(15)))
    assert text.count(" adds ") == 12
    assert "and 3 more: see their records in the log." in text


@pytest.mark.parametrize(
    ("detail", "values"),
    [
        ({"requests_per_second": 41_200}, [("Requests per second", "41,200", None)]),
        ({"requests_per_second": AT}, [("Requests per second", "1,790,000,000,000", None)]),
        ({"seen-at": AT}, [("Seen at", "1,790,000,000,000", AT)]),
        ({"until": EARLIEST - 1}, [("Until", "946,684,799,999", None)]),
        ({"until": "soon"}, [("Until", "soon", None)]),
        ({"up": True, "x": [1, "é"]}, [("Up", "yes", None), ("X", '[1, "é"]', None)]),
        ({"": 1.5, "_": {"a": 1}}, [("", "1.5", None), ("", '{"a": 1}', None)]),
    ],
)
def test_values_are_shown_as_what_they_are(
    bus: Any, detail: dict[str, Any], values: list[tuple[str, str, int | None]]
) -> None:
    show("clients", "client-0", "challenge", votes=(vote("a", detail),))
    record = record_of("clients", "client-0")
    assert record
    (one,) = details_of(record)
    assert [(name, value.text, value.at) for name, value in one.values] == values


def test_a_table_has_the_columns_of_all_its_rows(bus: Any) -> None:
    rows = [{"a": 1}, {"b": "x", "a": None}]
    show("clients", "client-0", "challenge", votes=(vote("a", {"rows": rows}),))
    record = record_of("clients", "client-0")
    assert record
    (table,) = details_of(record)[0].tables
    assert [(column.title, column.numeric) for column in table.columns] == [
        ("A", False),
        ("B", False),
    ]
    assert [[value.text for value in row] for row in table.rows] == [["1", ""], ["", "x"]]


def test_hostile_names_and_values_are_text(bus: Any, client: Client) -> None:
    hostile = {"<b>x": "<script>", "t": [{"<i>": "\u202e"}], "n": 10**200, "e": 1e308}
    show("clients", "client-0", "challenge", votes=(vote("a", hostile),))
    page = client.get("/s/clients/a/client-0/")
    assert page.status_code == 200
    body = page.content.decode()
    assert "<b>x" not in body
    assert "<i>" not in body
    assert "<bdi>&lt;script&gt;</bdi>" in body


# ---- empty boards -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scenario", "pipeline"), [("clients", "login-guard"), ("customers", "loyalty")]
)
@pytest.mark.parametrize(
    ("chosen", "on"), [("none", False), ("report-rates", False), ("all", True), ("", True)]
)
def test_an_empty_board_names_the_pipeline_that_fills_it(
    bus: Any, client: Client, settings: Any, scenario: str, pipeline: str, chosen: str, on: bool
) -> None:
    chosen = chosen or f"report-rates, {pipeline}"
    settings.TALLYBOARD = settings.TALLYBOARD.model_copy(update={"pipelines": chosen})
    body = client.get(f"/s/{scenario}/").content.decode()
    assert f"The pipeline <code>{pipeline}</code> reports here." in body
    assert ("It is switched on" in body) is on
    others = "" if chosen == "none" else f"{chosen},"
    setting = f"To turn it on: <code>TALLYBOARD_PIPELINES={others}{pipeline}</code>"
    assert (setting in body) is not on


def test_a_board_that_agents_fill_names_no_pipeline(bus: Any, client: Client) -> None:
    assert "The pipeline" not in client.get("/s/attack/").content.decode()
