"""What happens on all boards: newest first, filtered, page by page, as a file."""

from __future__ import annotations

import csv
import io
import re
from urllib.parse import urlencode

import msgspec
import pytest
from django.test import Client

from dashboard.board.assets import events
from dashboard.core.states.models import Transition
from dashboard.watch.annotations.models import Label
from support.web.web_fixtures import error_of, pages_of
from support.web.world import World

pytestmark = [pytest.mark.django_db, pytest.mark.role("manager")]


def shown(client: Client, query: str = "") -> list[str]:
    """The assets of the events on a page, from the top."""
    page = client.get(f"/events/{query}").content.decode()
    return re.findall(r'class="asset-name" href="[^"]*" title="([^"]*)"', page)


def file(client: Client, form: str, query: str = "") -> bytes:
    """The whole of a file."""
    return b"".join(client.get(f"/events/events.{form}{query}").streaming_content)  # type: ignore[attr-defined]


def happen(world: World, *names: str) -> None:
    """Each becomes attacked, one after the other."""
    for name in names:
        world.report(name, "under-attack")
        world.write()


def test_the_newest_are_on_top_with_what_changed_and_why(world: World, client: Client) -> None:
    happen(world, "a", "b")
    world.command("purge", "a")
    world.write()
    assert shown(client) == ["a", "b", "a"]
    page = client.get("/events/").content.decode()
    assert "purged by olga" in page
    assert "reported by waf-1" in page
    assert page.count('class="word">Under attack') == 3


def test_the_filter_narrows_and_keeps_what_was_typed(world: World, client: Client) -> None:
    happen(world, "shop-1", "shop-2", "news")
    world.report("shop-9", "picking", "desk", scenario="orders")
    world.write()
    assert shown(client, "?q=SHOP&scenario=*") == ["shop-9", "shop-2", "shop-1"]
    assert shown(client, "?q=shop&scenario=attack") == ["shop-2", "shop-1"]
    assert shown(client, "?state=picking&scenario=*") == ["shop-9"]
    assert 'value="nope"' in client.get("/events/?q=nope").content.decode()
    assert "Nothing matches" in client.get("/events/?q=nope").content.decode()


def test_it_begins_with_the_boards_that_have_severity(world: World, client: Client) -> None:
    happen(world, "shop")
    world.report("order", "picking", "desk", scenario="orders")
    world.write()
    assert shown(client) == ["shop"]
    assert shown(client, "?scenario=orders") == ["order"]
    page = client.get("/events/").content.decode()
    assert '<option value="" selected>Boards with severity</option>' in page
    assert "Show all" not in page
    assert shown(client, "?scenario=*") == ["order", "shop"]
    narrowed = client.get("/events/?q=shop").content.decode()
    assert 'href="/events/?scenario=%2A">Show all' in narrowed
    for query, rows in (("", [b"shop"]), ("?scenario=*", [b"order", b"shop"])):
        lines = file(client, "csv", query).splitlines()[1:]
        assert [line.split(b",")[1] for line in lines] == rows


@pytest.mark.parametrize(
    ("query", "field", "message"),
    [
        ("?scenario=nope", "scenario", "Expected one of the choices"),
        ("?q=a%00b", "q", ""),
        ("?before=-1", "before", ""),
        ("?before=99999999999999999999", "before", ""),
        ("?before=x", "before", ""),
        ("?state=" + "x" * 100, "state", ""),
    ],
)
def test_what_is_no_filter_is_refused_by_its_field(
    client: Client, query: str, field: str, message: str
) -> None:
    response = client.get(f"/events/{query}")
    assert response.status_code == 422
    error = error_of(response, field)
    assert error
    assert message in error
    assert client.get(f"/events/events.csv{query}").status_code == 422


def test_the_filter_is_the_boards_language(world: World, client: Client) -> None:
    world.report("shop-1", "under-attack", "waf-1")
    world.report("shop-2", "under-attack", "waf-7")
    world.report("shop-2", "under-attack", "waf-10")
    world.report("cmd-1", "picking", "waf-1", scenario="orders")
    world.command("set", "shop-1", user='"agent":"waf-7"', state="clear")
    world.write()
    Label.objects.create(
        scenario="attack",
        asset="shop-2",
        key="tier",
        value="gold",
        source="person",
        at=1,
        shown=True,
    )
    for text, assets in {
        "agent:waf-1": ["cmd-1", "shop-1"],
        "agent:waf-1*": ["cmd-1", "shop-1"],
        "agent:waf-7": ["shop-2"],
        "agent:WAF-7": [],
        "-agent:waf-1": ["shop-1", "shop-2"],
        "agent:waf-1=picking": ["cmd-1"],
        "state:picking": ["cmd-1"],
        "tier:gold": ["shop-2"],
        "-tier:gold shop": ["shop-1", "shop-1"],
        "name:shop-* state:clear": ["shop-1"],
        "since:<1h shop-2": ["shop-2"],
        "since:>1h": [],
    }.items():
        assert sorted(shown(client, "?" + urlencode({"scenario": "*", "q": text}))) == assets, text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("pending:yes", "pending is not asked of events: expected state, since, agent, name or"),
        ("sate:clear", "there is no key sate; did you mean state"),
        ("since:soon", "since"),
    ],
)
def test_what_no_event_says_is_named(world: World, client: Client, text: str, message: str) -> None:
    answer = client.get("/events/", {"q": text})
    assert answer.status_code == 422
    assert message in answer.content.decode()
    assert f'value="{text}"' in answer.content.decode()
    assert client.get("/events/events.csv", {"q": text}).status_code == 422


def test_pages_meet_every_event_once(
    world: World, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events.EventList, "page_size", 2)
    happen(world, *"abcde")
    assert pages_of(client, "/events/", shown) == ["e", "d", "c", "b", "a"]


def test_only_so_many_rows_are_looked_at_for_a_page(
    world: World, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    happen(world, "wanted", "x", "y", "z")
    monkeypatch.setattr(events.EventList, "looked_at", 4)
    assert shown(client, "?q=wanted") == []
    page = client.get("/events/?q=wanted").content.decode()
    assert "Older ones may" in page
    older = re.search(r"before=(\d+)", page)
    assert older
    assert shown(client, f"?q=wanted&before={older[1]}") == ["wanted"]


def test_reminders_are_shown_when_asked_for(world: World, client: Client) -> None:
    happen(world, "a")
    row = Transition.objects.get(kind="change")
    row.pk, row.kind, row.place = None, "reminder", row.place[:-1] + "1"
    row.save()
    assert shown(client) == ["a"]
    assert shown(client, "?all=on") == ["a", "a", "a"]
    assert ", confirmed</span>" in client.get("/events/?all=on").content.decode()


def test_files_hold_what_the_filter_finds(world: World, client: Client) -> None:
    happen(world, "=cmd()", "b")
    lines = list(csv.DictReader(io.StringIO(file(client, "csv").decode())))
    assert [line["asset"] for line in lines] == ["b", "'=cmd()"]
    assert lines[0]["scenario"] == "attack"
    objects = [msgspec.json.decode(line) for line in file(client, "ndjson", "?q=cmd").splitlines()]
    assert [(one["asset"], one["state"]) for one in objects] == [("=cmd()", "under-attack")]
    assert client.get("/events/events.xml").status_code == 404


def test_a_file_comes_in_portions_up_to_its_most(
    world: World, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events.EventList, "portion_size", 2)
    monkeypatch.setattr(events.EventList, "at_most", 3)
    happen(world, *"abcde")
    assert [msgspec.json.decode(line)["asset"] for line in file(client, "ndjson").splitlines()] == [
        "e", "d", "c",
    ]  # fmt: skip


def test_a_script_gets_the_part_that_renews_itself(world: World, client: Client) -> None:
    happen(world, "a")
    part = client.get("/events/", headers={"HX-Request": "true"}).content.decode()
    assert part.startswith('<div id="events" data-refresh="/events/"')
    older = client.get("/events/?before=1", headers={"HX-Request": "true"}).content.decode()
    assert "data-refresh" not in older


def test_an_empty_list_says_so(client: Client) -> None:
    assert "Nothing has happened yet" in client.get("/events/").content.decode()
