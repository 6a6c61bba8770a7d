"""What the console's pages share: the way to them, their head, what their scripts rely on."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client

from support.web.web_fixtures import make_user
from support.web.world import World

pytestmark = pytest.mark.django_db

PAGES = ("/job/", "/partitions/")


def page(role: str, path: str) -> str:
    client = Client()
    client.force_login(make_user(role))
    return client.get(path).content.decode()


def places(body: str) -> list[tuple[str, bool]]:
    """The links of the bar and of the page's tabs, each with whether it is the page itself."""
    navs = re.findall(r'<nav class="(?:main-bar|page-tabs)".*?</nav>', body, re.DOTALL)
    links: list[Any] = re.findall(
        r'<a (?:class="place" )?href="([^"]+)"\s*(aria-current="page")?', "".join(navs)
    )
    return [(path, bool(current)) for path, current in links]


@pytest.mark.parametrize("path", ["/", "/account/tokens/"])
@pytest.mark.parametrize("role", ["manager", "operator", "admin"])
def test_every_page_leads_to_the_console(world: World, role: str, path: str):
    listed = places(page(role, path))
    assert ("/incidents/", False) in listed
    assert (("/job/", False) in listed) == (role != "manager")


def test_who_may_not_read_is_shown_no_way(world: World):
    assert 'class="main-bar"' not in page("none", "/account/password/change/")
    assert 'class="main-bar"' not in Client().get("/account/login/").content.decode()


@pytest.mark.parametrize("path", PAGES)
def test_a_page_of_the_console_says_where_one_is_and_leads_back(world: World, path: str):
    body = page("operator", path)
    assert (path, True) in places(body)
    assert 'href="/?scenario=orders"' in body


@pytest.mark.parametrize("path", PAGES)
def test_a_script_is_given_the_part_that_renews_itself(world: World, path: str):
    client = Client()
    client.force_login(make_user("operator"))
    whole = client.get(path).content.decode()
    part = client.get(path, headers={"HX-Request": "true"}).content.decode()
    assert f'data-refresh="{path}"' in whole
    assert re.match(r'\s*<div id="[a-z-]+" data-refresh="', part)
    assert "<html" not in part
    assert re.search(r'data-now="\d{13}"', part)
