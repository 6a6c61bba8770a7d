"""Boards of teams: a filter that an admin has made everybody's tab, and the board to begin with."""

from __future__ import annotations

import html
import json
import re
from typing import Any

import msgspec
import pytest
from django.contrib.auth.models import Group, User
from django.test import Client, RequestFactory

from dashboard.board.assets import scenario_tabs
from dashboard.board.live import threads
from dashboard.board.live.live_view import live_view
from dashboard.board.live.subscription import SocketSubscription
from dashboard.board.live.tailer import Tailer
from dashboard.core.accounts.login import ClosedAdapter
from dashboard.core.audit.models import AuditEntry
from dashboard.core.common.scenarios import scenarios, topics
from dashboard.core.common.times import HOUR_MS, now_ms
from dashboard.watch.annotations import labels
from dashboard.watch.annotations.acknowledgements import acknowledge
from dashboard.watch.filters import models
from dashboard.watch.filters.models import FilterRefused, SavedFilter
from support.web.web_fixtures import bearer, logged_in, make_user
from support.web.world import World

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("sites")]

EU = "/?scenario=attack&q=team%3AEU"


@pytest.fixture
def sites(stopped_clock: int, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two attacked sites of team EU, and a calm one; one of another team: all since one moment."""
    monkeypatch.setattr(scenario_tabs, "_shared", (0.0, {}))
    for asset in ("bank", "shop", "pay"):
        world.report(asset, "under-attack")
    world.report("blog", "clear")
    world.write()
    teams = {"bank": "EU", "shop": "EU", "blog": "EU", "pay": "US"}
    labels.put("attack", {asset: {"team": team} for asset, team in teams.items()}, "ada", 1)


@pytest.fixture
def boss() -> User:
    made: User = make_user("admin")
    return made


def kept(user: User, title: str = "EU", text: str = "team:EU", scenario: str = "attack") -> Any:
    return SavedFilter.objects.keep(user, scenarios()[scenario], title, text, now_ms())[0]


def published(user: User, **given: str) -> SavedFilter:
    saved: SavedFilter = kept(user, **given)
    saved.publish()
    return saved


def badges(client: Client, path: str = "/job/") -> dict[str, tuple[int, str]]:
    """The number and the colour of each tab that is a filter, by its name."""
    head = client.get(path).content.decode().partition("<main")[0]
    tabs = re.findall(
        r'data-filter.*?tab-name">(.*?)</bdi><span class="tab-count c-(\w+)"\s*data-count="(\d+)"',
        head, re.DOTALL,
    )  # fmt: skip
    return {name: (int(n), colour) for name, colour, n in tabs}


def current(client: Client, path: str) -> list[str]:
    """The tabs that are marked as shown: numbers of filters, names of scenarios."""
    bar = client.get(path).content.decode().partition('id="tabs"')[2].partition("</nav>")[0]
    links = re.findall(r"<a [^>]*>", bar)
    shown = [link for link in links if "aria-current" in link]
    return [re.findall(r'data-(?:filter|scenario)="(\w+)"', link)[0] for link in shown]


def rows(client: Client, path: str) -> list[str]:
    return re.findall(r'data-asset="(\w+)" data-version', client.get(path).content.decode())


# ---- the tab ------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", ["operator", "manager"])
def test_a_tab_is_everybodys_and_counts_what_is_unhandled_there(boss: User, role: str) -> None:
    client = logged_in(make_user(role))
    assert badges(client, "/summary/") == {}
    published(boss)
    assert badges(client, "/summary/") == {"EU": (2, "red")}
    acknowledge(scenarios()["attack"], ["bank", "shop"], boss, "", now_ms() + HOUR_MS, now_ms())
    assert badges(client, "/summary/") == {"EU": (0, "red")}


def test_whoever_opens_it_sees_just_these(boss: User, client: Client) -> None:
    saved = published(boss)
    assert saved.get_absolute_url() == EU
    assert rows(client, EU) == ["bank", "shop", "blog"]
    assert current(client, EU) == [str(saved.pk)]
    page = client.get(EU).content.decode()
    assert "<title>(2) EU · Attacks" in page, "it counts what is shown"
    assert current(client, "/?scenario=attack") == ["attack"]
    assert current(client, f"{EU}+bank") == ["attack"], "another filter is not it"
    assert current(client, f"{EU}&state=clear") == ["attack"]


def test_a_filter_that_can_no_longer_be_read_counts_what_its_board_shows(
    boss: User, client: Client
) -> None:
    published(boss)
    labels.put("attack", {a: {"team": None} for a in ("bank", "shop", "pay", "blog")}, "ada", 2)
    assert sorted(rows(client, EU)) == ["bank", "blog", "pay", "shop"]
    assert badges(client) == {"EU": (3, "red")}, "all is not well there"


def test_of_two_tabs_with_one_text_the_first_is_shown(boss: User, client: Client) -> None:
    first = published(boss)
    published(boss, title="Europe")
    assert current(client, EU) == [str(first.pk)]
    assert "<title>(2) EU · Attacks" in client.get(EU).content.decode(), "each is counted once"


def test_labels_are_looked_up_once_for_all_tabs(
    boss: User, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def keys(scenario: str) -> tuple[str, ...]:
        asked.append(scenario)
        return ("team",)

    monkeypatch.setattr(labels, "keys", keys)
    published(boss)
    published(boss, title="US", text="team:US")
    assert badges(client) == {"EU": (2, "red"), "US": (1, "red")}
    assert asked == ["attack"]


def test_an_open_page_follows_the_count(boss: User, client: Client, world: World) -> None:
    saved = published(boss)
    tailer = Tailer(world.bus, topics(), scenarios(), live_view())
    live_view().subscribe(SocketSubscription("attack", lambda: None))  # else nothing is counted

    def beat() -> Any:
        while tailer.step():
            pass
        tailer.maintain()
        return msgspec.json.decode(threads.Beats().message("attack", now_ms()))["tabs"]

    assert beat() == {str(saved.pk): [2, "red", "Under attack"]}
    assert client.get("/tabs/").json()["tabs"] == {str(saved.pk): [2, "red", "Under attack"]}
    world.report("blog", "under-attack")
    world.job.run()
    assert beat()[str(saved.pk)][0] == 3, "what the database has not yet counts"
    labels.put("attack", {"pay": {"team": "EU"}}, "ada", 2)
    tailer._beside._next = 0.0
    assert beat()[str(saved.pk)][0] == 4, "a label alone changes it"
    saved.withdraw()
    tailer._beside._next = 0.0
    assert beat() == {}, "of what is no tab any more no count is kept"


# ---- who makes one ------------------------------------------------------------------------------


def test_an_admin_makes_a_tab_and_takes_it_away(boss: User) -> None:
    saved, browser = kept(boss), logged_in(boss)
    assert "Make it everybody’s tab" in browser.get("/filters/").content.decode()
    browser.post(f"/filters/{saved.pk}/tab/", {"do": "publish"})
    assert list(badges(browser)) == ["EU"]
    browser.post(f"/filters/{saved.pk}/tab/", {"do": "withdraw"})
    assert badges(browser) == {}
    saved.refresh_from_db()
    assert saved.shared, "who uses it keeps it"
    actions = AuditEntry.objects.filter(target="EU").order_by("pk")
    assert list(actions.values_list("action", flat=True)) == [
        "filter.published",
        "filter.withdrawn",
    ]


def test_what_is_changed_of_a_tab_is_audited(boss: User) -> None:
    saved, browser = published(boss), logged_in(boss)
    browser.post(f"/filters/{saved.pk}/change/", {"do": "rename", "title": "Europe"})
    browser.post("/filters/save/", {"scenario": "attack", "title": "Europe", "q": "team:US"})
    saved.refresh_from_db()
    assert (saved.title, saved.text, saved.tab) == ("Europe", "team:US", True)
    assert AuditEntry.objects.filter(action="filter.changed", target="Europe").count() == 2


def test_an_admin_publishes_filters_of_their_own_alone(boss: User, user: User) -> None:
    mine = kept(user)
    assert logged_in(boss).post(f"/filters/{mine.pk}/tab/", {"do": "publish"}).status_code == 404
    own = kept(boss)
    assert logged_in(boss).post(f"/filters/{own.pk}/tab/").status_code == 404
    assert badges(logged_in(boss)) == {}


def test_who_is_no_admin_makes_none_and_changes_none(
    boss: User, user: User, client: Client
) -> None:
    mine = kept(user)
    assert client.post(f"/filters/{mine.pk}/tab/", {"do": "publish"}).status_code == 403
    page = client.get("/filters/").content.decode()
    assert "Make it everybody’s tab" not in page
    saved = published(boss)
    boss.groups.set([Group.objects.get(name="operator")])
    former = logged_in(boss)
    for change in ({"do": "rename", "title": "Mine"}, {"do": "delete"}, {"do": "unshare"}):
        answer = former.post(f"/filters/{saved.pk}/change/", change, follow=True).content.decode()
        assert "Nothing was changed" in answer
    with pytest.raises(FilterRefused, match="which only admins can change"):
        kept(boss, text="team:US")
    saved.refresh_from_db()
    assert (saved.title, saved.text, saved.shared) == ("EU", "team:EU", True)


def test_a_tab_is_withdrawn_before_it_is_deleted(boss: User) -> None:
    saved = published(boss)
    for change in ("delete", "unshare"):
        answer = logged_in(boss).post(f"/filters/{saved.pk}/change/", {"do": change}, follow=True)
        assert "it is everybody&#x27;s tab; withdraw it first" in answer.content.decode()
    assert SavedFilter.objects.filter(pk=saved.pk, tab=True, shared=True).exists()


def test_two_tabs_of_a_board_have_two_names(boss: User, user: User) -> None:
    published(boss)
    user.groups.set([Group.objects.get(name="admin")])
    with pytest.raises(FilterRefused, match="another tab is named EU"):
        published(user)
    other = published(user, title="US", text="team:US")
    SavedFilter.objects.filter(user=user, title="EU").delete()
    with pytest.raises(FilterRefused, match="another tab is named EU"):
        other.rename("EU")


def test_there_are_so_many_tabs_at_the_most(boss: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "MOST_TABS", 1)
    published(boss)
    with pytest.raises(FilterRefused, match="there are 1 tabs, the maximum"):
        published(boss, title="US", text="team:US")


def test_an_open_page_is_told_which_tabs_there_are_by_now(
    boss: User, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scenario_tabs, "SHARED_S", -1.0)

    def tabs() -> list[tuple[str, str, str]]:
        boards = client.get("/tabs/").json()["filters"]
        return [(board["filter"], board["name"], board["address"]) for board in boards]

    assert tabs() == []
    assert 'id="team-tabs" role="group" aria-label="Boards of teams" hidden' in (
        client.get("/job/").content.decode()
    ), "where one comes while the page is open"
    saved = published(boss)
    assert tabs() == [(str(saved.pk), "EU", EU)]
    saved.rename("Europe")
    assert tabs() == [(str(saved.pk), "Europe", EU)]
    saved.withdraw()
    assert tabs() == []


def test_an_open_page_has_of_a_tab_what_its_link_has(boss: User, client: Client) -> None:
    published(boss)
    bar = client.get("/job/").content.decode().partition('id="team-tabs"')[2]
    link = html.unescape(re.findall(r"<a .*?</bdi>", bar, re.DOTALL)[0])
    [board] = client.get("/tabs/").json()["filters"]
    for name in ("filter", "of", "q", "title"):
        assert f'data-{name}="{board[name]}"' in link
    assert f'href="{board["address"]}" title="{board["full"]}"' in link
    assert f'<bdi class="tab-name">{board["name"]}</bdi>' in link


def test_the_address_of_a_tab_that_was_withdrawn_is_the_board_with_its_filter(
    boss: User, client: Client
) -> None:
    saved = published(boss)
    saved.withdraw()
    saved.delete()
    assert rows(client, EU) == ["bank", "shop", "blog"]
    assert current(client, EU) == ["attack"], "its board is what is shown"
    assert 'name="q" value="team:EU"' in client.get(EU).content.decode()


# ---- what a user begins with --------------------------------------------------------------------


def opened_first(user: User) -> str:
    """Where a login leads."""
    request = RequestFactory().get("/")
    request.user = user
    return str(ClosedAdapter().get_login_redirect_url(request))


@pytest.mark.parametrize(("role", "before"), [("operator", "/"), ("manager", "/summary/")])
def test_a_user_chooses_the_board_to_begin_with(boss: User, role: str, before: str) -> None:
    saved, someone = published(boss), make_user(role)
    browser = logged_in(someone)
    assert opened_first(someone) == before
    assert browser.get("/").status_code == 200
    browser.post("/filters/first/", {"board": str(saved.pk)})
    assert opened_first(someone) == browser.get("/")["Location"] == EU
    assert f'<option value="{saved.pk}" selected>' in browser.get("/filters/").content.decode()
    browser.post("/filters/first/", {"board": "connectivity"})
    assert opened_first(someone) == browser.get("/")["Location"] == "/?scenario=connectivity"
    browser.post("/filters/first/", {"board": ""})
    assert opened_first(someone) == before
    assert AuditEntry.objects.filter(action="filter.first").count() == 3


def test_what_is_no_board_is_refused(user: User, client: Client, boss: User) -> None:
    theirs = kept(boss)
    for board in ("nowhere", str(theirs.pk)):
        answer = client.post("/filters/first/", {"board": board})
        assert answer.status_code == 422
        assert "Select a valid choice" in answer.content.decode()
    assert opened_first(user) == "/"


def test_a_filter_that_is_nobodys_to_see_any_more_leaves_the_board(boss: User, user: User) -> None:
    saved = published(boss)
    logged_in(user).post("/filters/first/", {"board": str(saved.pk)})
    saved.withdraw()
    saved.share(on=False)
    assert opened_first(user) == "/?scenario=attack"
    page = logged_in(user).get("/filters/").content.decode()
    assert '<option value="attack" selected>' in page, "the form says what opens"
    saved.delete()
    assert opened_first(user) == "/?scenario=attack"


def test_with_its_owner_a_tab_goes_and_the_board_stays(boss: User, user: User) -> None:
    saved = published(boss)
    logged_in(user).post("/filters/first/", {"board": str(saved.pk)})
    boss.delete()
    assert badges(logged_in(user), "/summary/") == {}
    assert opened_first(user) == "/?scenario=attack"


# ---- REST ---------------------------------------------------------------------------------------


def test_rest_saves_no_filter_that_cannot_be_a_tab(boss: User, user: User) -> None:
    published(boss)
    user.groups.set([Group.objects.get(name="admin")])
    given = {"scenario": "attack", "title": "EU", "filter": "team:US"}
    answer = Client().post(
        "/api/v1/boards", given, content_type="application/json", headers=bearer(user)
    )
    assert answer.status_code == 422
    assert answer.json()["errors"] == [{"field": "title", "expected": "another tab is named EU"}]
    assert not SavedFilter.objects.filter(user=user).exists()


def test_rest_makes_lists_and_withdraws_tabs(boss: User, user: User) -> None:
    def send(method: str, path: str, who: User, body: Any = None) -> Any:
        return Client().generic(
            method, f"/api/v1/{path}", json.dumps(body) if body is not None else "",
            content_type="application/json", headers=bearer(who),
        )  # fmt: skip

    given = {"scenario": "attack", "title": "EU", "filter": "team:EU"}
    assert send("POST", "boards", user, given).status_code == 403
    made = send("POST", "boards", boss, given).json()
    assert {name: made[name] for name in given} == given
    assert (made["unhandled"], made["worst"]) == (2, "Under attack")
    assert send("GET", "boards", user).json() == [made]
    bad = send("POST", "boards", boss, given | {"filter": "sate:x"})
    assert (bad.status_code, bad.json()["errors"][0]["field"]) == (422, "filter")
    first = send("PUT", "first-board", user, {"number": made["number"]})
    assert first.json() == send("GET", "first-board", user).json()
    assert first.json()["address"] == EU
    assert send("PUT", "first-board", user, {"scenario": "none"}).status_code == 422
    assert send("DELETE", f"boards/{made['number']}", user).status_code == 403
    assert send("DELETE", f"boards/{made['number']}", boss).json() == made
    assert send("GET", "boards", user).json() == []
    assert send("DELETE", f"boards/{made['number']}", boss).json()["type"].endswith("unknown-board")
