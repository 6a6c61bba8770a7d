"""The tabs with their counts and marks: on every page, right from the first answer on, and in its
title."""

from __future__ import annotations

import re

import msgspec
import pytest
from django.conf import settings
from django.test import Client

from dashboard.board.assets import scenario_tabs
from dashboard.board.live import threads
from dashboard.board.live.live_view import live_view
from dashboard.board.live.page_filter import LiveRecord
from dashboard.board.live.tailer import Tailer
from dashboard.core.common.scenarios import scenarios, topics
from dashboard.core.common.times import DAY_MS, now_ms
from dashboard.core.job.status import problems, recall
from dashboard.core.states.models import AssetState, StateCount
from dashboard.watch.agents.models import Agent
from support.web.web_fixtures import make_user, show
from support.web.world import World
from wire.job import bucket_name

pytestmark = pytest.mark.django_db

PAGES = (
    "/", "/?scenario=orders", "/job/", "/partitions/", "/agents/", "/users/", "/audit/", "/bulk/",
    "/s/attack/a/shop/", "/s/attack/record/0/0/", "/account/tokens/", "/account/password/change/",
    "/nowhere/",
)  # fmt: skip

SHOWN = {"attack": 2, "connectivity": 1}
LISTED = ["attack", "connectivity", "orders"]


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


def links(body: str) -> dict[str, str]:
    """Each tab's link, by scenario."""
    names = re.findall(r'<a (?:(?!</a>).)*?data-scenario="(\w+)".*?</a>', body, re.DOTALL)
    whole = re.finditer(r'<a (?:(?!</a>).)*?data-scenario="\w+".*?</a>', body, re.DOTALL)
    return dict(zip(names, (each[0] for each in whole), strict=True))


def counts(body: str) -> dict[str, int]:
    numbers = {name: re.findall(r'data-count="(\d+)"', link) for name, link in links(body).items()}
    return {name: int(n[0]) for name, n in numbers.items() if n}


def apart(body: str) -> list[str]:
    """The examples: the boards behind the divider."""
    _, _, behind = body[: body.index("<main")].partition('<div class="tabs-examples')
    return list(links(behind))


def marks(body: str) -> dict[str, str]:
    """What each marked tab says is wrong with its board, as a title and for the ear."""
    problems = {}
    for name, link in links(body).items():
        titles: list[str] = re.findall(r'class="tab-problem"\s+title="([^"]+)">', link)
        if titles:
            problems[name] = titles[0]
            assert f'problem: <span class="words">{titles[0]}</span>' in link
    return problems


def title(body: str) -> str:
    full_title: str = re.findall(r"<title>(.*?)</title>", body)[0]
    return full_title.removesuffix(" · Tallyboard")


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
    boards = admin.get("/tabs/").json()
    assert boards["badges"] == {
        "attack": [2, "red", "Under attack"],
        "connectivity": [1, "red", "Down"],
    }
    assert set(boards["board_problems"]) == set(scenarios())  # the job has never been heard of
    assert boards["standstill"] == {"kind": "job", "since": None}
    assert "data-live" not in admin.get("/job/").content.decode()
    assert "data-live" in admin.get("/").content.decode()  # its socket tells it


def test_counts_of_a_time_when_nobody_looked_are_shown_to_nobody(admin: Client, world: World):
    """Without a socket nothing is counted: a page, and its first beat, know what is so now."""
    view = live_view()
    tailer = Tailer(world.bus, topics(), scenarios(), view)
    view.set_figure("attack", "counts", {"clear": 2})  # as it was when the last socket went
    entry = LiveRecord("new", "0000000001.0000000000000000009.0000000000", None, ("t", 0), 9)
    view.apply("attack", [entry], {})
    tailer._uncounted.add("attack")
    tailer.maintain()
    assert counts(admin.get("/job/").content.decode())["attack"] == 2
    message = threads.Beats().message("attack", 10_000)
    assert b'"badges":{}' in message.replace(b" ", b"")


# ---- what is wrong with a board -----------------------------------------------------------------


def heard(now: int, **changes: int) -> None:
    """The job is heard of in all buckets; changes: how far a scenario's clocks are behind, ms."""
    signs = live_view().signs
    for name, scenario in scenarios().items():
        for at in range(scenario.partitions):
            signs.remember(
                bucket_name(name, at), now, now - changes.get(name, 0), "python", epoch=1
            )
    signs.reached(now)


def test_problem_of_another_board_is_a_mark_on_its_tab_and_not_a_banner(admin: Client):
    heard(now_ms(), orders=60_000)
    words = {"orders": "States are late"}
    for path in ("/", "/job/", "/s/attack/a/shop/"):
        assert marks(admin.get(path).content.decode()) == words, path
    assert admin.get("/tabs/").json()["board_problems"] == words
    beat = msgspec.json.decode(threads.Beats().message("attack", now_ms()))
    assert (beat["board_problems"], beat["problems"]) == (words, [])
    assert re.search(r'id="banner"[^>]* hidden', admin.get("/").content.decode())
    orders = admin.get("/?scenario=orders").content.decode()
    assert not re.search(r'id="banner"[^>]* hidden', orders)


def test_while_the_job_is_silent_other_pages_know_it_at_once(admin: Client):
    heard(now_ms())
    assert "data-standstill" not in admin.get("/users/").content.decode()
    since = now_ms() - 20_000
    live_view.cache_clear()
    heard(since)
    live_view().signs.reached(now_ms())
    page = admin.get("/users/").content.decode()
    assert f'data-standstill="job" data-standstill-since="{since}"' in page
    assert admin.get("/tabs/").json()["standstill"] == {"kind": "job", "since": since}


# ---- boards whose pipeline is off ---------------------------------------------------------------


def test_a_board_that_nobody_reported_on_as_its_pipeline_is_off_is_not_listed(admin: Client):
    heard(now_ms())
    body = admin.get("/").content.decode()
    assert apart(body) == ["orders"]
    assert list(links(body[: body.index("<main")])) == LISTED
    board = admin.get("/?scenario=clients").content.decode()
    assert apart(board) == ["orders", "clients"]
    assert "TALLYBOARD_PIPELINES=report-rates,login-guard turns it on" in links(board)["clients"]
    assert "<code>TALLYBOARD_PIPELINES=report-rates,login-guard</code>" in board
    assert re.search(r'id="banner"[^>]* hidden', board)


def test_once_somebody_reported_a_board_is_listed_for_good(admin: Client, world: World):
    world.report("192.0.2.1", "normal", scenario="clients")
    world.write()
    Agent.objects.all().delete()  # as after a month without a vote
    AssetState.objects.all().delete()
    StateCount.objects.all().delete()
    now = now_ms()
    heard(now)
    recall(live_view().signs)
    body = admin.get("/?scenario=clients").content.decode()
    assert apart(body) == ["orders", "clients"]
    heard(now + 400 * DAY_MS)
    current = problems(now + 400 * DAY_MS, "clients")
    assert [each["what"] for each in current] == ["Clients: no agent has reported"]
    assert now - 60_000 < (current[0]["since"] or 0) <= now
    assert "the pipeline login-guard is switched off" in current[0]["todo"]


def test_a_board_whose_pipeline_is_on_is_listed(admin: Client, monkeypatch: pytest.MonkeyPatch):
    on = settings.TALLYBOARD.model_copy(update={"pipelines": "all"})
    monkeypatch.setattr(settings, "TALLYBOARD", on)
    assert set(apart(admin.get("/").content.decode())) == {"orders", "clients", "customers"}
