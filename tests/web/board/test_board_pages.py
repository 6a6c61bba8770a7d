"""The board's pages: rows, filter, empty states, panel, who may see them."""

from __future__ import annotations

import html
import re
import uuid
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from django.test import Client

from bus.memory import MemoryBus
from dashboard.board.live.live_view import live_view
from dashboard.board.live.tailer import Tailer
from dashboard.core.common.scenarios import scenarios, topics
from dashboard.core.common.times import duration, now_ms
from dashboard.serve.materialiser.worker import Materialiser
from domain.records import Command, Report
from support.kafka.sinks import PlayedJob
from support.web.pages import text_of
from support.web.web_fixtures import make_user

pytestmark = [pytest.mark.django_db, pytest.mark.role("manager")]

ODD = (
    "10.0.0.0/8",
    "100%",
    "%2F",
    "a b+c",
    "Zürich · 東京",
    "a.b..c",
    "a/../b",
    "x?y#z&w",
    "'\"<>\\",
)


class World:
    """The job's part, and the materialiser's or the tailer's."""

    def __init__(self) -> None:
        self.bus = MemoryBus(now_ms)
        self.job = PlayedJob(self.bus, scenarios().values())

    def report(self, asset: str, state: str, *agents: str, scenario: str = "attack") -> None:
        for agent in agents or ("waf-1", "waf-2"):
            self.job.put(scenario, Report(asset, agent, state))

    def old_report(self, asset: str, state: str, agent: str) -> None:
        """A report as a spool sends it: older than a vote lives, so that it arrives silent."""
        self.job.put("attack", Report(asset, agent, state, now_ms() - 12 * 60_000))

    def command(self, kind: Any, asset: str, **more: Any) -> None:
        self.job.put("attack", Command(kind, asset, str(uuid.uuid4()), "olga", "a drill", **more))

    def write(self) -> None:
        self.job.run()
        materialiser = Materialiser(self.bus, topics(), scenarios(), now_ms)
        while materialiser.step():
            pass

    def tail(self) -> None:
        self.job.run()
        tailer = Tailer(self.bus, topics(), scenarios(), live_view())
        while tailer.step():
            pass


@pytest.fixture
def world() -> Iterator[World]:
    live_view.cache_clear()
    yield World()
    live_view.cache_clear()


def text(response: Any) -> str:
    inline = re.sub(r"</?bdi[^>]*>", "", response.content.decode())
    body = re.sub(r"<(script|template|dialog).*?</\1>", " ", inline, flags=re.DOTALL)
    return text_of(body)


def assets(response: Any) -> list[str]:
    names = re.findall(r'<tr role="row"[^>]*data-asset="([^"]*)"', response.content.decode())
    return [html.unescape(name) for name in names]


def test_rows_come_by_severity_then_the_newest(client: Client, world: World):
    world.report("a.example", "clear")
    world.report("b.example", "under-attack")
    world.report("c.example", "suspicious")
    world.write()
    response = client.get("/")
    assert assets(response) == ["b.example", "c.example", "a.example"]
    assert "3 of 3 sites" in text(response)
    assert "Under attack 1 Suspicious 1 Clear 1" in text(response)


def test_what_the_database_has_not_yet_is_shown(client: Client, world: World):
    world.report("a.example", "clear")
    world.write()
    world.report("a.example", "under-attack", "waf-1", "waf-2", "waf-3")
    world.report("b.example", "suspicious")
    world.tail()
    response = client.get("/")
    assert assets(response) == ["a.example", "b.example"]
    assert "Under attack 1 Suspicious 1 Clear 0" in text(response)
    panel = client.get("/s/attack/a/a.example/")
    assert "Under attack: 3 of 3 live votes" in text(panel)


def test_the_filter_is_in_the_address(client: Client, world: World):
    for name, state in (("shop", "clear"), ("shop-2", "under-attack"), ("mail", "clear")):
        world.report(name, state)
    world.write()
    response = client.get("/?scenario=attack&state=clear&q=SHOP")
    assert assets(response) == ["shop"]
    body = response.content.decode()
    assert 'value="clear" checked' in body
    assert 'name="q" value="SHOP"' in body
    both = assets(client.get("/s/attack/?state=suspicious&state=under-attack"))
    assert both == ["shop-2"]


def test_pages_follow_one_another(client: Client, world: World):
    for number in range(503):
        world.report(f"s{number:03}.example", "clear", "waf-1")
    world.write()
    first = client.get("/?scenario=attack&asset=x&wall=0")
    assert len(assets(first)) == 500
    assert "503 of 503 sites" in text(first)
    assert "and 3 more" in text(first)
    links = re.findall(r'id="next-page" href="([^"]+)"(.*?)>', first.content.decode())
    assert [hidden for _, hidden in links] == [""]
    second = client.get(html.unescape(links[0][0]))
    assert len(assets(second)) == 3
    assert not set(assets(first)) & set(assets(second))
    assert f"a later page, after {assets(first)[-1]}" in text(second)
    body = second.content.decode()
    assert re.search(r'id="next-page" href="[^"]+" hidden', body)
    top = re.search(r'id="top-page" href="([^"]+)">', body)
    assert top
    assert assets(client.get(html.unescape(top[1]))) == assets(first)


@pytest.mark.parametrize("token", ["", "x", "1.2", "..", "1.2.\x00", "a.b.c"])
def test_a_token_that_is_none_is_the_first_page(client: Client, world: World, token: str):
    world.report("a.example", "clear")
    world.write()
    response = client.get("/", {"after": token})
    assert assets(response) == ["a.example"]
    assert re.search(r'id="continued" hidden', response.content.decode())


@pytest.mark.parametrize("path", ["/", "/s/attack/a/a.example/"])
def test_the_banner_is_on_the_page_before_any_script(client: Client, world: World, path: str):
    body = client.get(path).content.decode()
    assert 'data-kind="job"' in body
    assert "No heartbeat has come from the job yet" in text(client.get(path))
    world.report("a.example", "clear")
    world.write()
    world.job.tick()
    world.tail()
    page = client.get(path).content.decode()
    assert re.search(r'id="banner"[^>]* hidden', page)


def test_wall_mode_by_its_address(client: Client, world: World):
    world.report("a.example", "under-attack")
    world.write()
    wall = client.get("/?wall=1").content.decode()
    assert re.search(r'<body class="board-page wall">', wall)
    assert re.search(r'<body class="board-page">', client.get("/").content.decode())
    assert "1 Under attack 0 Suspicious 0 Clear" in text(client.get("/"))


def test_empty_pages_say_what_to_do(client: Client, world: World):
    response = client.get("/?scenario=orders")
    body = response.content.decode()
    assert "No order has been reported yet" in text(response)
    assert "orders.reports" in text(response)
    assert re.search(r'id="empty-filter" hidden', body)
    world.report("a.example", "clear")
    world.write()
    body = client.get("/?q=nothing").content.decode()
    assert re.search(r'id="empty-filter">', body)
    assert re.search(r'id="empty-board" hidden', body)


def test_marks_of_a_row(client: Client, world: World):
    world.report("a.example", "under-attack", "waf-1", "waf-2", "waf-3")
    world.report("a.example", "clear", "waf-1", "waf-2", "waf-3")
    world.report("lonely", "clear", "waf-1")
    world.command("set", "b.example", state="clear", until=now_ms() + 60_000)
    world.write()
    page = text(client.get("/"))
    began = r"a\.example Under attack INC-\d+ \d s "
    assert re.search(began + r"Clear in [\dms ]+ s reported by waf", page)
    assert re.search(r"b\.example Clear pinned (5\d s|1 m 00 s) ", page)
    assert re.search(r"lonely Clear unconfirmed", page)
    body = client.get("/").content.decode()
    assert 'aria-label="3 votes: 3 Clear"' in body
    assert 'title="waf-1: Clear"' in body


def row_of(response: Any, asset: str) -> str:
    """The markup of one row."""
    match = re.search(
        rf'<tr role="row"[^>]*data-asset="{asset}".*?</tr>', response.content.decode(), re.DOTALL
    )
    assert match
    return match[0]


def test_a_disputed_pin_is_never_plain_green(client: Client, world: World):
    world.report("a.example", "under-attack")
    world.command("set", "a.example", state="clear")
    world.report("plain.example", "clear")
    world.write()
    response = client.get("/")
    row = row_of(response, "a.example")
    assert '<tr role="row" class="s2 c-red is-disputed"' in row
    assert 'title="disputed: somebody says, or said, Under attack"' in row
    assert "a.example Clear disputed: Under attack pinned" in text(response)
    assert assets(response) == ["a.example", "plain.example"]
    assert "disputed" not in row_of(response, "plain.example")


def test_an_unconfirmed_row_says_why(client: Client, world: World):
    world.report("lonely", "clear", "waf-1")
    world.write()
    response = client.get("/")
    assert "lonely Clear unconfirmed 1 of 2 voters" in text(response)
    assert 'title="unconfirmed: 1 of 2 voters"' in row_of(response, "lonely")


def test_silent_votes_are_marked_apart_from_live_ones(client: Client, world: World):
    world.report("a.example", "clear")
    world.old_report("a.example", "under-attack", "waf-9")
    world.write()
    row = row_of(client.get("/"), "a.example")
    assert 'aria-label="3 votes: 2 Clear, 1 silent Under attack"' in row
    marked = re.search(r'class="vote is-silent c-red" data-silent="(\d+)" title="([^"]+)"', row)
    assert marked
    assert re.fullmatch(
        r"waf-9: Under attack, silent since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", marked[2]
    )
    assert row.count('class="vote c-green"') == 2


def test_votes_in_doubt_are_marked_and_the_row_says_who_and_why(client: Client, world: World):
    now = now_ms()
    world.report("a.example", "clear", "waf-1", "waf-2")
    world.job.put("attack", Report("a.example", "waf-3", "clear", now + 7 * 60_000 + 500))
    world.job.put("attack", Report("a.example", "probe-9", "critical"))
    world.write()
    row = row_of(client.get("/"), "a.example")
    assert 'aria-label="3 votes: 3 Clear; 1 of them in doubt; 1 in doubt without a vote"' in row
    assert (
        'class="vote is-doubted c-green" title="waf-3: Clear, in doubt: clock 7 min ahead"' in row
    )
    assert (
        'class="vote is-voteless is-doubted c-grey" title="probe-9: no vote, in doubt: says '
        'critical, which this board does not know"'
    ) in row
    assert row.count('class="vote c-green"') == 2
    assert (
        'class="badge doubted" title="in doubt: probe-9 (says critical, which this board does not '
        'know) and waf-3 (clock 7 min ahead)"'
    ) in row
    assert "report of probe-9 not taken" in row
    assert assets(client.get("/?scenario=attack&q=has:doubt")) == ["a.example"]
    assert assets(client.get("/?scenario=attack&q=-has:doubt")) == []


def test_what_was_only_ever_pinned_is_unknown_then(client: Client, world: World):
    world.command("set", "a.example", state="clear")
    world.command("release", "a.example")
    world.write()
    row = row_of(client.get("/"), "a.example")
    assert 'class="state c-grey" title="no report yet"' in row
    assert ">unknown<" in row


def test_counts_of_what_is_in_doubt_lead_to_it(client: Client, world: World):
    world.report("plain.example", "clear")
    world.report("pinned.example", "under-attack")
    world.command("set", "pinned.example", state="clear")
    world.report("lonely.example", "clear", "waf-1")
    world.write()
    response = client.get("/?scenario=attack&q=example")
    assert "1 disputed 1 unconfirmed 0 in doubt 0 silent votes" in text(response)
    body = response.content.decode()
    chips = re.findall(r'<a class="chip doubt([^"]*)" data-doubt="(\w+)"[^>]*href="([^"]*)"', body)
    assert [(name, kind.strip()) for kind, name, _ in chips] == [
        ("unhandled", "no-one"), ("disputed", ""), ("unconfirmed", ""), ("doubt", "no-one"),
        ("silent", "no-one"),
    ]  # fmt: skip
    only = client.get(html.unescape(chips[1][2]))
    assert assets(only) == ["pinned.example"]
    assert re.search(r'data-doubt="disputed"[^>]*aria-current="true"', only.content.decode())
    back = re.search(r'data-doubt="disputed"[^>]*href="([^"]*)"', only.content.decode())
    assert back
    assert len(assets(client.get(html.unescape(back[1])))) == 3


def test_a_life_cycle_has_no_disputes_to_count(client: Client, world: World):
    body = client.get("/?scenario=orders").content.decode()
    assert re.findall(r'<a class="chip doubt[^"]*" data-doubt="(\w+)"', body) == ["unconfirmed"]


@pytest.mark.spread(4)
@pytest.mark.parametrize("name", ODD)
def test_an_asset_of_any_name_has_a_page(client: Client, world: World, name: str):
    world.report(name, "clear")
    world.write()
    link = re.search(r'class="asset" href="([^"]+)"', client.get("/").content.decode())
    assert link
    assert html.unescape(link[1]) == f"/s/attack/a/{quote(name, safe='')}/"
    response = client.get(html.unescape(link[1]))
    assert response.status_code == 200
    assert f'data-asset="{html.escape(name, quote=True)}"' in response.content.decode().replace(
        "&#39;", "&#x27;"
    )


def test_the_panel_says_why(client: Client, world: World):
    world.report("a.example", "under-attack", "waf-1", "scrubber-a")
    world.report("a.example", "clear", "waf-2")
    world.command("set", "a.example", state="suspicious")
    world.write()
    page = text(client.get("/s/attack/a/a.example/"))
    assert "Pinned by olga , no end “a drill” Without it: Under attack" in page
    assert "Suspicious: pinned by olga; under it the votes give Under attack" in page
    assert "Under attack weight 3 of 4 (3 needed) – decides" in page
    assert re.search(r"scrubber-a Under attack differs 0 s 1 m 29 s 2", page)
    what = r"History Suspicious [\d:]+ UTC set by olga .* Under attack [\d:]+ UTC reported"
    assert re.search(what, page)


def test_page_panel_and_facts(client: Client, world: World):
    world.report("a.example", "clear")
    world.write()
    page = client.get("/s/attack/a/a.example/").content.decode()
    panel = client.get("/s/attack/a/a.example/", headers={"HX-Request": "true"}).content.decode()
    facts = client.get(
        "/s/attack/a/a.example/?part=facts", headers={"HX-Request": "true"}
    ).content.decode()
    assert "<html" in page
    assert "<html" not in panel
    assert 'id="panel-title"' in panel
    assert 'id="panel-title"' not in facts
    assert facts.strip().startswith('<div class="facts" id="facts"')
    assert "Your role may only read" in panel


def test_a_purged_asset_keeps_its_history(client: Client, world: World):
    world.report("a.example", "clear")
    world.command("purge", "a.example")
    world.write()
    page = text(client.get("/s/attack/a/a.example/"))
    assert "Not on the board" in page
    assert "Purged" in page
    assert client.get("/s/attack/a/never.seen/").status_code == 404
    assert assets(client.get("/")) == []


def test_a_panel_opens_with_the_board(client: Client, world: World):
    world.report("10.0.0.0/8", "clear")
    world.write()
    response = client.get("/?asset=10.0.0.0%2F8")
    assert "with-panel" in response.content.decode()
    assert "Last record: reported by waf-2" in text(response)


@pytest.mark.parametrize(
    "path", ["/?scenario=nothing", "/s/nothing/", "/s/nothing/a/x/", "/s/attack/a/%0a/"]
)
def test_what_is_not_there(client: Client, path: str):
    assert client.get(path).status_code == 404


@pytest.mark.parametrize("path", ["/", "/s/attack/", "/s/attack/a/x/"])
def test_only_who_may_read(path: str, world: World):
    assert Client().get(path)["Location"].startswith("/account/login/")
    client = Client()
    client.force_login(make_user("none"))
    assert client.get(path).status_code == 403


def test_nothing_inline_that_the_policy_forbids(client: Client, world: World):
    world.report("a.example", "clear")
    world.write()
    response = client.get("/?asset=a.example")
    body = response.content.decode()
    assert "default-src 'self'" in response["Content-Security-Policy"]
    assert not re.search(r"\sstyle=|<style|\son\w+=", body)
    inline = re.findall(r"<script(?![^>]*\bsrc=)([^>]*)>", body)
    assert all("application/json" in attributes for attributes in inline)


@pytest.mark.parametrize(
    ("ms", "words"),
    [
        (-5, "0 s"),
        (59_999, "59 s"),
        (60_000, "1 m 00 s"),
        (3_599_000, "59 m 59 s"),
        (3_600_000, "1 h 00 m"),
        (86_399_000, "23 h 59 m"),
        (90_000_000, "1 d 01 h"),
    ],
)
def test_durations_in_two_units(ms: int, words: str):
    assert duration(ms) == words
