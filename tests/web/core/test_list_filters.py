"""The filter of every list: one line, which the browser completes and whose mistakes are named."""

from __future__ import annotations

import html
from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client
from django.urls import get_resolver

from dashboard.core.common.lists import ListPage
from dashboard.core.states.filter_forms import VocabularyForm
from dashboard.core.states.filter_parser import Atom
from dashboard.core.states.vocabularies import TimeKey, Vocabulary
from support.run.selection import sampled
from support.web.clocks import at
from support.web.web_fixtures import make_user
from support.web.world import World

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("world")]

LISTS = {
    "/incidents/": "status",
    "/incidents/by-asset/": "status",
    "/maintenance/": "status",
    "/schedules/": "do",
    "/notifications/messages/": "kind",
    "/audit/": "action",
    "/dead-letters/": "reason",
}
"""By address, a key with known values."""


def vocabulary_of(client: Client, path: str) -> Vocabulary:
    form: VocabularyForm = client.get(path).context["form"]
    return form.vocabulary


def completed(client: Client, path: str, begun: str) -> list[str]:
    answer = client.get(path, {"complete": begun}).json()
    return [item["text"] for item in answer["items"]]


def pages(patterns: Any = None, prefix: str = "/") -> Iterator[tuple[str, type[ListPage]]]:
    """Yield the address and the class of each list of the product."""
    for each in get_resolver().url_patterns if patterns is None else patterns:
        path = prefix + str(each.pattern)
        if hasattr(each, "url_patterns"):
            yield from pages(each.url_patterns, path)
        else:
            page: Any = getattr(each.callback, "view_class", object)
            if issubclass(page, ListPage):
                yield path, page


def test_each_list_with_a_line_is_looked_at():
    lines = {path for path, page in pages() if page.form_class.completes and "<" not in path}
    assert lines | {"/dead-letters/"} == set(LISTS)  # which is no ListPage


@pytest.mark.parametrize("path", LISTS)
def test_the_filter_is_one_line(admin: Client, path: str):
    form = admin.get(path).context["form"]
    assert [field.name for field in form.visible_fields()] == ["q"]


@pytest.mark.parametrize("path", LISTS)
def test_an_unknown_key_names_the_keys_and_keeps_what_was_typed(admin: Client, path: str):
    keys = [key.name for key in vocabulary_of(admin, path).keys]
    page = admin.get(path, {"q": "colour:red shop"})
    body = html.unescape(page.content.decode())
    assert page.status_code == 422
    assert "there is no key colour: expected " + ", ".join(keys[:-1]) in body
    assert 'value="colour:red shop"' in body


@pytest.mark.parametrize("path", LISTS)
def test_an_unknown_value_names_the_values(admin: Client, path: str):
    key = LISTS[path]
    known = {each.name: each for each in vocabulary_of(admin, path).keys}[key]
    names = [value.text for value in known.values("")]
    page = admin.get(path, {"q": f"{key}:colourless"})
    body = html.unescape(page.content.decode())
    assert page.status_code == 422
    assert f"{key}: expected {names[0]}" in body


@pytest.mark.spread(2)
@pytest.mark.parametrize("path", LISTS)
def test_keys_and_values_are_completed(admin: Client, path: str):
    vocabulary, key = vocabulary_of(admin, path), LISTS[path]
    assert [f"{each.name}:" for each in vocabulary.keys] == completed(admin, path, "")[
        : len(vocabulary.keys)
    ]
    assert f"{key}:" in completed(admin, path, f"shop -{key[:3]}")
    for each in vocabulary.keys:
        if isinstance(each, TimeKey):
            assert "<1h" in completed(admin, path, f"{each.name}:")
        for value in sampled(completed(admin, path, f"{each.name}:"), 4):
            assert admin.get(path, {"q": f"{each.name}:{value}"}).status_code == 200, value


@pytest.mark.spread(2)
@pytest.mark.parametrize("path", LISTS)
def test_a_mistake_is_no_error_of_the_server(admin: Client, path: str):
    texts = (
        '"', "status:", "a,", "-", ":", "x" * 1001, "began:<x", 'a"b', "a:*", "until:none", "\0",
        "rule:" + "9" * 900, "9" * 900, "customer:\0", "began:<999999w,<0001-01-01",
    )  # fmt: skip
    for text in sampled(texts, 3, list(LISTS).index(path) % 3):
        assert admin.get(path, {"q": text}).status_code in (200, 422), text
        assert admin.get(path, {"complete": text}).status_code == 200, text


def test_what_has_no_line_completes_nothing(admin: Client):
    for path in ("/users/", "/events/", "/summary/alarms/"):
        assert admin.get(path, {"complete": "a"}).status_code == 404


@pytest.mark.parametrize(
    ("role", "path"),
    [
        ("operator", "/audit/"),
        ("operator", "/dead-letters/"),
        ("manager", "/notifications/messages/"),
    ],
)
def test_who_may_not_see_a_list_completes_nothing(world: World, role: str, path: str):
    client = Client()
    client.force_login(make_user(role))
    assert client.get(path, {"complete": ""}).status_code == 403


@pytest.mark.parametrize(("ahead", "day"), [(False, 21), (True, 22)])
def test_a_time_of_day_is_the_last_one_and_of_what_is_to_come_the_next(ahead: bool, day: int):
    noon = at("2026-11-22T12:00")
    term = TimeKey("next", "", "next_at", ahead).value(Atom("14:00", 0, 6, compare="<"), noon)
    assert str(term) == f"<2026-11-{day}T14:00:00Z"


@pytest.mark.parametrize(
    ("link", "text"),
    [
        ("/incidents/?q=shop&status=open&owner=-", "shop status:open owner:nobody"),
        ("/schedules/?scenario=attack", "scenario:attack status:waiting,aside"),
        ("/schedules/?scenario=attack&q=status:over", "status:over scenario:attack"),
        ("/incidents/?scenario=attack&scenario=orders", "scenario:attack,orders"),
        ("/incidents/?owner=a+b", 'owner:"a b"'),
        (
            "/incidents/by-asset/?start=2025-10-09T08:56&of_time=ended&label=customer:",
            "ended:>2025-10-09T08:56:00 -customer:*",
        ),
        ("/incidents/by-asset/?end=2025-10-09T08:56&flapping=on", ("during:<2025-10-09T08:56:00 "
         "is:flapping")),
    ],
)  # fmt: skip
def test_a_link_names_keys(admin: Client, link: str, text: str):
    assert admin.get(link).context["form"].data["q"] == text


@pytest.mark.parametrize(
    "path",
    ["incidents", "incidents/assets", "maintenance", "schedules", "notifications/messages"],
)
def test_rest_takes_the_same(admin: Client, path: str):
    assert admin.get(f"/api/v1/{path}", {"filter": "shop -a,b"}).status_code == 200
    refused = admin.get(f"/api/v1/{path}", {"filter": "colour:red", "q": "shop"})
    assert refused.status_code == 422
    (error,) = refused.json()["errors"]
    assert error["field"] == "filter"
    assert "there is no key colour: expected status" in error["expected"]
    assert "(character 1)" in error["expected"]
