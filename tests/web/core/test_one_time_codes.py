"""A code of a second factor counts once: at the login, where it is confirmed, at the set-up."""

from __future__ import annotations

import re
import time
from io import StringIO

import pytest
from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from allauth.mfa.totp.internal.auth import (
    TOTP,
    format_hotp_value,
    generate_totp_secret,
    hotp_value,
)
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client

from dashboard.core.accounts.encryption import accepts, counter_of, use
from support.web.web_fixtures import forget_limits, make_user

pytestmark = pytest.mark.django_db

PASSWORD = "horse-battery-7"
SET_UP = "/account/2fa/totp/activate/"
PERIOD_S = 30


@pytest.fixture
def user() -> User:
    return make_user("operator", PASSWORD)


@pytest.fixture
def secret(user: User) -> str:
    """The secret of the user's factor."""
    secret: str = generate_totp_secret()
    TOTP.activate(user, secret)
    return secret


class Clock:
    """The machine's clock, at a fixed time until the test sets it forward."""

    def __init__(self) -> None:
        self.now = time.time() // PERIOD_S * PERIOD_S + 1

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(time, "time", clock)
    return clock


def code_at(secret: str, at_s: float) -> str:
    return str(format_hotp_value(hotp_value(secret, int(at_s) // PERIOD_S)))


def logs_in(code: str) -> bool:
    """Whether a new browser gets in with the password and this code."""
    browser = Client()
    browser.post("/account/login/", {"login": "operator", "password": PASSWORD})
    assert "_auth_user_id" not in browser.session, "the second factor is asked for"
    browser.post("/account/2fa/authenticate/", {"code": code})
    return "_auth_user_id" in browser.session


def confirms(user: User, code: str) -> bool:
    """Whether the code is taken where it is asked for again."""
    browser = Client()
    browser.force_login(user)
    form = {"code": code, "next": "/"}
    return browser.post("/account/2fa/reauthenticate/", form).status_code == 302


@pytest.mark.parametrize("passed_s", [1, 34])
def test_a_code_that_logged_in_does_not_log_in_again(secret: str, clock: Clock, passed_s: int):
    code = code_at(secret, clock.now)
    assert logs_in(code)
    clock.now += passed_s
    assert not logs_in(code)
    forget_limits()  # as in another process, or where other entries have pushed it out
    assert not logs_in(code)


def test_nor_does_an_older_one(secret: str, clock: Clock):
    assert logs_in(code_at(secret, clock.now))
    assert not logs_in(code_at(secret, clock.now - PERIOD_S))
    assert logs_in(code_at(secret, clock.now + PERIOD_S))


def test_a_code_counts_once_over_login_and_confirmation(user: User, secret: str, clock: Clock):
    code = code_at(secret, clock.now)
    assert logs_in(code)
    clock.now += 34
    assert not confirms(user, code)
    later = code_at(secret, clock.now)
    assert confirms(user, later)
    forget_limits()
    assert not logs_in(later)


def test_a_wrong_code_is_no_code(secret: str, clock: Clock):
    codes = (f"{number:06}" for number in range(10))
    wrong = next(code for code in codes if counter_of(secret, code) is None)
    assert not logs_in(wrong)
    assert not logs_in(code_at(secret, clock.now - 2 * PERIOD_S))
    assert not logs_in(code_at(secret, clock.now + 2 * PERIOD_S))
    assert logs_in(code_at(secret, clock.now))


def test_the_code_that_set_a_factor_up_does_not_log_in(user: User, clock: Clock):
    browser = Client()
    browser.force_login(user)
    browser.post("/account/reauthenticate/", {"password": PASSWORD, "next": SET_UP})
    page = browser.get(SET_UP).content.decode()
    secret = re.search(r'id="secret"[^>]* value="([A-Z2-7]+)"', page)[1]  # type: ignore[index]
    code = code_at(secret, clock.now)
    assert browser.post(SET_UP, {"code": code}).status_code == 302
    assert not logs_in(code)
    clock.now += 34
    assert not logs_in(code)
    assert logs_in(code_at(secret, clock.now))


def test_of_two_logins_at_once_one_wins(secret: str, clock: Clock):
    """Both have read the factor before either has used the code, each in a process of its own."""
    code = code_at(secret, clock.now)
    first, second = (Authenticator.objects.get(type="totp") for _ in range(2))
    won = accepts(first, code)
    forget_limits()
    assert [won, accepts(second, code)] == [True, False]


def test_of_two_logins_with_one_recovery_code_one_wins(user: User, secret: str):
    codes = RecoveryCodes.activate(user).get_unused_codes()
    first, second = (Authenticator.objects.get(type="recovery_codes") for _ in range(2))
    assert [accepts(first, codes[0]), accepts(second, codes[0])] == [True, False]
    assert accepts(second, codes[1])


def test_a_newer_code_that_was_used_meanwhile_stays_the_newest(secret: str):
    first, second = (Authenticator.objects.get(type="totp") for _ in range(2))
    assert use(first, 8)
    assert not use(second, 7)
    assert not use(Authenticator.objects.get(type="totp"), 8)
    assert use(Authenticator.objects.get(type="totp"), 9)


def test_a_factor_that_is_sealed_again_remembers_its_codes(secret: str, clock: Clock):
    code = code_at(secret, clock.now)
    assert logs_in(code)
    call_command("reseal", stdout=StringIO())
    forget_limits()
    assert not logs_in(code)
