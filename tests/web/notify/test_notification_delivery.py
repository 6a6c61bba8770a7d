"""Notifications from a change of a state to a real mail server and a real receiver of webhooks."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import uuid
from collections.abc import Iterator
from io import StringIO
from secrets import token_urlsafe
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import OperationalError, connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext
from pydantic import SecretStr

from dashboard.core.accounts.encryption import seal, unseal
from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.times import DAY_MS, HOUR_MS, MINUTE_MS, now_ms
from dashboard.core.states.models import EventCount
from dashboard.notify.notifications import channels as notification_channels
from dashboard.notify.notifications import decisions, delivery, outbox, tasks, texts
from dashboard.notify.notifications.channels import NO_SERVER, as_mail
from dashboard.notify.notifications.chat import ChatKind
from dashboard.notify.notifications.decisions import (
    NOTHING_LEFT,
    OVER_BEFORE,
    RULE_OFF,
    decide,
)
from dashboard.notify.notifications.delivery import DeliveryAttempt
from dashboard.notify.notifications.ingestion import LATE_MS, SETTLED_MS, ingest_incidents
from dashboard.notify.notifications.models import (
    EVENTS_KEPT_MS,
    FAILED,
    GIVEN_UP,
    HELD,
    KEPT,
    KEPT_MS,
    NOT_SENT,
    SENDING,
    SENT,
    WAITED,
    WAITING,
    Attempt,
    Channel,
    Group,
    GroupIncident,
    IncidentEvent,
    Message,
    Rule,
)
from dashboard.notify.notifications.outbox import MessageDraft, Recipient
from dashboard.notify.notifications.rule_views import preview
from dashboard.watch.annotations import acknowledgements
from dashboard.watch.annotations.models import Label
from dashboard.watch.incidents import cases
from dashboard.watch.incidents.ingestion import IncidentChange
from dashboard.watch.incidents.models import ALL, Case, Incident, Window
from domain.notifications.group import Member
from domain.notifications.machine import PAUSED, QUIET, REASONS
from domain.notifications.rule_parser import rule_from_plain
from support.web.deliveries import deliver
from support.web.receivers import (
    HookServer,
    MailServer,
    hook_server,
    mail_server,
    text_of_mail,
)
from support.web.rotas import make_rota, put_on_call
from support.web.web_fixtures import make_user, show
from support.web.world import World

pytestmark = pytest.mark.django_db

SECRET = notification_channels.new_secret()


class Clock:
    """The worker's clock, which the test sets ahead."""

    def __init__(self) -> None:
        self.ahead = 0

    def __call__(self) -> int:
        return now_ms() + self.ahead

    def later(self, ms: int) -> None:
        self.ahead += ms


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def allowed(settings: Any) -> Any:
    """Receivers on this machine are allowed, and no mail server is known."""
    changes = {"private_targets": True, "demo": True, "mail_catcher_port": None}
    settings.TALLYBOARD = settings.TALLYBOARD.model_copy(
        update=changes | {"kafka_bootstrap": "outside:9092"}
    )
    return settings


@pytest.fixture
def mails(allowed: Any) -> Iterator[MailServer]:
    with mail_server() as server:
        update = {"smtp_host": "127.0.0.1", "smtp_port": server.port, "smtp_tls": "none"}
        allowed.TALLYBOARD = allowed.TALLYBOARD.model_copy(update=update)
        yield server


@pytest.fixture
def hooks(allowed: Any) -> Iterator[HookServer]:
    with hook_server() as server:
        yield server


def channel(kind: str, address: str, **more: Any) -> Channel:
    """A channel; a webhook's with SECRET."""
    if kind == "webhook":
        more.setdefault("secret", seal(SECRET))
    name = more.pop("name", kind)
    return Channel.objects.create(
        name=name, kind=kind, address=address, changed_at=1, username="olga", **more
    )


def rule(*channels: Channel, name: str = "Attacks", **definition: Any) -> Rule:
    """A rule that tells these channels at once, without waiting for more."""
    stages = definition.pop("stages", [{"channels": [each.pk for each in channels]}])
    definition = {"window_ms": 0, "stages": stages} | definition
    return Rule.objects.create(name=name, definition=definition, changed_at=1, username="olga")


def run(clock: Clock, ms: int = 0) -> None:
    """Let time pass, and the worker carry on."""
    clock.later(ms)
    while decide(clock):
        pass
    deliver(clock)


def calm(world: World, *assets: str) -> None:
    for each in assets:
        world.report(each, "clear")
    world.later(5 * MINUTE_MS)
    for each in assets:
        world.report(each, "clear")
    world.write()


def kinds() -> list[str]:
    return list(Message.objects.order_by("created_at").values_list("kind", flat=True))


def count_of(name: str, topic: str) -> int:
    return sum(EventCount.objects.filter(name=name, topic=topic).values_list("n", flat=True))


# ---- from the state to the mail -----------------------------------------------------------------


def test_an_attack_is_mailed_and_its_end_in_the_same_thread(
    world: World, mails: MailServer, clock: Clock
):
    rule(channel("mail", "soc@example.org, boss@example.org"))
    world.report("shop", "under-attack")
    world.write()
    run(clock)
    assert sorted(mails.recipients) == ["boss@example.org", "soc@example.org"]
    first = next(each for each in mails.mails if each["To"] == "soc@example.org")
    assert first["Subject"] == "shop under attack"
    assert (
        first["Message-ID"]
        == f"<{Message.objects.filter(recipient='soc@example.org').get().pk}@localhost>"
    )
    assert "Rule Attacks, stage 1 of 1." in text_of_mail(first)
    assert "<td>Under attack</td>" in text_of_mail(first, "html")
    calm(world, "shop")
    run(clock, 6 * MINUTE_MS)
    last = next(each for each in mails.mails[2:] if each["To"] == "soc@example.org")
    assert re.fullmatch(r"Over: shop, \d+ (s|min) \(was under attack\)", last["Subject"])
    assert text_of_mail(last).startswith(last["Subject"])
    assert "- shop (Attacks): Under attack since 2" in text_of_mail(last)
    assert ", over after " in text_of_mail(last)
    assert last["References"] == last["In-Reply-To"] == first["Message-ID"]
    assert last["Message-ID"] != first["Message-ID"]
    group = Group.objects.get()
    assert (group.closed_at is not None, group.incidents, group.reason) == (True, 1, "")


@pytest.mark.parametrize(
    ("asset", "read"),
    [
        ("x-=?utf-8?q?Bcc?=", "x-= ?utf-8?q?Bcc?= under attack"),
        ("=?utf-8?b?c2hvcA==?=", "= ?utf-8?b?c2hvcA== ?= under attack"),
        ("\u202epohs", "\u2068\ufffdpohs\u2069 under attack"),
        ("shop\u2069\u202e", "\u2068shop\ufffd\ufffd\u2069 under attack"),
        ("\u05d0" * 70, "\u2068" + "\u05d0" * 60 + "\u2069 under attack"),
    ],
)
def test_no_name_makes_a_subject_read_as_another(
    world: World, mails: MailServer, clock: Clock, asset: str, read: str
):
    rule(channel("mail", "soc@example.org"))
    world.report(asset, "under-attack")
    world.write()
    run(clock)
    [mail] = mails.mails
    assert mail["Subject"] == read


def test_a_mail_that_follows_another_refers_to_it_and_has_a_subject_of_its_own():
    to, thread = Recipient("mail", "soc@example.org"), str(uuid.uuid4())
    first = outbox.put(to, MessageDraft("opened", "shop under attack", "text", thread=thread), 1)
    own = "Reminder: shop under attack"
    other = outbox.put(to, MessageDraft("reminder", own, "text", thread=thread), 2)
    assert as_mail(first)["Subject"] == "shop under attack"
    assert as_mail(first)["References"] is None
    assert as_mail(other)["Subject"] == own
    assert as_mail(other)["References"] == as_mail(first)["Message-ID"]


def test_what_is_still_suspicious_is_not_called_over(world: World, mails: MailServer, clock: Clock):
    rule(channel("mail", "soc@example.org"), at_least="under-attack")
    world.report("shop", "under-attack")
    world.write()
    run(clock)
    world.report("shop", "suspicious")
    world.later(5 * MINUTE_MS)
    world.report("shop", "suspicious")
    world.write()
    run(clock, 6 * MINUTE_MS)
    last = Message.objects.order_by("-created_at")[0]
    assert (last.kind, last.subject) == (
        "resolved", "shop now suspicious, no longer under attack",
    )  # fmt: skip
    assert ", now suspicious after " in last.text
    assert "Over" not in last.text


@pytest.mark.parametrize(
    ("members", "subject"),
    [
        ([("a", ""), ("b", "")], "Over: 2 sites, 12 min (were under attack)"),
        ([("a", ""), ("b", "suspicious")], "1 site now suspicious; 1 site over"),
        ([("a", "")], "Over: a, 12 min (was under attack)"),
    ],
)
def test_the_end_of_incidents_in_one_line(members: list[tuple[str, str]], subject: str):
    ended = [
        Member("attack", name, name, 0, "under-attack", "under-attack", 12 * MINUTE_MS, left=left)
        for name, left in members
    ]
    for kind in ("opened", "more", "resolved"):
        assert texts.subject_of(kind, ended) == subject


def test_an_attack_on_300_sites_is_one_mail(world: World, mails: MailServer, clock: Clock):
    rule(channel("mail", "soc@example.org"), window_ms=30_000)
    for n in range(300):
        world.report(f"site-{n}", "under-attack")
    world.write()
    run(clock)
    assert not mails.mails
    run(clock, 31_000)
    [mail] = mails.mails
    assert mail["Subject"] == "300 sites under attack"
    assert "and 280 more" in text_of_mail(mail)
    assert GroupIncident.objects.count() == 300


def test_what_is_committed_has_its_event_and_what_is_rolled_back_has_none(world: World):
    world.report("shop", "under-attack")
    with transaction.atomic():
        world.write()
        assert IncidentEvent.objects.count() == 1
        transaction.set_rollback(True)
    assert (Incident.objects.count(), IncidentEvent.objects.count()) == (0, 0)


def test_a_rule_with_labels_tells_of_those_assets_alone(
    world: World, mails: MailServer, clock: Clock
):
    Label.objects.create(
        scenario="attack", asset="a", key="customer", value="acme", source="person", name="o", at=1
    )
    rule(channel("mail", "acme@example.org"), labels=["customer=acme"])
    for asset in ("a", "b"):
        world.report(asset, "under-attack")
    world.write()
    run(clock)
    assert [mail["Subject"] for mail in mails.mails] == ["a under attack"]


# ---- nothing twice, nothing old -----------------------------------------------------------------


def test_a_replay_of_the_same_changes_sends_nothing_again(
    world: World, mails: MailServer, clock: Clock
):
    rule(channel("mail", "soc@example.org"))
    world.report("shop", "under-attack")
    world.write()
    run(clock)
    [event] = IncidentEvent.objects.all()
    Incident.objects.all().delete()
    ingest_incidents([change_of(event)], clock())
    run(clock, HOUR_MS)
    assert len(mails.mails) == 1
    assert IncidentEvent.objects.count() == 1


def change_of(event: IncidentEvent) -> IncidentChange:
    """What the recorder of incidents said of an event."""
    return IncidentChange(
        event.kind, event.scenario, event.asset, event.place, event.at, event.incident,
        event.began_at, event.state, event.worst,
    )  # fmt: skip


def old_event(asset: str, clock: Clock, *, ended: bool) -> Incident:
    """An incident of an hour ago that is stored only now."""
    at = clock() - HOUR_MS
    row = Incident.objects.create(
        scenario="attack", asset=asset, place=f"{asset}-1", began_at=at, state="under-attack",
        worst="under-attack", ended_at=at + MINUTE_MS if ended else None,
    )  # fmt: skip
    begun = IncidentChange(
        "begun", "attack", asset, row.place, at, row.place, at, row.state, row.worst
    )
    ingest_incidents([begun], clock())
    return row


def test_old_history_is_not_sent_and_says_so(mails: MailServer, clock: Clock):
    rule(channel("mail", "soc@example.org"))
    old_event("past", clock, ended=True)
    run(clock, SETTLED_MS + 1)
    assert not mails.mails
    assert IncidentEvent.objects.get().outcome == decisions.REPLAYED
    assert count_of("notification", decisions.REPLAYED) == 1


def test_what_goes_on_still_is_told_though_it_came_late(mails: MailServer, clock: Clock):
    rule(channel("mail", "soc@example.org"))
    old_event("shop", clock, ended=False)
    run(clock, SETTLED_MS - MINUTE_MS)
    assert not mails.mails
    run(clock, MINUTE_MS + 1)
    assert [mail["Subject"] for mail in mails.mails] == ["shop under attack"]


@pytest.mark.parametrize("found_again", [True, False])
def test_what_a_rebuild_loses_ends_unless_it_is_found_again(
    mails: MailServer, clock: Clock, found_again: bool
):
    rule(channel("mail", "soc@example.org"))
    row = old_event("shop", clock, ended=False)
    run(clock, SETTLED_MS + 1)
    begun = change_of(IncidentEvent.objects.get())
    ingest_incidents([begun._replace(kind="withdrawn", state="")], clock())
    if not found_again:
        Incident.objects.filter(pk=row.pk).update(ended_at=row.began_at)
    run(clock, LATE_MS + 1)
    assert kinds() == (["opened"] if found_again else ["opened", "resolved"])


# ---- stages, acknowledgements, rotas ------------------------------------------------------------


def test_who_is_on_call_is_told_where_nobody_acknowledges(
    world: World, mails: MailServer, clock: Clock
):
    rota = make_rota()
    now = now_ms()
    put_on_call(rota, "nina", now, now + HOUR_MS)
    first = channel("mail", "soc@example.org")
    rule(stages=[{"channels": [first.pk]}, {"after_ms": 10 * MINUTE_MS, "rotas": [rota.pk]}])
    world.report("shop", "under-attack")
    world.write()
    run(clock)
    run(clock, 10 * MINUTE_MS)
    assert mails.recipients == ["soc@example.org", "nina@example.org"]
    assert mails.mails[-1]["Subject"] == "Not acknowledged: shop under attack"
    assert "stage 2 of 2, on call in Night" in Message.objects.get(kind="escalated").why


def test_an_acknowledgement_stops_the_stages(
    world: World, mails: MailServer, clock: Clock, user: User
):
    first = channel("mail", "soc@example.org")
    rule(stages=[{"channels": [first.pk]}, {"after_ms": 10 * MINUTE_MS, "channels": [first.pk]}])
    world.report("shop", "under-attack")
    world.write()
    run(clock)
    Group.objects.update(next_at=None)
    attack = scenarios()["attack"]
    acknowledgements.acknowledge(attack, ["shop"], user, "", now_ms() + HOUR_MS, now_ms())
    assert Group.objects.get().next_at is not None
    run(clock, 20 * MINUTE_MS)
    assert kinds() == ["opened"]
    assert Group.objects.get().acknowledged_at is not None
    acknowledgements.take_back(attack, ["shop"], user, now_ms())
    run(clock)
    run(clock, 10 * MINUTE_MS)
    assert kinds() == ["opened", "escalated"]


def test_overrides_win_and_nobody_on_call_is_said(world: World, mails: MailServer, clock: Clock):
    rota, now = make_rota(), now_ms()
    assert rota.on_call(now) is None
    rule(stages=[{"rotas": [rota.pk]}])
    world.report("shop", "under-attack")
    world.write()
    run(clock)
    [message] = Message.objects.all()
    assert (message.status, message.reason[:18]) == (HELD, "nobody is on call ")
    put_on_call(rota, "nina", now, now + HOUR_MS, written_at=5)
    omar = put_on_call(rota, "omar", now, now + HOUR_MS, override=True)
    assert rota.on_call(now) == omar
    User.objects.filter(pk=omar.pk).update(is_active=False)
    assert rota.on_call(now).username == "nina"  # type: ignore[union-attr]
    assert rota.on_call(now + HOUR_MS) is None


def test_a_maintenance_window_holds_messages_back(world: World, mails: MailServer, clock: Clock):
    rule(channel("mail", "soc@example.org"))
    now = now_ms()
    window = Window.objects.create(
        name="work", scenario="attack", covers=ALL, begin=now - HOUR_MS, end=now + HOUR_MS,
        planned_end=now + HOUR_MS, created_at=1, username="olga",
    )  # fmt: skip
    world.report("shop", "under-attack")
    world.write()
    run(clock)
    run(clock, 2 * MINUTE_MS)
    assert not mails.mails
    Window.objects.filter(pk=window.pk).update(cancelled_at=now)
    run(clock, 2 * MINUTE_MS)
    assert len(mails.mails) == 1


def test_a_rule_that_is_retired_ends_its_groups(world: World, mails: MailServer, clock: Clock):
    row = rule(channel("mail", "soc@example.org"))
    world.report("shop", "under-attack")
    world.write()
    run(clock)
    row.retire(now_ms())
    world.report("other", "under-attack")
    world.write()
    run(clock)
    group = Group.objects.get()
    assert (group.closed_at is not None, group.reason) == (True, RULE_OFF)
    assert len(mails.mails) == 1


@pytest.fixture
def paused(world: World, mails: MailServer, clock: Clock) -> Rule:
    """A rule of two stages and reminders that was switched off after it told of an attack."""
    soc = channel("mail", "soc@example.org")
    stages = [{"channels": [soc.pk]}, {"after_ms": MINUTE_MS, "channels": [soc.pk]}]
    row = rule(stages=stages, repeat_ms=5 * MINUTE_MS)
    world.report("shop", "under-attack")
    world.write()
    run(clock)
    assert kinds() == ["opened"]
    row.switch(enabled=False, now=now_ms())
    return row


def test_a_rule_that_was_switched_off_goes_on_with_what_goes_on(
    world: World, paused: Rule, clock: Clock
):
    run(clock, 3 * MINUTE_MS)
    assert kinds() == ["opened", "escalated"]
    assert Message.objects.get(kind="escalated").status == WAITING
    paused.switch(enabled=True, now=now_ms())
    run(clock)
    assert [each.status for each in Message.objects.filter(kind="escalated")].count(SENT) == 1
    run(clock, 6 * MINUTE_MS)
    assert Message.objects.filter(kind="reminder", status=SENT).count() == 1
    calm(world, "shop")
    run(clock)
    assert Message.objects.filter(kind="resolved", status=SENT).count() == 1


def test_the_end_of_what_was_told_is_told_once_the_rule_is_on_again(
    world: World, paused: Rule, clock: Clock
):
    calm(world, "shop")
    run(clock)
    assert Message.objects.filter(status=SENT).count() == 1
    paused.switch(enabled=True, now=now_ms())
    run(clock)
    assert Message.objects.filter(kind="resolved", status=SENT).count() == 1


def test_of_what_began_meanwhile_that_which_goes_on_is_told(
    world: World, paused: Rule, clock: Clock
):
    for asset in ("forum", "login"):
        world.report(asset, "under-attack")
    world.write()
    run(clock)
    calm(world, "login")
    run(clock)
    paused.switch(enabled=True, now=now_ms())
    run(clock)
    run(clock, 2 * MINUTE_MS)
    told = " ".join(Message.objects.filter(status=SENT).values_list("text", flat=True))
    assert "forum" in told
    assert "login" not in told


def test_a_rule_that_cannot_be_read_hinders_no_other(world: World, mails: MailServer, clock: Clock):
    mail = channel("mail", "soc@example.org")
    rule(mail, name="broken", most=0)
    rule(mail, name="whole")
    world.report("shop", "under-attack")
    world.write()
    run(clock)
    assert len(mails.mails) == 1


# ---- delivery -----------------------------------------------------------------------------------


def letter(target: Recipient, n: int = 1, **more: Any) -> Message:
    return outbox.put(target, MessageDraft("test", f"message {n}", "text", **more), now_ms())


def test_what_is_in_the_outbox_goes_out_though_the_rules_cannot_be_shown_what_happened(
    hooks: HookServer, monkeypatch: pytest.MonkeyPatch
):
    letter(Recipient("webhook", hooks.url, channel("webhook", hooks.url)))
    monkeypatch.setattr(decisions, "_happened", 0)
    monkeypatch.setattr(tasks, "STEPS", (decisions.decide, deliver))
    with pytest.raises(ExceptionGroup, match="notifications"):
        tasks.carry_on()
    assert [each.status for each in Message.objects.all()] == [SENT]


def test_one_key_is_one_message():
    target = Recipient("mail", "a@example.org")
    first = outbox.put(target, MessageDraft("digest", "one", "text"), 1, dedupe="week-7")
    again = outbox.put(target, MessageDraft("digest", "two", "text"), 2, dedupe="week-7")
    assert (again.pk, again.subject) == (first.pk, "one")


def test_without_a_mail_server_mails_are_held_and_go_once_there_is_one(allowed: Any, clock: Clock):
    message = letter(Recipient("mail", "a@example.org"))
    run(clock)
    run(clock, MINUTE_MS)
    message.refresh_from_db()
    assert (message.status, message.reason, message.tries) == (HELD, NO_SERVER, 0)
    assert not Attempt.objects.exists()
    assert count_of("message", NO_SERVER) == 1
    with mail_server() as server:
        update = {"smtp_host": "127.0.0.1", "smtp_port": server.port, "smtp_tls": "none"}
        allowed.TALLYBOARD = allowed.TALLYBOARD.model_copy(update=update)
        run(clock, MINUTE_MS)
        assert server.recipients == ["a@example.org"]
    message.refresh_from_db()
    assert (message.status, message.reason) == (SENT, "")


def test_a_webhook_is_signed_and_keeps_its_id_in_every_try(hooks: HookServer, clock: Clock):
    hooks.status, hooks.text = 503, b"come back later"
    [target] = outbox.targets_of_channel(channel("webhook", hooks.url))
    message = letter(target, payload={"kind": "test"})
    run(clock)
    message.refresh_from_db()
    assert (message.status, message.reason) == (FAILED, "503 come back later")
    hooks.status = 200
    run(clock, 6_000)
    first, second = hooks.posted
    for posted in (first, second):
        name, at = posted.headers["Webhook-Id"], posted.headers["Webhook-Timestamp"]
        assert name == posted.headers["Idempotency-Key"] == str(message.pk)
        key = base64.b64decode(SECRET.removeprefix("whsec_"))
        expected = hmac.new(key, f"{name}.{at}.".encode() + posted.body, hashlib.sha256).digest()
        assert posted.headers["Webhook-Signature"] == f"v1,{base64.b64encode(expected).decode()}"
    assert first.body == second.body
    assert json.loads(first.body)["data"] == {"kind": "test"}
    tries = Attempt.objects.filter(message=message).order_by("number")
    assert [(each.number, each.succeeded) for each in tries] == [(1, False), (2, True)]


def change(hooks: HookServer, clock: Clock) -> list[tuple[str, ...]]:
    """Deliver; return what was posted: what was done, by whom, with which text."""
    run(clock)
    posted = [json.loads(each.body) for each in hooks.posted]
    hooks.posted.clear()
    assert {each["type"] for each in posted} <= {"notification.changed"}
    keys = ("change", "by", "text")
    return sorted(tuple(each["data"][key] for key in keys) for each in posted)


@pytest.fixture
def case(hooks: HookServer) -> Case:
    """An incident of two sites, and a webhook that is sent what people do to it."""
    channel("webhook", hooks.url, changes=True)
    channel("webhook", hooks.url, name="rules alone")
    channel("webhook", hooks.url, name="off", changes=True, enabled=False)
    made: Case = Case.objects.create(scenario="attack", began_at=now_ms())
    for asset in ("bank", "shop"):
        show("attack", asset, "under-attack")
        Incident.objects.create(
            scenario="attack", asset=asset, place="1", began_at=now_ms(), state="under-attack",
            worst="under-attack", case=made,
        )  # fmt: skip
    return made


def test_of_changes_at_once_none_is_lost(
    case: Case, hooks: HookServer, clock: Clock, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(outbox, "new_id", uuid.UUID)  # none sees the other's message
    channel("webhook", hooks.url, name="another", changes=True)
    ada = make_user("operator")
    cases.write_note(case, ada, "called", clock())
    cases.write_note(case, ada, "again", clock())
    again, called = ("note", "operator", "again"), ("note", "operator", "called")
    assert change(hooks, clock) == [again, again, called, called]
    assert len(set(Message.objects.values_list("thread", flat=True))) == 1


def test_what_people_do_to_an_incident_is_posted(case: Case, hooks: HookServer, clock: Clock):
    ada = make_user("operator")
    make_user("admin")
    assert cases.acknowledge(case, ada, "", now_ms() + HOUR_MS, now_ms()) == 2
    assert change(hooks, clock) == [("acknowledged", "operator", "")]
    cases.acknowledge(case, ada, "again", now_ms() + HOUR_MS, now_ms())
    assert not change(hooks, clock), "it was acknowledged already"
    cases.hand_over(case, ada, "admin", "I go", clock())
    cases.set_ticket(case, ada, "SOC-7", clock())
    cases.write_note(case, ada, "called", clock())
    cases.note_closed_ticket("SOC-7", ada, "", clock())
    assert change(hooks, clock) == [
        ("closed", "operator", "SOC-7"), ("note", "operator", "called"),
        ("owner", "operator", "admin: I go"), ("ticket", "operator", "SOC-7"),
    ]  # fmt: skip
    own = cases.split(case, ada, ["shop"], clock())
    words = f"{own.number} off {case.number}"
    assert change(hooks, clock) == [("split", "operator", words), ("split", "operator", words)]
    cases.merge(own, ada, case, clock())
    cases.resolve(case, ada, "", clock())
    cases.reopen(case, ada, "", clock())
    assert [kind for kind, *_ in change(hooks, clock)] == ["merged", "reopened", "resolved"]


def test_a_change_is_signed_tried_again_and_says_how_the_incident_is(
    case: Case, hooks: HookServer, clock: Clock
):
    hooks.status = 503
    until, user = now_ms() + HOUR_MS, make_user("operator")
    acknowledgements.acknowledge(scenarios()["attack"], ["bank"], user, "", until, now_ms())
    assert change(hooks, clock) == [("acknowledged", "operator", "")]
    hooks.status = 200
    run(clock, 6_000)
    [posted] = hooks.posted
    data = json.loads(posted.body)["data"]
    assert (data["number"], data["numbers"][case.number]["status"]) == (case.number, "acknowledged")
    assert data["numbers"][case.number]["owner"] == "operator"
    name, at = posted.headers["Webhook-Id"], posted.headers["Webhook-Timestamp"]
    key = base64.b64decode(SECRET.removeprefix("whsec_"))
    expected = hmac.new(key, f"{name}.{at}.".encode() + posted.body, hashlib.sha256).digest()
    assert posted.headers["Webhook-Signature"] == f"v1,{base64.b64encode(expected).decode()}"
    assert Message.objects.get().status == SENT


def test_what_is_refused_or_rolled_back_is_not_posted(case: Case, hooks: HookServer, clock: Clock):
    ada = make_user("operator")
    with pytest.raises(cases.CaseRefused):
        cases.merge(case, ada, case, clock())
    with transaction.atomic():
        cases.set_ticket(case, ada, "SOC-7", clock())
        transaction.set_rollback(True)
    assert not change(hooks, clock)
    assert not Message.objects.exists()


def test_a_receiver_that_is_down_gets_its_messages_once_it_is_up(allowed: Any, clock: Clock):
    with hook_server() as gone:
        port = gone.port
    [target] = outbox.targets_of_channel(channel("webhook", f"http://127.0.0.1:{port}/hook"))
    messages = [letter(target, n) for n in range(3)]
    for _ in range(4):
        run(clock, MINUTE_MS)
    assert set(Message.objects.values_list("status", flat=True)) <= {FAILED, "queued"}
    with hook_server(port) as back:
        run(clock, 20 * MINUTE_MS)
        assert {p.headers["Webhook-Id"] for p in back.posted} == {str(m.pk) for m in messages}
    assert set(Message.objects.values_list("status", flat=True)) == {SENT}


def test_tries_pause_twice_as_long_each_time_and_come_to_an_end(hooks: HookServer, clock: Clock):
    hooks.status = 500
    [target] = outbox.targets_of_channel(channel("webhook", hooks.url))
    message = letter(target)
    pauses = []
    while message.status != GIVEN_UP:
        run(clock)
        message.refresh_from_db()
        pauses.append(message.next_at - clock())
        clock.later(max(0, pauses[-1]) + 1)
    assert [round(pause / 1000) for pause in pauses[:4]] == [5, 10, 20, 40]
    assert max(pauses) <= 600_000
    assert message.reason.startswith(delivery.EXPIRED)
    assert len(hooks.posted) == message.tries


def test_a_receiver_that_wants_no_more_is_not_asked_again(hooks: HookServer, clock: Clock):
    hooks.status = 410
    [target] = outbox.targets_of_channel(channel("webhook", hooks.url))
    letter(target)
    run(clock)
    run(clock, HOUR_MS)
    assert (len(hooks.posted), Message.objects.get().status) == (1, GIVEN_UP)


def test_a_redirect_is_not_followed_and_a_long_answer_is_cut(hooks: HookServer, clock: Clock):
    [target] = outbox.targets_of_channel(channel("webhook", hooks.url))
    hooks.status, hooks.headers = 302, {"Location": hooks.url + "/elsewhere"}
    hooks.text = b"x" * 100_000
    letter(target)
    run(clock)
    assert [posted.path for posted in hooks.posted] == ["/hook"]
    assert len(Attempt.objects.get().answer) <= 500


def test_addresses_of_private_networks_are_refused_unless_allowed(
    hooks: HookServer, allowed: Any, clock: Clock
):
    allowed.TALLYBOARD = allowed.TALLYBOARD.model_copy(update={"private_targets": False})
    [target] = outbox.targets_of_channel(channel("webhook", hooks.url))
    letter(target)
    run(clock)
    message = Message.objects.get()
    assert message.status == GIVEN_UP
    assert "private network" in message.reason
    assert not hooks.posted


def test_a_mail_that_the_server_refuses_is_tried_again_or_not(mails: MailServer, clock: Clock):
    mails.answer = "451 later"
    later = letter(Recipient("mail", "a@example.org"))
    run(clock)
    mails.answer = "550 no such thing"
    never = letter(Recipient("mail", "b@example.org"))
    run(clock)
    later.refresh_from_db()
    never.refresh_from_db()
    assert (later.status, later.reason) == (FAILED, "451 later")
    assert (never.status, never.reason) == (GIVEN_UP, "550 no such thing")


def test_over_a_channels_limit_one_summary_tells_of_the_rest(hooks: HookServer, clock: Clock):
    hook = channel("webhook", hooks.url, most=3)
    [target] = outbox.targets_of_channel(hook)
    for n in range(10):
        letter(target, n)
    run(clock)
    subjects = [json.loads(posted.body)["subject"] for posted in hooks.posted]
    assert len(subjects) == 3
    assert subjects[-1] == "8 messages in one"
    assert Message.objects.filter(status=NOT_SENT, reason=delivery.MERGED).count() == 8
    letter(target, 11)
    run(clock)
    waiting = Message.objects.get(status=HELD)
    assert waiting.reason == delivery.LIMITED
    run(clock, HOUR_MS + 1_000)
    assert len(hooks.posted) == 4


@pytest.mark.parametrize(
    ("kind", "occasion", "awaited"),
    [("unreached", "", False), ("resolved", "o", False), ("opened", "o", True)],
)
def test_a_summary_is_awaited_if_a_message_in_it_was(
    hooks: HookServer, clock: Clock, kind: str, occasion: str, awaited: bool
):
    [target] = outbox.targets_of_channel(channel("webhook", hooks.url, most=1))
    for n in range(2):
        outbox.put(target, MessageDraft(kind, f"{n}", "text", occasion=occasion), clock())
    run(clock)
    assert bool(Message.objects.get(kind="summary").occasion) is awaited


def test_what_is_queued_for_a_channel_that_is_switched_off_is_not_sent(
    hooks: HookServer, clock: Clock
):
    hook = channel("webhook", hooks.url)
    letter(outbox.targets_of_channel(hook)[0])
    Channel.objects.update(enabled=False)
    run(clock)
    assert not hooks.posted
    message = Message.objects.get()
    assert (message.status, message.reason) == (NOT_SENT, "the channel is switched off")


def test_a_worker_killed_after_the_answer_leaves_a_duplicate_of_the_same_id(
    hooks: HookServer, clock: Clock, monkeypatch: pytest.MonkeyPatch
):
    [target] = outbox.targets_of_channel(channel("webhook", hooks.url))
    message = letter(target)

    def killed(*_: Any) -> None:
        raise SystemExit

    with monkeypatch.context() as patch:
        patch.setattr(DeliveryAttempt, "_store_sent", killed)
        with pytest.raises(SystemExit):
            run(clock)
    message.refresh_from_db()
    assert message.status == SENDING
    run(clock, delivery.LEASE_MS - 10_000)
    assert len(hooks.posted) == 1  # the lease still runs
    run(clock, 11_000)
    assert [posted.headers["Webhook-Id"] for posted in hooks.posted] == [str(message.pk)] * 2
    message.refresh_from_db()
    assert (message.status, message.tries) == (SENT, 2)
    assert Attempt.objects.get(number=1).ms is None


def test_two_workers_never_try_one_message_at_once(hooks: HookServer, clock: Clock):
    [target] = outbox.targets_of_channel(channel("webhook", hooks.url))
    message = letter(target)
    first, second = DeliveryAttempt(message, clock), DeliveryAttempt(message, clock)
    assert [first.claim(), second.claim()] == [True, False]


def test_a_claim_is_one_conditional_update(hooks: HookServer, clock: Clock):
    """PostgreSQL does not look again at a subquery when it has waited for the row."""
    message = letter(outbox.targets_of_channel(channel("webhook", hooks.url))[0])
    with CaptureQueriesContext(connection) as queries:
        DeliveryAttempt(message, clock).claim()
    updates = [each["sql"] for each in queries if each["sql"].startswith("UPDATE")]
    assert len(updates) == 1
    assert "SELECT" not in updates[0]


def test_a_message_that_makes_no_mail_is_given_up(mails: MailServer, clock: Clock):
    letter(Recipient("mail", "a@example.org"), headers={"X-Bad": "one\ntwo"})
    run(clock)
    assert Message.objects.get().status == GIVEN_UP
    assert not mails.mails


def test_a_login_that_the_server_refuses_is_tried_again(
    mails: MailServer, allowed: Any, clock: Clock
):
    update = {"smtp_user": "me", "smtp_password": SecretStr("wrong")}
    allowed.TALLYBOARD = allowed.TALLYBOARD.model_copy(update=update)
    letter(Recipient("mail", "a@example.org"))
    run(clock)
    message = Message.objects.get()
    assert message.status == FAILED
    assert "wrong" not in message.reason


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/#soc", ""),
        ("json://127.0.0.1/x", "expected one of the allowed services; json is not one"),
        ("nonsense", "expected a URL from"),
        ("", "expected a URL from"),
    ],
)
def test_a_chat_url_is_checked(url: str, problem: str):
    said = ChatKind().problem("", url)
    assert said.startswith(problem)
    assert bool(said) is bool(problem)


def test_what_is_shown_of_a_chat_url_has_no_secret():
    url = "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/#soc"
    assert "TIiajkdnlazkcOXrIdevi7FQ" not in ChatKind().shown("", url)


def test_a_chat_service_at_home_is_reached_where_that_is_allowed(
    hooks: HookServer, allowed: Any, clock: Clock
):
    hooks.text = b"ok"
    url = f"mmost://127.0.0.1:{hooks.port}/3ccdd113474722377935511fc85d3dd4"
    [target] = outbox.targets_of_channel(channel("chat", "mattermost", secret=seal(url)))
    message = letter(target)
    run(clock)
    message.refresh_from_db()
    assert (message.status, len(hooks.posted)) == (SENT, 1)
    allowed.TALLYBOARD = allowed.TALLYBOARD.model_copy(update={"private_targets": False})
    letter(target, 2)
    run(clock)
    assert len(hooks.posted) == 1
    assert Message.objects.filter(status=GIVEN_UP).count() == 1


# ---- preview -----------------------------------------------------------------------------------


def test_a_preview_says_what_was_sent(world: World, mails: MailServer, clock: Clock, user: User):
    """The same rule, on the history that it has lived through."""
    mail = channel("mail", "soc@example.org", name="SOC")
    stages = [{"channels": [mail.pk]}, {"after_ms": 10 * MINUTE_MS, "channels": [mail.pk]}]
    row = rule(stages=stages, window_ms=30_000)
    begun = now_ms()
    for asset, state in (("a", "under-attack"), ("b", "suspicious")):
        world.report(asset, state)
    world.write()
    for _ in range(30):
        run(clock, 30_000)
    calm(world, "a", "b")
    run(clock, 31_000)
    live = Message.objects.order_by("created_at")
    assert kinds() == ["opened", "escalated", "resolved"]
    Incident.objects.update(ended_at=begun + 16 * MINUTE_MS)  # by the clock that live messages had
    shown = preview(rule_from_plain(row.definition), begun - HOUR_MS, clock() + HOUR_MS)
    *previewed, end = [(each.kind, each.subject) for each in shown.messages]
    assert previewed == [(each.kind, each.subject) for each in live[:2]]
    assert end[0] == "resolved"
    assert re.fullmatch(r"Over: 2 sites, 1[56] min \(were under attack, suspicious\)", end[1])
    assert shown.messages[0].targets == ["SOC"]
    assert (shown.incidents, shown.is_cut, shown.held) == (2, False, [])


def test_a_preview_looks_at_acknowledgements_and_says_what_is_held(world: World, user: User):
    mail = channel("mail", "soc@example.org")
    night = {"zone": "UTC", "begin": "00:00", "end": "24:00"}
    stages = [{"channels": [mail.pk]}, {"after_ms": MINUTE_MS, "channels": [mail.pk]}]
    plain = {"stages": stages, "window_ms": 0}
    world.report("shop", "under-attack")
    world.write()
    begun, until = now_ms() - HOUR_MS, now_ms() + HOUR_MS // 2
    escalated = preview(rule_from_plain(plain), begun, until)
    assert [each.kind for each in escalated.messages] == ["opened", "escalated"]
    acknowledgements.acknowledge(
        scenarios()["attack"], ["shop"], user, "", now_ms() + 5 * HOUR_MS, now_ms()
    )
    in_hand = preview(rule_from_plain(plain), begun, until)
    assert [each.kind for each in in_hand.messages] == ["opened"]
    quiet = preview(rule_from_plain(plain | {"quiet": night}), begun, until)
    [waits, *_] = quiet.held
    assert quiet.messages == []
    assert waits.reason.startswith(f"{REASONS[QUIET]}, until 2")
    assert (waits.subject, waits.incidents) == (escalated.messages[0].subject, 1)
    assert "shop (Attacks): Under attack since" in waits.text


# ---- waiting -----------------------------------------------------------------------------------


def test_what_waits_for_quiet_hours_has_its_words_and_ends_once_they_are_sent(
    world: World, mails: MailServer, clock: Clock
):
    quiet = {"zone": "UTC", "begin": "00:00", "end": "24:00", "exempt": "under-attack"}
    row = rule(channel("mail", "soc@example.org"), quiet=quiet)
    world.report("shop", "suspicious")
    world.write()
    run(clock)
    waiting = Message.objects.get()
    assert (waiting.status, waiting.rule, waiting.kind) == (WAITING, row, "opened")
    assert waiting.reason.startswith(f"{REASONS[QUIET]}, until 2")
    assert waiting.subject == "shop suspicious"
    assert "- shop (Attacks): Suspicious since" in waiting.text
    world.report("forum", "suspicious")
    world.write()
    run(clock)
    waiting.refresh_from_db()
    assert waiting.subject == "2 sites suspicious"
    assert (Message.objects.count(), count_of("notification", QUIET)) == (1, 1)
    world.report("shop", "under-attack")
    world.write()
    run(clock)
    waiting.refresh_from_db()
    assert (waiting.status, waiting.reason) == (NOT_SENT, WAITED)
    assert len(mails.mails) == 1


def test_what_waits_while_its_rule_is_switched_off_waits_again_afterwards(
    world: World, mails: MailServer, clock: Clock
):
    night = {"zone": "UTC", "begin": "00:00", "end": "24:00"}
    row = rule(channel("mail", "soc@example.org"), quiet=night)
    world.report("shop", "under-attack")
    world.write()
    run(clock)
    row.switch(enabled=False, now=now_ms())
    world.report("forum", "under-attack")
    world.write()
    run(clock)
    [ended] = Message.objects.all()
    assert (ended.status, ended.reason) == (NOT_SENT, REASONS[PAUSED])
    row.switch(enabled=True, now=now_ms())
    run(clock)
    assert Message.objects.filter(status=WAITING).count() == 1, "it waits for the quiet hours again"
    assert mails.mails == []


def attack_that_waits(world: World, clock: Clock, **definition: Any) -> Message:
    """An attack that was sent, whose second stage waits for the end of quiet hours."""
    soc = channel("mail", "soc@example.org")
    stages = [{"channels": [soc.pk]}, {"after_ms": 10 * MINUTE_MS, "channels": [soc.pk]}]
    row = rule(stages=stages, **definition)
    world.report("shop", "under-attack")
    world.write()
    run(clock)
    quiet = {"zone": "UTC", "begin": "00:00", "end": "24:00"}
    Rule.objects.filter(pk=row.pk).update(definition=row.definition | {"quiet": quiet})
    run(clock, 11 * MINUTE_MS)
    return Message.objects.get(status=WAITING, kind="escalated")


def test_what_waits_ends_once_somebody_has_it_in_hand(
    world: World, mails: MailServer, clock: Clock, user: User
):
    waiting = attack_that_waits(world, clock)
    until = clock() + 5 * HOUR_MS
    acknowledgements.acknowledge(scenarios()["attack"], ["shop"], user, "", until, clock())
    run(clock, MINUTE_MS)
    waiting.refresh_from_db()
    assert (waiting.status, waiting.reason) == (NOT_SENT, NOTHING_LEFT)
    assert Group.objects.get().reason == ""


def test_what_waits_and_is_over_says_so_where_no_end_is_sent(
    world: World, mails: MailServer, clock: Clock
):
    waiting = attack_that_waits(world, clock, resolved=False)
    calm(world, "shop")
    run(clock, 6 * MINUTE_MS)
    waiting.refresh_from_db()
    assert Group.objects.get().closed_at is not None
    assert (waiting.status, waiting.reason) == (NOT_SENT, OVER_BEFORE)


# ---- faults of the database ------------------------------------------------------------------


def test_a_connection_that_is_cut_while_rules_decide_leaves_nothing_and_loses_nothing(
    world: World, mails: MailServer, clock: Clock, monkeypatch: pytest.MonkeyPatch
):
    rule(channel("mail", "soc@example.org"))
    world.report("shop", "under-attack")
    world.write()
    with monkeypatch.context() as patch:
        patch.setattr(decisions, "_record_handled", cut)
        with pytest.raises(OperationalError):
            run(clock)
    assert (Message.objects.count(), Group.objects.count()) == (0, 0)
    run(clock)
    run(clock, MINUTE_MS)
    assert len(mails.mails) == 1


def cut(*_: Any, **__: Any) -> None:
    raise OperationalError("the connection is gone")


def test_a_connection_that_is_cut_after_the_answer_makes_a_duplicate_of_the_same_id(
    mails: MailServer, clock: Clock, monkeypatch: pytest.MonkeyPatch
):
    letter(Recipient("mail", "a@example.org"))
    with monkeypatch.context() as patch:
        patch.setattr(DeliveryAttempt, "_update", cut)
        with pytest.raises(OperationalError):
            run(clock)
    run(clock, delivery.LEASE_MS + 1)
    first, again = mails.mails
    assert first["Message-ID"] == again["Message-ID"]
    assert Message.objects.get().status == SENT


# ---- figures -----------------------------------------------------------------------------------


def test_metrics_count_what_was_decided_and_what_became_of_it(
    world: World, hooks: HookServer, clock: Clock, client: Client
):
    hooks.status = 500
    rule(channel("webhook", hooks.url))
    world.report("shop", "under-attack")
    world.write()
    run(clock)
    text = client.get("/metrics").content.decode()
    for line in (
        'tallyboard_notification_decisions_total{decision="opened"} 1.0',
        'tallyboard_message_outcomes_total{outcome="failed"} 1.0',
        'tallyboard_messages{means="webhook",status="failed"} 1.0',
    ):
        assert line in text
    assert "tallyboard_messages_oldest_seconds" in text


def test_a_stage_whose_channel_is_retired_says_so(world: World, hooks: HookServer, clock: Clock):
    hook = channel("webhook", hooks.url)
    rule(hook)
    Channel.objects.filter(pk=hook.pk).update(retired_at=1)
    world.report("shop", "under-attack")
    world.write()
    run(clock)
    message = Message.objects.get()
    assert (message.status, message.recipient) == (NOT_SENT, "webhook")
    assert message.reason.startswith("the channel or the rota is retired")
    assert not hooks.posted


# ---- secrets -----------------------------------------------------------------------------------


def test_secrets_of_channels_are_sealed_again(allowed: Any):
    own = channel("webhook", "https://example.org/hook")
    assert SECRET not in own.secret
    old = allowed.TALLYBOARD.sealing_keys()
    keys = [token_urlsafe(40), *old]
    allowed.TALLYBOARD = allowed.TALLYBOARD.model_copy(
        update={"data_keys": SecretStr(",".join(keys))}
    )
    call_command("reseal", stdout=StringIO())
    allowed.TALLYBOARD = allowed.TALLYBOARD.model_copy(update={"data_keys": SecretStr(keys[0])})
    own.refresh_from_db()
    assert unseal(own.secret) == SECRET
    other = SecretStr(token_urlsafe(40))
    allowed.TALLYBOARD = allowed.TALLYBOARD.model_copy(update={"data_keys": other})
    with pytest.raises(CommandError, match="No key opens the channel webhook"):
        call_command("reseal")


# ---- retention ----------------------------------------------------------------------------------


def test_messages_are_kept_by_scenario_and_those_of_several_for_the_default(clock: Clock):
    for scenario in ("attack", "orders", ""):
        letter(Recipient("mail", "a@example.org"), scenario=scenario)
    Message.objects.update(status=SENT, ended_at=0)
    [messages] = [each for each in KEPT if each.model is Message]
    own = {"attack": 10 * DAY_MS, "orders": 365 * DAY_MS}
    for day, left in ((11, ["", "orders"]), (91, ["orders"]), (366, [])):
        messages.apply(day * DAY_MS, own)
        assert sorted(Message.objects.values_list("scenario", flat=True)) == left, day


def test_a_message_knows_the_scenario_that_it_tells_of(world: World, clock: Clock):
    rota = make_rota()
    mail = channel("mail", "soc@example.org")
    both = {"group_by": ["customer"], "window_ms": 1_000}
    rule(mail, name="one")
    rule(mail, name="several", **both)
    rule(name="nobody", stages=[{"rotas": [rota.pk]}])
    world.report("shop", "under-attack")
    world.report("dc-1", "down", scenario="connectivity")
    world.write()
    world.later(5 * MINUTE_MS)
    world.write()
    run(clock)
    run(clock, 6 * MINUTE_MS)
    pairs = Message.objects.values_list("rule__name", "scenario").distinct()
    assert set(pairs) == {
        ("one", "attack"), ("one", "connectivity"), ("several", ""),
        ("nobody", "attack"), ("nobody", "connectivity"),
    }  # fmt: skip


def test_old_messages_go_with_their_tries_and_what_is_open_stays(clock: Clock):
    old = letter(Recipient("mail", "a@example.org"))
    Attempt.objects.create(message=old, number=1, at=1)
    Message.objects.update(status=SENT, ended_at=1)
    open_one = letter(Recipient("mail", "b@example.org"))
    at = EVENTS_KEPT_MS + KEPT_MS
    assert sum(each.apply(at) for each in KEPT) == 1
    assert [message.pk for message in Message.objects.all()] == [open_one.pk]
    assert not Attempt.objects.exists()
