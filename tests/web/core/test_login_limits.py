"""What counts wrong passwords, against whom, and what cannot make it forget."""

from __future__ import annotations

from ipaddress import IPv4Address
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.internal.auth import TOTP, generate_totp_secret
from django.contrib.auth.models import User
from django.core.cache import cache, caches
from django.test import Client, RequestFactory

from dashboard.core.accounts import login
from dashboard.core.accounts.models import FirstPassword, KnownAddress
from dashboard.core.common.access import Limit, TooMany
from dashboard.core.common.times import now_ms
from dashboard.operate.dead_letters.models import DeadLetter
from support.web.web_fixtures import bearer, make_user

pytestmark = pytest.mark.django_db

PASSWORD = "horse-battery-7"
HOME, ELSEWHERE = "198.51.100.7", "203.0.113.9"


@pytest.fixture
def admin() -> User:
    return make_user("admin", PASSWORD)


def log_in(password: str, address: str, client: Client | None = None, name: str = "admin") -> Any:
    form = {"login": name, "password": password}
    return (client or Client()).post("/account/login/", form, REMOTE_ADDR=address)


def somewhere(n: int) -> str:
    return str(IPv4Address("10.0.0.0") + n)


def confirm(client: Client, password: str) -> int:
    form = {"password": password, "next": "/"}
    return client.post("/account/reauthenticate/", form, REMOTE_ADDR=HOME).status_code


def lock_out(name: str = "admin") -> None:
    """Five wrong passwords for a name, and a sixth that is not even tried."""
    answers = [log_in("wrong", somewhere(n), name=name) for n in range(6)]
    assert "Too many failed login attempts" in answers[-1].content.decode()


# ---- a session of one's own -------------------------------------------------------------------


def test_wrong_passwords_at_the_login_keep_nobody_from_confirming(admin: User):
    client = Client()
    client.force_login(admin)
    lock_out()
    for _ in range(11):
        log_in("wrong", HOME)  # from the very address too
    assert confirm(client, PASSWORD) == 302


def test_a_session_has_five_wrong_confirmations(admin: User):
    client, other = Client(), Client()
    client.force_login(admin)
    other.force_login(admin)
    assert [confirm(client, "wrong") for _ in range(5)] == [200] * 5
    assert confirm(client, PASSWORD) == 200  # it waits, though the password is right
    assert confirm(other, PASSWORD) == 302
    assert log_in(PASSWORD, HOME).status_code == 302


def test_right_confirmations_are_not_counted_as_wrong_ones(admin: User):
    client = Client()
    client.force_login(admin)
    assert [confirm(client, PASSWORD) for _ in range(7)] == [302] * 7


def test_a_code_is_confirmed_apart_from_logins_too(admin: User):
    secret = generate_totp_secret()
    TOTP.activate(admin, secret)
    client = Client()
    client.force_login(admin)
    lock_out()
    for _ in range(11):
        log_in("wrong", HOME)
    right = valid_code(admin, secret)

    def code(given: str) -> int:
        form = {"code": given, "next": "/"}
        response = client.post("/account/2fa/reauthenticate/", form, REMOTE_ADDR=HOME)
        return response.status_code

    assert code(right) == 302
    assert [code("000000") for _ in range(5)] == [200] * 5
    assert code("000000") == 200
    shown = client.post("/account/2fa/reauthenticate/", {"code": "1"}, REMOTE_ADDR=HOME)
    assert "Too many failed login attempts" in shown.content.decode()


def valid_code(user: User, secret: str) -> str:
    from allauth.mfa.totp.internal.auth import (
        format_hotp_value,
        hotp_value,
        yield_hotp_counters_from_time,
    )

    assert Authenticator.objects.filter(user=user).exists()
    return str(format_hotp_value(hotp_value(secret, next(iter(yield_hotp_counters_from_time())))))


# ---- the login --------------------------------------------------------------------------------


def test_who_logged_in_from_an_address_still_can_while_others_guess(admin: User):
    assert log_in(PASSWORD, HOME).status_code == 302
    lock_out()
    assert log_in(PASSWORD, ELSEWHERE).status_code == 200  # nobody knows this one
    assert log_in(PASSWORD, HOME).status_code == 302


def test_a_known_address_has_five_wrong_ones_too(admin: User):
    log_in(PASSWORD, HOME)
    for _ in range(5):
        log_in("wrong", HOME)
    assert log_in(PASSWORD, HOME).status_code == 200


def test_an_address_is_known_for_its_own_user_and_for_a_while(
    admin: User, monkeypatch: pytest.MonkeyPatch
):
    log_in(PASSWORD, HOME)
    asks = RequestFactory().post("/", REMOTE_ADDR=HOME)
    assert login.is_known_address(asks, "ADMIN")
    assert not login.is_known_address(asks, "operator")
    monkeypatch.setattr(login, "MOST", 3)
    for n in range(5):
        cache.clear()
        log_in(PASSWORD, somewhere(n))
    assert KnownAddress.objects.filter(user=admin).count() == 3
    assert not login.is_known_address(asks, "admin")
    row = KnownAddress.objects.get(address=somewhere(4))
    row.seen_at -= login.KNOWN_FOR
    row.save()
    assert not login.is_known_address(RequestFactory().post("/", REMOTE_ADDR=somewhere(4)), "admin")


def test_empty_forms_are_bounded():
    answers = [log_in("", HOME, name="").status_code for _ in range(31)]
    assert answers == [200] * 30 + [429]


def test_forms_from_many_addresses_make_no_limit_forget(admin: User):
    log_in("wrong", HOME)
    for n in range(5):
        log_in("wrong", somewhere(n))
    per_user = Limit("tries", 1)
    per_user.take(admin.pk, now := now_ms())
    figure = DeadLetter.objects.count_open()
    for n in range(320):
        log_in("", somewhere(1_000 + n), name="")
    assert log_in(PASSWORD, ELSEWHERE).status_code == 200
    with pytest.raises(TooMany):
        per_user.take(admin.pk, now)
    for n in range(1_000):
        caches["figures"].set(f"figure-{n}", figure)
    assert log_in(PASSWORD, ELSEWHERE).status_code == 200
    with pytest.raises(TooMany):
        per_user.take(admin.pk, now)


# ---- the first password -----------------------------------------------------------------------


@pytest.mark.parametrize("header", ["Bearer x", "Basic YTpi", "x", ""])
def test_a_header_does_not_pass_by_the_change_of_a_first_password(
    admin: User, header: str, django_user_model: type[User]
):
    with_header = first_login(django_user_model)
    sent = {"Authorization": header}
    assert with_header.get("/", headers=sent)["Location"] == "/account/password/change/"
    made = with_header.post("/users/new/", {"name": "eve", "role": "admin"}, headers=sent)
    assert made["Location"] == "/account/password/change/"
    assert with_header.get("/api/v1/scenarios", headers=sent).status_code == 401
    assert with_header.get("/metrics", headers=sent).status_code == 401


def test_a_token_in_force_counts_on_its_own_account_beside_such_a_session(
    admin: User, django_user_model: type[User]
):
    beside = first_login(django_user_model)
    token = bearer(admin)
    assert beside.get("/api/v1/scenarios", headers=token).status_code == 200
    assert beside.get("/metrics", headers=token).status_code == 200
    assert beside.get("/", headers=token)["Location"] == "/account/password/change/"


def first_login(users: type[User]) -> Client:
    """The browser of somebody who is in with a password for one login."""
    from django.utils import timezone

    from dashboard.core.accounts.users import GOOD_FOR

    user = users.objects.create_user("first", password=PASSWORD)
    user.groups.set(User.objects.get(username="admin").groups.all())
    FirstPassword.objects.create(user=user, ends_at=timezone.now() + GOOD_FOR)
    client = Client()
    assert log_in(PASSWORD, HOME, client, "first").status_code == 302
    return client


def test_a_header_opens_nothing_that_a_session_alone_would_not(admin: User):
    client = Client(enforce_csrf_checks=True)
    client.force_login(admin)
    body = {"state": "clear", "mode": "set", "reason": "r"}
    path = "/api/v1/scenarios/attack/assets/a"
    for header in ("Bearer x", "Basic YTpi", ""):
        sent = {"Authorization": header}
        answer = client.put(path, body, content_type="application/json", headers=sent)
        assert answer.status_code == 401
        assert client.post("/users/new/", {}, headers=sent).status_code == 403
        assert Client().get("/users/", headers=sent).status_code == 302
