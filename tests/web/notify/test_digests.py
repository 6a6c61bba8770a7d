"""Digests: subscribed to, sent once to a real mail server, late after a pause, ended by a link."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date
from email.message import EmailMessage
from typing import Any
from urllib.parse import quote

import pytest
from django.contrib.auth.models import User
from django.core.signing import Signer
from django.test import Client

from dashboard.core.audit.models import AuditEntry
from dashboard.core.common.times import DAY_MS, HOUR_MS, MINUTE_MS
from dashboard.notify.notifications.models import Message
from dashboard.notify.summaries import digests
from dashboard.notify.summaries.digests import send_due
from dashboard.notify.summaries.figures import (
    Delays,
    ErrorBudget,
    FigureGroup,
    Figures,
    Observed,
    PeriodSummary,
    Question,
    Times,
    WorstAsset,
)
from dashboard.notify.summaries.models import Issue, ReportingZone, Subscription
from domain.history.periods import DAY, WEEK, Period, Span
from support.web.clocks import at
from support.web.deliveries import deliver
from support.web.receivers import MailServer, mail_server, text_of_mail
from support.web.web_fixtures import error_of

pytestmark = pytest.mark.django_db

MONDAY = at("2026-11-23")
DAILY = {"every": DAY, "weekday": 0, "hour": 7}
DUE = MONDAY + 7 * HOUR_MS
YESTERDAY = Period(DAY, date(2026, 11, 22), date(2026, 11, 23))


def figures(incidents: int, bad: int) -> Figures:
    """Figures of a group."""
    acknowledged, cleared = Delays(4, 50_000, 180_000, 42_000), Delays()
    budget = ErrorBudget(99.9, 300 * MINUTE_MS, 300 * MINUTE_MS - bad)
    times, all_of_it = Times(30 * DAY_MS - bad, bad), Observed(DAY_MS, DAY_MS, seen=True)
    return Figures(times, incidents, incidents, budget, acknowledged, cleared, 0, 2_000, all_of_it)


@pytest.fixture(autouse=True)
def figures_of_the_day(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every period has the same figures."""

    def summary(question: Question) -> PeriodSummary:
        group = FigureGroup("", "", figures(3, 90 * MINUTE_MS), figures(5, 4 * HOUR_MS))
        worst = (
            WorstAsset("attack", "mail <b>", 20 * MINUTE_MS, 0, 1, 0),
            WorstAsset("attack", "shop", 70 * MINUTE_MS, 0, 2, HOUR_MS),
            WorstAsset("attack", "fine", 0, 5, 0, 0),
        )
        return PeriodSummary(question, "UTC", Span(0, 1), Span(0, 1), False, 1, None, None, group,
                       worst=worst)  # fmt: skip

    monkeypatch.setattr(digests, "summary", summary)


@pytest.fixture
def post(settings: Any) -> Iterator[MailServer]:
    """A mail server, and the product knows of it."""
    with mail_server() as server:
        update = {
            "smtp_host": "127.0.0.1", "smtp_port": server.port, "smtp_tls": "none",
            "public_url": "https://board.example",
        }  # fmt: skip
        settings.TALLYBOARD = settings.TALLYBOARD.model_copy(update=update)
        yield server


@pytest.fixture
def reader(user: User) -> User:
    """A user with a mail address who subscribed on the day before."""
    user.email = "olga@example.org"
    user.save()
    Subscription.objects.subscribe(user, "attack", DAILY, MONDAY - HOUR_MS)
    return user


def sent(post: MailServer, now: int) -> list[EmailMessage]:
    """The mails that came of what is due at `now`."""
    before = len(post.mails)
    send_due(now)
    while deliver(lambda: now):
        pass
    return post.mails[before:]


def test_it_is_sent_once_when_it_is_due(reader: User, post: MailServer):
    assert sent(post, DUE - 1) == []
    [mail] = sent(post, DUE + MINUTE_MS)
    assert post.recipients == ["olga@example.org"]
    assert "3 incidents" in mail["Subject"]
    assert sent(post, DUE + HOUR_MS) == sent(post, DUE + 23 * HOUR_MS) == []
    assert len(sent(post, DUE + DAY_MS)) == 1
    assert list(Issue.objects.order_by("first").values_list("first", flat=True)) == [
        date(2026, 11, 22), date(2026, 11, 23),
    ]  # fmt: skip


DELAY = "42 s; 95 of 100 within 3 m 00 s"
FIGURES = [
    ["Observed", "1 d 00 h", "1 d 00 h"],
    ["Availability", "99.791 %", "99.444 %"],
    ["Target", "99.9 %, met", "99.9 %, met"],
    ["Error budget left", "3 h 30 m", "1 h 00 m"],
    ["Incidents", "3", "5"],
    ["Assets with incidents", "3", "5"],
    ["Time in bad states", "1 h 30 m", "4 h 00 m"],
    ["Time to acknowledge", DELAY, DELAY],
    ["Time to all-clear", "–", "–"],
    ["Time unconfirmed", "0 s", "0 s"],
    ["False alarms", "2,000", "2,000"],
]


def test_it_begins_with_a_sentence_and_sorts_by_time_lost(reader: User, post: MailServer):
    [mail] = sent(post, DUE)
    text, html = text_of_mail(mail, "plain"), text_of_mail(mail, "html")
    title, _, words = text.splitlines()[:3]
    assert title == "Attacks, 2026-11-22"
    assert words == (
        "There were 3 incidents on 3 assets, 2 fewer than the day before. Assets were in a good "
        "state for 99.791 % of the time, 0.347 points better than the day before."
    )
    lines = text.splitlines()
    lines = lines[lines.index("Figures") + 2 :][: len(FIGURES) + 1]
    shown = [re.split(r" {2,}", line) for line in lines]
    assert shown == [["", "now", "before"], *FIGURES]
    assert all(f">{cell}</t" in html for row in FIGURES for cell in row)
    assert text.index("shop") < text.index("mail <b>")
    assert "fine" not in text
    assert "mail &lt;b&gt;" in html
    assert "<b>" not in html
    assert html.index("3 incidents on 3 assets") < html.index("<table style")
    assert "https://board.example/s/attack/a/shop/" in html
    assert "period=day&date=2026-11-22&scenario=attack" in text
    assert "late" not in text


def test_a_missed_one_is_sent_once_late_and_says_so(reader: User, post: MailServer):
    sent(post, DUE)
    [mail] = sent(post, DUE + 3 * DAY_MS + 5 * HOUR_MS)
    assert "late: it was due at 2026-11-26 07:00 UTC" in text_of_mail(mail, "plain")
    assert "2 digests before it were left out" in text_of_mail(mail, "html")
    assert sent(post, DUE + 3 * DAY_MS + 6 * HOUR_MS) == []
    assert [issue.late for issue in Issue.objects.order_by("first")] == [0, 5 * HOUR_MS]


def test_nothing_is_sent_of_before_the_subscription(user: User, post: MailServer):
    user.email = "olga@example.org"
    user.save()
    Subscription.objects.subscribe(user, "attack", DAILY, DUE + 1)
    assert sent(post, DUE + HOUR_MS) == []
    assert len(sent(post, DUE + DAY_MS)) == 1


def test_a_change_to_weeks_begins_anew_and_of_the_hour_does_not(reader: User, post: MailServer):
    Subscription.objects.subscribe(reader, "attack", DAILY | {"hour": 6}, DUE - 30 * MINUTE_MS)
    assert len(sent(post, DUE - 20 * MINUTE_MS)) == 1
    Subscription.objects.subscribe(reader, "attack", {"every": WEEK, "weekday": 0, "hour": 6}, DUE)
    assert sent(post, DUE + HOUR_MS) == []
    [mail] = sent(post, DUE + 7 * DAY_MS)
    assert "every week" in text_of_mail(mail, "plain")


def test_hours_are_those_of_the_reporting_zone(reader: User, post: MailServer):
    ReportingZone.objects.choose("America/New_York")
    assert sent(post, DUE) == []
    assert len(sent(post, DUE + 5 * HOUR_MS)) == 1


@pytest.mark.parametrize("why", ["inactive", "no role", "no address"])
def test_who_may_not_read_or_has_no_address_gets_none(reader: User, post: MailServer, why: str):
    if why == "inactive":
        reader.is_active = False
    elif why == "no role":
        reader.groups.clear()
    else:
        reader.email = ""
    reader.save()
    assert sent(post, DUE) == []
    assert not Issue.objects.exists()


def test_two_workers_at_once_send_one(
    reader: User, post: MailServer, monkeypatch: pytest.MonkeyPatch
):
    real = digests.content_of

    def meanwhile(*given: Any) -> Any:
        monkeypatch.setattr(digests, "content_of", real)
        send_due(DUE)
        return real(*given)

    monkeypatch.setattr(digests, "content_of", meanwhile)
    assert len(sent(post, DUE)) == 1
    assert Message.objects.count() == 1


def test_one_that_fails_hinders_no_other(
    reader: User, post: MailServer, monkeypatch: pytest.MonkeyPatch
):
    Subscription.objects.subscribe(reader, "connectivity", DAILY, MONDAY)
    real = digests.summary

    def fail(question: Question) -> PeriodSummary:
        if question.scenarios == ("attack",):
            raise OSError
        return real(question)

    monkeypatch.setattr(digests, "summary", fail)
    with pytest.raises(ExceptionGroup):
        send_due(DUE)
    assert Message.objects.count() == 1


# ---- ending it --------------------------------------------------------------------------------


def test_a_mail_program_ends_it_by_the_headers(reader: User, post: MailServer):
    [mail] = sent(post, DUE)
    assert mail["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
    url = mail["List-Unsubscribe"].strip(" <>")
    assert url == Subscription.objects.get().unsubscribe_url
    assert url in text_of_mail(mail, "plain")
    path = url.removeprefix("https://board.example")
    browser = Client(enforce_csrf_checks=True)
    answer = browser.post(path, {"List-Unsubscribe": "One-Click"})
    assert answer.status_code == 200
    assert not Subscription.objects.exists()
    entry = AuditEntry.objects.get(action="digest.unsubscribed")
    assert (entry.name, entry.scenario) == (reader.username, "attack")
    assert "You are unsubscribed" in answer.content.decode()
    assert sent(post, DUE + DAY_MS) == []
    assert "has ended already" in browser.get(path).content.decode()


def test_a_link_changes_nothing_before_it_is_confirmed(reader: User):
    path = f"/digests/unsubscribe/{Subscription.objects.get().link_token}/"
    page = Client().get(path)
    assert page.status_code == 200
    assert "<form" in page.content.decode()
    assert Subscription.objects.exists()


def test_a_link_counts_whatever_key_a_process_signs_with(
    reader: User, post: MailServer, settings: Any
):
    [mail] = sent(post, DUE)
    settings.SECRET_KEY = "another, as of another container's own"
    path = mail["List-Unsubscribe"].strip(" <>").removeprefix("https://board.example")
    assert Client().post(path).status_code == 200
    assert not Subscription.objects.exists()


def test_no_other_link_ends_it(reader: User):
    other = Subscription.objects.subscribe(reader, "connectivity", DAILY, MONDAY)
    row = Subscription.objects.get(scenario="attack")
    tokens = (
        str(row.pk), f"{row.pk}.", f"{row.pk}.guessed", f"{row.pk}.{row.token}x", row.token,
        f"{row.pk}.{other.token}", f"{row.pk}.{row.token[:-1]}", f"{'9' * 5000}.{row.token}",
        f"²{row.pk}.{row.token}", f"{row.pk}.é", Signer().sign(str(row.pk)),
        Signer(salt="dashboard.notify.summaries.digest_views").sign(str(row.pk)),
    )  # fmt: skip
    for token in tokens:
        page = Client().post(f"/digests/unsubscribe/{quote(token)}/")
        assert page.status_code == 404, token
        assert "/account/digests/" in page.content.decode()
    assert Subscription.objects.count() == 2


def test_a_subscription_keeps_its_link_when_its_plan_changes(reader: User):
    before = Subscription.objects.get().link_token
    Subscription.objects.subscribe(reader, "attack", {"every": WEEK, "weekday": 2, "hour": 9}, DUE)
    assert Subscription.objects.get().link_token == before


# ---- the page ---------------------------------------------------------------------------------


def test_one_subscribes_changes_and_ends_on_ones_own_page(user: User, client: Client):
    assert "no mail address yet" in client.get("/account/digests/").content.decode()
    given = {"every": WEEK, "weekday": "4", "hour": "16"}
    client.post("/account/digests/attack/", given)
    row = Subscription.objects.get(user=user)
    assert (row.scenario, row.every, row.weekday, row.hour) == ("attack", WEEK, 4, 16)
    page = client.get("/account/digests/").content.decode()
    assert '<option value="16" selected>' in page
    client.post("/account/digests/attack/", given | {"every": "never"})
    assert not Subscription.objects.exists()
    actions = AuditEntry.objects.filter(action__startswith="digest.").order_by("pk")
    assert [entry.action for entry in actions] == ["digest.subscribed", "digest.unsubscribed"]


def test_a_form_says_what_it_expects_and_keeps_what_was_chosen(client: Client):
    page = client.post("/account/digests/attack/", {"every": DAY, "weekday": "9", "hour": "16"})
    assert page.status_code == 422
    assert "Select a valid choice" in error_of(page, "weekday")
    assert '<option value="16" selected>' in page.content.decode()
    assert client.post("/account/digests/lost/", {}).status_code == 404
