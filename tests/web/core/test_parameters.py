"""Query parameters of pages and files: what is misspelt is refused, and no blank asks for a file of
everything; the pages' own links and forms are answered.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urljoin, urlsplit

import pytest
from django.test import Client
from django.urls import resolve, reverse

from dashboard.core.common.navigation import every_page
from support.web.addresses import addresses
from support.web.web_fixtures import (
    known_incident,
    known_notifications,
    known_window,
    logged_in_as,
)
from support.web.world import World

pytestmark = pytest.mark.django_db

OPEN = ("/api/", "/healthz", "/readyz", "/metrics", "/push.js", "/status/")
"""Addresses that are no pages of a role."""
BY_MAIL = ("/notifications/reply/", "/digests/unsubscribe/", "/account/")
"""Pages of a link in a mail, and of the login library."""


class View(NamedTuple):
    """An address that can be loaded, and the parameters that its view takes, None if it says
    nothing of them."""

    path: str
    parameters: Any


def views() -> list[View]:
    return [
        View(path, getattr(pattern.callback, "parameters", None))
        for path, pattern in addresses()
        if not path.startswith(OPEN)
    ]


def files() -> list[View]:
    return [view for view in views() if view.parameters and not view.parameters.blank]


def test_a_misspelt_parameter_is_refused_by_every_page_and_file(admin: Client) -> None:
    refused = []
    for path, _ in views():
        response = admin.get(f"{path}?fliter=shop")
        if response.status_code == 400:
            assert "fliter: expected" in response.content.decode(), path
            refused.append(path)
        else:  # led to the page of a form, without its query, or nothing of a role
            leads = response.status_code in (302, 405) and "fliter" not in response.get(
                "Location", ""
            )
            assert leads or path.startswith(BY_MAIL), (path, response.status_code)
    assert len(refused) > 70


def test_a_blank_parameter_is_refused_by_every_file(admin: Client) -> None:
    assert len(files()) >= 11
    for path, parameters in files():
        for name in parameters.names:
            for blank in ("", "%20"):
                response = admin.get(f"{path}?{name}={blank}")
                assert response.status_code == 400, (path, name)
                assert response.content.decode().startswith(f"{name}: expected a value")


def test_the_page_names_the_parameter_and_those_that_it_knows(client: Client) -> None:
    page = client.get("/incidents/?filter=shop")
    text = page.content.decode()
    assert page.status_code == 400
    assert "filter: expected one of " in text
    assert " q, " in text
    assert 'href="/incidents/"' in text
    part = client.get("/incidents/?filter=shop", headers={"HX-Request": "true"})
    assert part["Content-Type"] == "text/plain; charset=utf-8"
    assert client.get("/glossary/?q=pin").content.decode().count("q: expected no parameter") == 1


def test_what_a_mail_program_adds_is_ignored(client: Client) -> None:
    assert client.get("/incidents/?utm_source=mail&fbclid=1").status_code == 200


def test_whoever_is_not_logged_in_comes_to_the_login_first() -> None:
    assert Client().get("/incidents/?filter=shop").status_code == 302


# ---- the product's own addresses ------------------------------------------------------------

ATTRIBUTE = re.compile(
    r'(?:href|hx-get|data-refresh|data-url|data-complete|data-names|data-window)="([^"#]+)"'
)
FORM = re.compile(r"<form\b([^>]*)>(.*?)</form>", re.DOTALL)
FIELD = re.compile(r'<(?:input|select|textarea|button)\b[^>]*?\bname="([^"]+)"')


def own_addresses(page: str, path: str) -> Iterator[str]:
    """Yield what a page links to, loads and asks for by its forms, with a query."""
    for found in ATTRIBUTE.findall(page):
        yield urljoin(path, html.unescape(found))
    for head, fields in FORM.findall(page):
        action = re.search(r'\baction="([^"]*)"', head)
        target = urljoin(path, html.unescape(action[1]) if action else "")
        if 'method="post"' in head or "hx-post" in head:
            yield target
        elif 'method="get"' in head:
            query = "&".join(f"{name}=" for name in dict.fromkeys(FIELD.findall(fields)))
            yield f"{target.partition('?')[0]}?{query}"


def crawled(client: Client, begun: list[str]) -> Iterator[tuple[str, Any]]:
    """Yield each address of the product with its response: each view once for each set of
    parameters."""
    seen: set[tuple[Any, ...]] = set()
    waiting = list(begun)
    while waiting:
        at = waiting.pop()
        parts = urlsplit(at)
        if parts.netloc or not parts.path.startswith("/") or parts.path.startswith("/static/"):
            continue
        names = frozenset(name for name, _ in parse_qsl(parts.query, keep_blank_values=True))
        key = (resolve(parts.path).view_name, names)
        if key in seen:
            continue
        seen.add(key)
        response: Any = client.get(at)
        yield at, response
        if not response.streaming and response["Content-Type"].startswith("text/html"):
            waiting += own_addresses(response.content.decode(), parts.path)


def test_the_links_and_forms_of_every_page_are_answered(world: World) -> None:
    for asset in ("shop", "till"):
        world.report(asset, "under-attack")
    world.write()
    known_incident()
    known_notifications()
    known_window()
    begun = [reverse(page.view) for page in every_page() if page.offered()]
    answers = list(crawled(logged_in_as("admin"), ["/", "/s/attack/a/shop/", *begun]))
    assert len(answers) > 150
    assert [at for at, response in answers if response.status_code == 400] == []
