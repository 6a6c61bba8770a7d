"""The pages of caught mail: its list, one mail, and its HTML, which can do nothing."""

from __future__ import annotations

from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.test import Client

from config.mailbox import Mailbox
from config.settings import Settings
from dashboard.notify.notifications import mails
from support.web.web_fixtures import logged_in_as

pytestmark = pytest.mark.django_db

LIST = "/console/mail/"


@pytest.fixture
def mailbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Mailbox:
    monkeypatch.setattr(settings, "TALLYBOARD", Settings(data_dir=tmp_path))
    return Mailbox(tmp_path / "mail")


def nested(depth: int) -> bytes:
    """A mail whose parts are within each other."""
    heads = b"".join(
        b"Content-Type: multipart/mixed; boundary=b%d\r\n\r\n--b%d\r\n" % (n, n)
        for n in range(depth)
    )
    return b"Subject: deep\r\n" + heads + b"\r\nwithin"


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
    assert [mail.number for mail in page.context["page"].rows] == [second, first]
    assert "soc@example.org" in page.content.decode()


def threaded(subject: str, own: str, first: str = "") -> bytes:
    head = f"Subject: {subject}\r\nMessage-ID: <{own}@localhost>\r\n"
    return f"{head}{f'References: <{first}@localhost>' if first else 'X: 1'}\r\n\r\nx".encode()


def test_mails_of_a_thread_are_together_below_the_newest(mailbox: Mailbox, client: Client):
    for mail in (
        threaded("shop under attack", "a"),
        threaded("pay under attack", "b"),
        threaded("Reminder: shop under attack", "c", "a"),
        letter("alone"),
        threaded("Over: shop, 12 min (was under attack)", "d", "a"),
        letter("alone too"),
    ):
        mailbox.keep(mail)
    page: Any = client.get(LIST)
    assert [(mail.subject, mail.earlier) for mail in page.context["page"].rows] == [
        ("alone too", False),
        ("Over: shop, 12 min (was under attack)", False),
        ("Reminder: shop under attack", True),
        ("shop under attack", True),
        ("alone", False),
        ("pay under attack", False),
    ]
    assert page.content.decode().count("Earlier in this thread: ") == 2


def test_older_ones_are_on_the_next_page(mailbox: Mailbox, client: Client):
    numbers = [mailbox.keep(letter(str(number))) for number in range(51)]
    assert f'href="?before={numbers[1]}"' in client.get(LIST).content.decode()
    page: Any = client.get(f"{LIST}?before={numbers[1]}")
    assert [mail.subject for mail in page.context["page"].rows] == ["0"]


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


@pytest.mark.spread(6)
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
        b"Content-Type: text/plain; charset=idna\r\n\r\n\xe9..\xff",
        b"Content-Type: text/html; charset=punycode\r\n\r\n\xe9--",
        b"Content-Type: text/plain; charset=undefined\r\n\r\nx",
        b"Content-Type: text/plain; charset=hex\r\n\r\nx",
        b"Content-Type: text/plain; charset=u\x00tf\r\n\r\nx",
        b"Content-Type: text/plain; charset*=u\x00tf''utf-8\r\n\r\nx",
        b"Content-Disposition: attachment; filename*=u\x00tf''a%E9\r\n\r\nx",
        b"Content-Disposition: attachment; filename*=idna''a%E9..\r\n\r\nx",
        b"Subject: =?idna?q?=E9..?=\r\nFrom: =?u\x00tf?q?a?=\r\n\r\nx",
        nested(1_500),
    ],
    ids=range(17),
)
def test_a_broken_mail_is_shown_as_far_as_it_goes(mailbox: Mailbox, client: Client, content: bytes):
    number = mailbox.keep(content)
    assert client.get(LIST).status_code == 200
    assert client.get(f"{LIST}{number}/").status_code == 200


def test_a_mail_that_cannot_be_read_has_its_head_shown_and_hides_no_other(
    mailbox: Mailbox, client: Client
):
    whole, deep = mailbox.keep(letter("whole")), mailbox.keep(nested(1_500))
    page: Any = client.get(LIST)
    assert [mail.subject for mail in page.context["page"].rows] == ["deep", "whole"]
    body = client.get(f"{LIST}{deep}/").content.decode()
    assert "The parts of this mail cannot be read" in body
    assert "<dt>Subject</dt>" in body
    assert client.get(f"{LIST}{deep}/html/").status_code == 404
    assert "cannot be read" not in client.get(f"{LIST}{whole}/").content.decode()


def test_a_text_of_an_odd_encoding_is_shown(mailbox: Mailbox, client: Client):
    number = mailbox.keep(b"Content-Type: text/plain; charset=idna\r\n\r\nhello caf\xc3\xa9")
    assert "hello café" in client.get(f"{LIST}{number}/").content.decode()


def test_the_list_reads_heads_alone(
    mailbox: Mailbox, client: Client, monkeypatch: pytest.MonkeyPatch
):
    mailbox.keep(letter("one") + b"x" * 5_000_000)
    read: list[int] = []
    kept = Mailbox.read

    def noted(self: Mailbox, *arguments: Any) -> bytes | None:
        content = kept(self, *arguments)
        read.append(len(content or b""))
        return content

    monkeypatch.setattr(Mailbox, "read", noted)
    assert "one" in client.get(LIST).content.decode()
    assert read == [mails.LONGEST_HEAD]


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
