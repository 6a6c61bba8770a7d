"""The pages of caught mail: its list, one mail, and its HTML, which can do nothing."""

from __future__ import annotations

from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.test import Client
from web_fixtures import logged_in_as

from config.mailbox import Mailbox
from config.settings import Settings

pytestmark = pytest.mark.django_db

LIST = "/console/mail/"


@pytest.fixture
def mailbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Mailbox:
    monkeypatch.setattr(settings, "TALLYBOARD", Settings(data_dir=tmp_path))
    return Mailbox(tmp_path / "mail")


def letter(subject: str = "shop: Under attack") -> bytes:
    mail = EmailMessage()
    mail["Subject"], mail["From"], mail["To"] = subject, "tallyboard@localhost", "soc@example.org"
    mail["X-Envelope-To"] = "soc@example.org"
    mail.set_content("The shop is under attack.")
    mail.add_alternative("<h1>Under attack</h1><script>alert(1)</script>", subtype="html")
    mail.add_attachment(b"x", maintype="application", subtype="pdf", filename="report.pdf")
    return bytes(mail)


def test_the_list_has_the_newest_first(mailbox: Mailbox, client: Client):
    assert "No mail yet" in client.get(LIST).content.decode()
    first, second = mailbox.keep(letter("one")), mailbox.keep(letter("two"))
    page: Any = client.get(LIST)
    assert [mail.number for mail in page.context["found"].rows] == [second, first]
    assert "soc@example.org" in page.content.decode()


def test_older_ones_are_on_the_next_page(mailbox: Mailbox, client: Client):
    numbers = [mailbox.keep(letter(str(number))) for number in range(51)]
    assert f'href="?before={numbers[1]}"' in client.get(LIST).content.decode()
    page: Any = client.get(f"{LIST}?before={numbers[1]}")
    assert [mail.subject for mail in page.context["found"].rows] == ["0"]


def test_a_mail_is_shown_with_text_headers_and_what_is_attached(mailbox: Mailbox, client: Client):
    number = mailbox.keep(letter())
    body = client.get(f"{LIST}{number}/").content.decode()
    for part in ("The shop is under attack.", "report.pdf", "X-Envelope-To"):
        assert part in body
    assert f'src="{LIST}{number}/html/" sandbox ' in body
    assert "<script>alert" not in body


def test_its_html_may_do_nothing(mailbox: Mailbox, client: Client):
    number = mailbox.keep(letter())
    answer = client.get(f"{LIST}{number}/html/")
    assert answer.content.startswith(b"<h1>Under attack</h1>")
    policy = answer["Content-Security-Policy"]
    rules = {part.strip() for part in policy.split(";")}
    assert {"default-src 'none'", "sandbox", "form-action 'none'"} <= rules
    assert "frame-ancestors 'self'" in rules
    assert "script-src" not in policy
    assert answer["X-Frame-Options"] == "SAMEORIGIN"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe\x00",
        b"Subject: caf\xe9\r\nFrom: <\r\nTo: \xf0\r\n\r\nno header fits",
        b"Content-Type: text/plain; charset=nonsense\r\n\r\n\xe9",
        b"Content-Type: multipart/mixed; boundary=x\r\n\r\n--x\r\n",
        b"Subject: =?utf-8?b?/w==?=\r\nContent-Transfer-Encoding: base64\r\n\r\n!!",
        b"Subject: \x00\r\nMessage-ID: <<>>@\r\nDate: never\r\nContent-Disposition: ;;\r\n\r\n",
    ],
)
def test_a_broken_mail_is_shown_as_far_as_it_goes(mailbox: Mailbox, client: Client, content: bytes):
    number = mailbox.keep(content)
    assert client.get(LIST).status_code == 200
    assert client.get(f"{LIST}{number}/").status_code == 200


@pytest.mark.parametrize("number", ["1", "9" * 30, "9" * 400])
def test_a_mail_that_is_not_there_is_not_found(mailbox: Mailbox, client: Client, number: str):
    assert client.get(f"{LIST}{number}/").status_code == 404
    assert client.get(f"{LIST}{number}/html/").status_code == 404


def test_a_mail_without_html_has_no_page_of_its_own(mailbox: Mailbox, client: Client):
    number = mailbox.keep(b"Subject: plain\r\n\r\nhello")
    assert client.get(f"{LIST}{number}/html/").status_code == 404


def test_with_a_mail_server_there_is_no_page_and_no_link(
    client: Client, monkeypatch: pytest.MonkeyPatch
):
    assert LIST in client.get("/account/tokens/").content.decode()
    with_server = settings.TALLYBOARD.model_copy(update={"smtp_host": "mail.example.org"})
    monkeypatch.setattr(settings, "TALLYBOARD", with_server)
    assert client.get(LIST).status_code == 404
    assert LIST not in client.get("/account/tokens/").content.decode()


def test_managers_do_not_read_it(mailbox: Mailbox):
    manager = logged_in_as("manager")
    assert manager.get(LIST).status_code == 403
    assert LIST not in manager.get("/account/tokens/").content.decode()
