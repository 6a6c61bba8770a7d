"""Names that are written from right to left, or that steer direction, turn nothing around them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any
from urllib.parse import quote

import pytest
from django.contrib.auth.models import User
from django.core.cache import cache
from django.test import Client

from dashboard.core.common.text import isolated
from dashboard.watch.commands.models import Command as Row
from domain.names import USER_PREFIX
from support.web.web_fixtures import make_user
from support.web.world import World, made_world

pytestmark = pytest.mark.django_db

RLO, PDI = "\u202e", "\u2069"
ASSET, AGENT, STATE = f"אתר{RLO}gnp.exe{PDI}{RLO}x", f"סוכן{RLO}1", f"מצב{RLO}q"
USER, REASON = "דנה", f"תרגיל{RLO}abc"
MARK = re.compile("[\u0590-\u08ff\u202e]")
PAGE = f"/s/orders/a/{quote(ASSET, safe='')}/"


class Walk(HTMLParser):
    """Collects what of a page holds such a name and does not keep it to itself."""

    QUIET = frozenset(("script", "pre", "textarea"))
    VOID = frozenset(("input", "meta", "link", "img", "br", "use", "rect", "path"))
    SPOKEN = frozenset(("title", "aria-label", "alt", "placeholder"))

    def __init__(self) -> None:
        super().__init__()
        self.open: list[tuple[str, bool]] = []
        self.met = 0
        self.loose: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        for name in self.SPOKEN & given.keys():
            self.judge(given[name] or "", f"{tag} {name}")
        if tag not in self.VOID:
            own = tag in self.QUIET or tag == "bdi" or given.get("dir") == "auto"
            self.open.append((tag, own))

    def handle_endtag(self, tag: str) -> None:
        while self.open and self.open.pop()[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        if not any(own for _, own in self.open):
            self.judge(data, "/".join(tag for tag, _ in self.open))
        elif MARK.search(data):
            self.met += 1

    def judge(self, text: str, where: str) -> None:
        """In a text without markup a name stands between FSI and PDI."""
        self.met += bool(MARK.search(text))
        if MARK.search(re.sub("\u2068[^\u2068\u2069\u202a-\u202e]*\u2069", "", text)):
            self.loose.append(f"{where}: {text!r}")


@pytest.fixture
def world() -> Iterator[World]:
    cache.clear()
    with made_world() as world:
        world.report(ASSET, STATE, AGENT, scenario="orders")
        yield world


@pytest.fixture
def operator() -> Client:
    user = make_user("operator")
    User.objects.filter(pk=user.pk).update(username=USER)
    client = Client()
    client.force_login(user)
    return client


def walk(response: Any, least: int) -> None:
    """A page that holds such names at least so often, and keeps each to itself."""
    parser = Walk()
    parser.feed(response.content.decode())
    assert parser.loose == []
    assert parser.met >= least


def command(client: Client, kind: str, **form: str) -> Any:
    path = f"/s/orders/command/{kind}/{quote(ASSET, safe='')}/"
    return client.post(path, {"reason": REASON, **form})


def test_a_name_is_kept_to_itself_where_there_is_no_markup():
    assert isolated("waf-7") == "waf-7"
    assert isolated("Zürich · 東京") == "Zürich · 東京"
    assert isolated("אתר") == "\u2068אתר\u2069"
    assert isolated(f"a{PDI}{RLO}b") == "\u2068a\ufffd\ufffdb\u2069"


@pytest.mark.parametrize("path", ["/s/orders/", "/s/orders/?wall=1", f"/s/orders/?asset={ASSET}"])
def test_the_board(world, operator, path: str):
    world.write()
    walk(operator.get(path), 6)


def test_a_later_page(world, operator):
    world.write()
    walk(operator.get("/s/orders/", {"after": f"r1.0.{ASSET}"}), 2)


def test_the_page_of_an_asset_through_its_life(world, operator):
    world.write()
    walk(operator.get(PAGE), 8)
    world.command("set", ASSET, user=USER, scenario="orders", state=STATE)
    world.report(ASSET, "picking", f"{USER_PREFIX}x"[5:], AGENT, scenario="orders")
    world.write()
    walk(operator.get(PAGE), 10)
    walk(operator.get(PAGE, headers={"HX-Request": "true"}), 8)
    walk(operator.get("/overrides/"), 3)
    world.command("purge", ASSET, user=USER, scenario="orders")
    world.write()
    walk(operator.get(PAGE), 5)


def test_commands(world, operator):
    world.write()
    form = {"id": "6f1d7a9e-0000-4000-8000-000000000001", "state": STATE}
    walk(command(operator, "purge", **form), 4)
    sent = command(operator, "set", **form)
    assert sent.status_code == 302
    walk(operator.get(sent["Location"]), 5)
    assert Row.objects.get().reason == REASON
    walk(operator.get(PAGE), 8)


def test_a_record_of_the_log(world, operator):
    world.write()
    link = re.search(
        r'class="record-link"[^>]* href="([^"]+)"', operator.get(PAGE).content.decode()
    )
    assert link
    walk(operator.get(link[1]), 4)
