"""Forms sent after a login has ended, or with another login's token: the way back to them."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote

import pytest
from django.test import Client

from dashboard.core.common.access import page_of_form
from support.web.addresses import addresses
from support.web.web_fixtures import make_user

pytestmark = pytest.mark.django_db

SITE = "http://testserver"
PAGE = "/handover/?hours=1"
SAVE = "/handover/shift/text/"
FOREIGN = (
    "",
    "https://evil.example/handover/",
    "//evil.example/",
    "http://testserver.evil.example/",
    "javascript:alert(1)",
    "http://testserver@evil.example/",
    "http://testserver//evil.example/x",
    "http://testserver/\\evil.example/x",
    "http://testserver/\t/evil.example/x",
)


def sent(client: Client, page: str, path: str = SAVE) -> Any:
    return client.post(path, {"text": "all quiet"}, headers={"Referer": page} if page else {})


def test_the_login_leads_back_to_the_page_of_the_form() -> None:
    to = sent(Client(), f"{SITE}{PAGE}#write-title")["Location"]
    assert to == f"/account/login/?next={quote(PAGE)}"
    make_user("operator", "a-long-password")
    browser, form = Client(), {"login": "operator", "password": "a-long-password", "next": PAGE}
    assert browser.post(to, form)["Location"] == PAGE


@pytest.mark.parametrize("page", FOREIGN)
def test_it_leads_nowhere_else(page: str) -> None:
    assert sent(Client(), page)["Location"] == "/account/login/?next=/"


def test_every_form_of_a_role_leads_back() -> None:
    paths = [path for path, _ in addresses() if not path.startswith("/account/")]
    asked = [sent(Client(), f"{SITE}{PAGE}", path) for path in paths]
    logins = [each["Location"] for each in asked if each.status_code == 302]
    assert len(logins) > 60
    assert set(logins) == {f"/account/login/?next={quote(PAGE)}"}


def test_a_form_with_another_logins_token_leads_back_to_its_page() -> None:
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(make_user("operator"))
    answer = sent(browser, f"{SITE}{PAGE}")
    page = answer.content.decode()
    assert answer.status_code == 403
    assert f'href="{PAGE}">Back to the form' in page
    assert re.search(r'<html [^>]*data-user="\d+" data-refused', page)
    for foreign in FOREIGN:
        assert 'href="/">To the board' in sent(browser, foreign).content.decode()


def test_the_login_says_that_nobody_is_logged_in() -> None:
    assert "data-user" not in Client().get("/account/login/").content.decode()


def test_what_was_typed_is_cleared_by_a_logout_alone(client: Client) -> None:
    pages = client.get(PAGE).content.decode() + client.get("/account/logout/").content.decode()
    forms = re.findall(r'<form [^>]*action="([^"]*)"[^>]*data-drafts="clear"', pages)
    assert set(forms) == {"/account/logout/"}
    assert re.search(rf'action="{SAVE}" data-drafts="outlive"', pages)


def test_a_page_over_https_takes_no_page_of_http(rf: Any) -> None:
    page = {"Referer": f"{SITE}{PAGE}"}
    assert page_of_form(rf.post(SAVE, headers=page)) == PAGE
    assert page_of_form(rf.post(SAVE, headers=page, secure=True)) == ""
