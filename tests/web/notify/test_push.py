"""Web Push: browsers subscribed on the account's page, messages that they alone can read."""

from __future__ import annotations

import stat
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from pathlib import Path

import http_ece
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client
from pydantic import SecretStr

from dashboard.core.audit.models import AuditEntry
from dashboard.core.common.outbound import AddressRefused
from dashboard.core.common.times import now_ms
from dashboard.notify.notifications import push
from dashboard.notify.notifications.channels import Undelivered
from dashboard.notify.notifications.models import (
    Group,
    GroupIncident,
    Message,
    PushSubscription,
    Rule,
)
from dashboard.notify.notifications.push import PushKind, page_of
from dashboard.watch.incidents.models import Case, Incident
from support.web.push_service import Browser, PushService, checked_claims, push_service
from support.web.web_fixtures import forget_limits, logged_in, make_user

pytestmark = pytest.mark.django_db

PAGE = "/account/notifications/"
ELSEWHERE = "https://push.example.org/abc"


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[PushService]:
    """A push service on this machine, which the product may call."""
    allowed = settings.TALLYBOARD.model_copy(update={"private_targets": True})
    monkeypatch.setattr(settings, "TALLYBOARD", allowed)
    with push_service() as server:
        yield server


def subscribe(user: User, endpoint: str, browser: Browser | None = None) -> PushSubscription:
    keys = (browser or Browser()).subscription(endpoint)
    return push.subscribe(user, **keys, agent="Firefox/130 Linux", now=now_ms()).row


def message(user: User, **fields: object) -> Message:
    given = {"kind": "begun", "subject": "shop: Under attack", "text": "Since 14:03 UTC."} | fields
    return Message.objects.create(user=user, means="push", created_at=now_ms(), **given)


# ---- what is sent -----------------------------------------------------------------------------


def test_a_message_is_read_by_its_browser_alone_and_signed(service: PushService, user: User):
    browser = Browser()
    subscribe(user, f"{service.origin}/olga", browser)
    sent = message(user)
    assert PushKind().deliver(sent) == "accepted for 1 of 1 browsers"
    [came] = service.came
    assert browser.read(came.body) == {
        "title": "shop: Under attack",
        "body": "Since 14:03 UTC.",
        "tag": str(sent.pk),
        "url": "/incidents/",
    }
    with pytest.raises(http_ece.ECEException):
        Browser().read(came.body)
    assert checked_claims(came, push.public_key())["aud"] == service.origin
    assert came.headers["Topic"] == sent.pk.hex
    assert (came.headers["Content-Encoding"], came.path) == ("aes128gcm", "/olga")


def test_every_browser_of_the_user_gets_it_and_one_is_enough(service: PushService, user: User):
    subscribe(user, f"{service.origin}/phone")
    refusing = subscribe(user, "http://127.0.0.1:1/desk")
    subscribe(make_user("manager"), f"{service.origin}/other")
    assert PushKind().deliver(message(user)) == "accepted for 1 of 2 browsers"
    assert [came.path for came in service.came] == ["/phone"]
    refusing.refresh_from_db()
    assert refusing.failures == 1


@pytest.mark.parametrize("status", [404, 410])
def test_a_browser_that_is_gone_is_removed(service: PushService, user: User, status: int):
    subscribe(user, f"{service.origin}/gone")
    service.status = status
    with pytest.raises(Undelivered) as undelivered:
        PushKind().deliver(message(user))
    assert undelivered.value.final
    assert not PushSubscription.objects.exists()
    assert PushKind().recipient_of(user) == ""


@pytest.mark.parametrize("status", [400, 403, 413, 429, 500, 503, 302])
def test_one_that_is_refused_for_now_stays(service: PushService, user: User, status: int):
    row = subscribe(user, f"{service.origin}/busy")
    service.status = status
    with pytest.raises(Undelivered, match=str(status)) as undelivered:
        PushKind().deliver(message(user))
    assert not undelivered.value.final
    row.refresh_from_db()
    assert row.failures == 1
    service.status = 201
    PushKind().deliver(message(user))
    row.refresh_from_db()
    assert (row.failures, row.reached_at is None) == (0, False)


def test_a_long_message_still_fits(service: PushService, user: User):
    browser = Browser()
    subscribe(user, f"{service.origin}/olga", browser)
    PushKind().deliver(message(user, subject="\U0001f6a8" * 200, text="\U0001f6a8" * 5_000))
    [came] = service.came
    assert len(came.body) <= 4_096
    assert browser.read(came.body)["title"]


def test_our_own_network_is_not_called(user: User):
    row = subscribe(user, "http://127.0.0.1:8000/admin")
    with pytest.raises(AddressRefused):
        push.send(row, b"{}", "x")
    with pytest.raises(Undelivered, match="private network"):
        PushKind().deliver(message(user))


def test_nobody_who_is_deactivated_is_reached(service: PushService, user: User):
    subscribe(user, f"{service.origin}/olga")
    User.objects.filter(pk=user.pk).update(is_active=False)
    user.refresh_from_db()
    with pytest.raises(Undelivered):
        PushKind().deliver(message(user))
    assert service.came == []


def test_the_key_is_made_once_and_is_its_users_alone(user: User):
    assert push.public_key() == push.public_key()
    path = settings.TALLYBOARD.data_dir / push.FILE
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert b"PRIVATE KEY" in path.read_bytes()


def test_a_key_that_is_configured_signs_in_each_process(
    service: PushService, user: User, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    key = ec.generate_private_key(ec.SECP256R1())
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()).decode()
    update = {"push_key": SecretStr(pem.strip()), "data_dir": tmp_path / "own"}
    own_settings = settings.TALLYBOARD.model_copy(update=update)
    monkeypatch.setattr(settings, "TALLYBOARD", own_settings)
    subscribe(user, f"{service.origin}/olga")
    PushKind().deliver(message(user))
    [came] = service.came
    raw = key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
    own = urlsafe_b64encode(raw).decode().rstrip("=")
    assert push.public_key() == own
    assert checked_claims(came, own)["aud"] == service.origin
    assert not (tmp_path / "own").exists()


# ---- what a click opens -----------------------------------------------------------------------


def group_of(*numbers: int) -> Group:
    rule = Rule.objects.create(name="Attacks", changed_at=1)
    group = Group.objects.create(rule=rule, key="scenario=attack", opened_at=1)
    for number in numbers:
        case = Case.objects.create(pk=number, scenario="attack", began_at=1)
        Incident.objects.create(
            pk=number, case=case, scenario="attack", asset="shop", place=str(number), began_at=1,
            ended_at=2, state="suspicious", worst="suspicious",
        )  # fmt: skip
        GroupIncident.objects.create(group=group, scenario="attack", asset="shop", place=number)
    return group


def test_a_click_opens_the_incident_or_the_group_of_several(user: User):
    one = group_of(7)
    assert page_of(message(user, group=one)) == "/incidents/INC-7/"
    Rule.objects.update(name="Others")
    several = group_of(8, 9)
    assert page_of(message(user, group=several)) == f"/notifications/ack/{several.token}/"


# ---- the page ---------------------------------------------------------------------------------


def test_a_browser_is_subscribed_listed_and_removed(client: Client, user: User):
    assert "No browser yet" in client.get(PAGE).content.decode()
    form = Browser().subscription(ELSEWHERE)
    agent = "Mozilla/5.0 (X11; Linux x86_64) Firefox/130.0"
    assert client.post(PAGE, form, headers={"User-Agent": agent}).status_code == 302
    row = PushSubscription.objects.get()
    assert row.user == user
    body = client.get(PAGE).content.decode()
    assert "Firefox on Linux" in body
    assert f'data-endpoint="{ELSEWHERE}"' in body
    assert f'data-key="{push.public_key()}"' in body
    client.post(f"{PAGE}remove/", {"browser": row.pk})
    assert not PushSubscription.objects.exists()


def test_a_browser_is_the_last_users_who_subscribed_it(client: Client, user: User):
    subscribe(make_user("manager"), ELSEWHERE)
    client.post(PAGE, Browser().subscription(ELSEWHERE))
    assert PushSubscription.objects.get().user == user


def test_whose_browser_it_was_is_noted_and_told(client: Client, user: User):
    former = make_user("manager")
    former.email = "mia@example.org"
    former.save()
    subscribe(former, ELSEWHERE)
    subscribe(former, f"{ELSEWHERE}/other")
    client.post(PAGE, Browser().subscription(ELSEWHERE), headers={"User-Agent": "Firefox Linux"})
    entry = AuditEntry.objects.get(action="push.taken-over")
    assert (entry.name, entry.target) == (user.username, "manager")
    messages = Message.objects.filter(kind="browser", user=former)
    assert {(each.means, each.recipient) for each in messages} == {
        ("mail", "mia@example.org"), ("push", "manager"),
    }  # fmt: skip
    assert {each.subject for each in messages} == {"A browser of yours is operator's now"}


def test_who_subscribes_the_own_browser_again_takes_nobodys(client: Client, user: User):
    for _ in range(2):
        client.post(PAGE, Browser().subscription(ELSEWHERE))
    assert not AuditEntry.objects.filter(action="push.taken-over").exists()
    assert not Message.objects.exists()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("endpoint", "ftp://push.example.org/"), ("endpoint", "x" * 1_001), ("endpoint", ""),
        ("p256dh", "AAAA"), ("p256dh", "ä"), ("auth", "AAAA"), ("auth", "%%%%"),
    ],
)  # fmt: skip
def test_what_is_no_subscription_is_refused(client: Client, field: str, value: str):
    answer = client.post(PAGE, Browser().subscription(ELSEWHERE) | {field: value})
    assert answer.status_code == 422
    assert not PushSubscription.objects.exists()


def test_a_user_has_so_many_browsers_and_no_more(client: Client, user: User):
    for number in range(push.MOST):
        subscribe(user, f"{ELSEWHERE}/{number}")
    forget_limits()
    answer = client.post(PAGE, Browser().subscription(ELSEWHERE))
    assert "remove one first" in answer.content.decode()
    assert client.post(PAGE, Browser().subscription(f"{ELSEWHERE}/0")).status_code == 302


def test_nobody_removes_anothers(client: Client, user: User):
    row = subscribe(make_user("admin"), ELSEWHERE)
    client.post(f"{PAGE}remove/", {"browser": row.pk})
    client.post(f"{PAGE}remove/", {"browser": "9" * 40})
    assert PushSubscription.objects.filter(pk=row.pk).exists()


def test_a_test_goes_through_the_outbox(client: Client, user: User):
    client.post(f"{PAGE}test/")
    assert not Message.objects.exists()
    subscribe(user, ELSEWHERE)
    client.post(f"{PAGE}test/")
    sent = Message.objects.get()
    assert (sent.kind, sent.means, sent.user) == ("test", "push", user)


def test_the_worker_is_served_to_everybody_for_every_page(client: Client):
    for browser in (Client(), client):
        answer = browser.get("/push.js")
        assert answer["Content-Type"] == "text/javascript; charset=utf-8"
        assert answer["Service-Worker-Allowed"] == "/"
        assert b'addEventListener("push"' in answer.content
        assert "worker-src 'self'" in answer["Content-Security-Policy"]


def test_a_user_says_which_mail_address_is_theirs(client: Client, user: User):
    assert client.post(f"{PAGE}mail/", {"email": "olga"}).status_code == 422
    assert client.post(f"{PAGE}mail/", {"email": "olga@example.org"}).status_code == 302
    user.refresh_from_db()
    assert user.email == "olga@example.org"
    assert 'value="olga@example.org"' in client.get(PAGE).content.decode()
    assert AuditEntry.objects.filter(action="mail.changed", target=user.username).exists()


def test_a_managers_browser_may_be_notified_too(user: User):
    assert logged_in(make_user("manager")).get(PAGE).status_code == 200
