"""The menu of each role: what is in the bar, what is behind More, and that every entry opens."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.conf import settings
from django.test import Client
from django.urls import reverse

from dashboard.core.common.access import Role
from dashboard.core.common.navigation import OFTEN, bar_of, entries, every_page
from dashboard.watch.incidents.models import Case
from support.web.pages import text_of
from support.web.web_fixtures import make_user
from support.web.world import World

pytestmark = pytest.mark.django_db

BARS = {
    Role.OPERATOR: ["Boards", "Incidents", "Handover", "Summary", "More"],
    Role.ADMIN: ["Boards", "Incidents", "Handover", "Summary", "More"],
    Role.MANAGER: ["Summary", "Boards", "Incidents", "More"],
}
MORE = {
    Role.OPERATOR: {
        "Board": ["Events", "Wall", "What is set"],
        "Watch": ["Agents", "Maintenance", "Bulk", "Labels"],
        "Notify": ["Notifications"],
        "Operate": ["Scenarios", "Engine"],
    },
    Role.ADMIN: {
        "Board": ["Events", "Wall", "What is set"],
        "Watch": ["Agents", "Maintenance", "Bulk", "Labels"],
        "Notify": ["Notifications"],
        "Operate": ["Scenarios", "Engine", "Users", "Retention", "Audit"],
    },
    Role.MANAGER: {"Watch": ["Maintenance"]},
}
TABS = {
    "/incidents/": ["Incidents", "By asset", "By label"],
    "/events/": ["Events", "As of"],
    "/overrides/": ["Overrides", "Schedules"],
    "/agents/": ["Agents", "Not reporting"],
    "/notifications/messages/": ["Messages", "Rules", "On call", "Channels", "Caught mail"],
    "/scenarios/": ["Scenarios", "What if"],
    "/job/": ["Job", "Partitions", "State store", "Dead letters", "Replay"],
    "/users/": ["Users", "Roles", "API tokens"],
    "/summary/": ["Summary", "Targets", "Status pages"],
}
"""Of an admin, by the address of an entry."""


@pytest.fixture
def client_of(world: World) -> Any:
    def logged_in(role: str) -> Client:
        client = Client()
        client.force_login(make_user(role))
        return client

    return logged_in


def words(html: str) -> str:
    """The words that are seen: without tags, and what is for the ear alone."""
    hidden = r'<span class="(?:visually-hidden|place-count|tab-count).*'
    return text_of(re.sub(hidden, "", html, flags=re.DOTALL))


def bar(body: str) -> list[str]:
    """What stands in the bar."""
    (nav,) = re.findall(r'<nav class="main-bar".*?</nav>', body, re.DOTALL)
    parts = r'<a class="place".*?</a>|<button .*?</button>|<summary>.*?</summary>'
    return [words(each) for each in re.findall(parts, nav, re.DOTALL)]


def more(body: str) -> dict[str, list[tuple[str, str]]]:
    """The groups behind More: of each entry title and address."""
    (menu,) = re.findall(r'<div class="menu-body places">(.*?)</nav>', body, re.DOTALL)
    groups = menu.split('<div class="places-group">')[1:]
    return {
        words(re.findall(r"<h2>(.*?)</h2>", group)[0]): [
            (words(title), address)
            for address, title in re.findall(
                r'<a href="([^"]+)".*?class="place-title">(.*?)<small', group, re.DOTALL
            )
        ]
        for group in groups
    }


def tabs(body: str) -> list[tuple[str, str, str]]:
    """The page's tabs: title, address, and what `aria-current` says."""
    navs = re.findall(r'<nav class="page-tabs".*?</nav>', body, re.DOTALL)
    links = re.findall(
        r'<a href="([^"]+)"(?: aria-current="(\w+)")?>(.*?)</a>', "".join(navs), re.DOTALL
    )
    return [(words(title), address, current) for address, current, title in links]


@pytest.mark.parametrize("role", BARS)
def test_each_role_has_its_bar_and_its_groups(client_of: Any, role: Role) -> None:
    body = client_of(role).get("/account/tokens/").content.decode()
    assert bar(body) == BARS[role]
    assert {title: [name for name, _ in own] for title, own in more(body).items()} == MORE[role]


@pytest.mark.parametrize("role", BARS)
def test_every_entry_opens_and_every_tab_of_it(client_of: Any, role: Role) -> None:
    client = client_of(role)
    menu = bar_of(role)
    listed = [*menu.before, *menu.after, *(entry for _, own in menu.more for entry in own)]
    assert len(listed) >= 3
    for entry in listed:
        address = reverse(entry.view)
        body = client.get(address).content.decode()
        assert re.search(rf'href="{address}"\s+aria-current="page"', body), address
        beside = tabs(body)
        assert [current for _, at, current in beside if at == address] == ["page"] * bool(beside)
        for _, at, _ in beside:
            answer = client.get(at)
            assert answer.status_code == 200, at
            assert next(each for each in tabs(answer.content.decode()) if each[2])[1] == at


@pytest.mark.parametrize("address", TABS)
def test_pages_that_share_a_place_are_tabs(client_of: Any, address: str) -> None:
    body = client_of("admin").get(address).content.decode()
    assert [title for title, _, _ in tabs(body)] == TABS[address]


def test_who_may_open_one_alone_is_shown_no_tabs(client_of: Any) -> None:
    assert tabs(client_of("manager").get("/summary/").content.decode()) == []
    shown = tabs(client_of("operator").get("/job/").content.decode())
    assert [title for title, _, _ in shown] == ["Job", "Partitions"]


@pytest.mark.parametrize(
    ("path", "tab", "entry"),
    [
        ("/notifications/rules/new/", "/notifications/rules/", "/notifications/messages/"),
        ("/users/new/", "/users/", "/users/"),
        ("/scenarios/attack/", "/scenarios/", "/scenarios/"),
        ("/users/tokens/", "/users/tokens/", "/users/"),
    ],
)
def test_a_page_below_a_tab_says_which_is_on(
    client_of: Any, path: str, tab: str, entry: str
) -> None:
    body = client_of("admin").get(path).content.decode()
    (on,) = [(address, current) for _, address, current in tabs(body) if current]
    assert on == (tab, "page" if path == tab else "true")
    (menu,) = re.findall(r'<div class="menu-body places">(.*?)</nav>', body, re.DOTALL)
    assert re.findall(r'href="([^"]+)"\s+aria-current="', menu) == [entry]


def test_examples_are_offered_where_they_run(
    client_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = client_of("operator")
    assert "Retail" not in more(client.get("/").content.decode())
    on = settings.TALLYBOARD.model_copy(update={"pipelines": "all", "stores": 2})
    monkeypatch.setattr(settings, "TALLYBOARD", on)
    shown = more(client.get("/").content.decode())["Retail"]
    assert [title for title, _ in shown] == ["Find an order", "Invoices", "Topics"]


def test_the_bar_counts_the_incidents_that_nobody_has_in_hand(client_of: Any) -> None:
    client = client_of("operator")
    body = client.get("/").content.decode()
    assert re.search(r'id="open-incidents"\s+data-count="0" hidden', body)
    Case.objects.create(scenario="attack", began_at=1_000)
    Case.objects.create(scenario="attack", began_at=1_000)
    Case.objects.create(scenario="attack", began_at=1_000, acknowledged_at=9_000)
    Case.objects.create(scenario="attack", began_at=1_000, resolved_at=9_000)
    body = client.get("/").content.decode()
    assert re.search(r'id="open-incidents"\s+data-count="2"><', body)
    assert client.get("/tabs/").json()["incidents"] == 2


@pytest.mark.parametrize("role", BARS)
def test_the_palette_finds_every_page_and_begins_with_what_the_role_opens_most(
    client_of: Any, role: Role
) -> None:
    body = client_of(role).get("/account/tokens/").content.decode()
    templates = re.findall(
        r'<template data-page="([^"]+)"[^>]*data-address="([^"]+)"\s*(?:data-often="(\d+)")?', body
    )
    mine = [page for page in every_page() if page.is_open_to(role)]
    assert [address for _, address, _ in templates] == [reverse(page.view) for page in mine]
    often = sorted((int(n), address) for _, address, n in templates if n)
    assert [address for _, address in often] == [reverse(view) for view in OFTEN[role]]
    verbs = re.findall(r'<template data-verb="(\w+)" [^>]* data-often>', body)
    assert verbs == ([] if role == "manager" else ["acknowledge", "set", "release", "mute"])


def test_no_page_is_in_two_places() -> None:
    views = [page.view for page in every_page()]
    assert len(views) == len(set(views))
    assert all(not page.tabs for entry in entries() for page in entry.tabs)
