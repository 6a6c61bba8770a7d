"""Addresses that people type: to the first page of their group, after the login."""

from __future__ import annotations

import pytest
from django.conf import settings
from django.test import Client

from support.web.web_fixtures import make_user

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("path", "role", "page"),
    [
        ("/console/", "manager", "/summary/"),
        ("/console/", "operator", "/summary/"),
        ("/console/", "admin", "/summary/"),
        ("/notifications/", "operator", "/notifications/messages/"),
        ("/notifications/", "admin", "/notifications/messages/"),
        ("/mail/", "operator", "/console/mail/"),
        ("/retention/", "admin", "/console/retention/"),
    ],
)
def test_it_leads_to_a_page_that_the_role_may_open(path: str, role: str, page: str) -> None:
    client = Client()
    client.force_login(make_user(role))
    answer = client.get(path)
    assert (answer.status_code, answer["Location"]) == (302, page)
    assert client.get(page).status_code == 200


@pytest.mark.parametrize(
    ("path", "role"), [("/notifications/", "manager"), ("/retention/", "operator")]
)
def test_where_the_role_has_no_page_it_is_told_who_may(path: str, role: str) -> None:
    client = Client()
    client.force_login(make_user(role))
    answer = client.get(path, follow=True)
    assert answer.status_code == 403
    assert "admin" in answer.content.decode()


@pytest.mark.parametrize("path", ["/console/", "/notifications/", "/mail/", "/retention/"])
def test_who_is_not_logged_in_is_asked_to_first(path: str) -> None:
    assert Client().get(path)["Location"] == f"/account/login/?next={path}"


def test_without_caught_mail_it_leads_to_the_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    given = settings.TALLYBOARD.model_copy(update={"demo": False, "smtp_host": "mail.invalid"})
    monkeypatch.setattr(settings, "TALLYBOARD", given)
    client = Client()
    client.force_login(make_user("operator"))
    assert client.get("/mail/")["Location"] == "/notifications/messages/"
