"""Receivers of the login library's signals: logins, logouts, passwords, second factors."""

from __future__ import annotations

from functools import partial
from typing import Any

from allauth.account.signals import password_changed
from allauth.mfa.models import Authenticator
from allauth.mfa.signals import (
    authentication_failed,
    authenticator_added,
    authenticator_removed,
    authenticator_reset,
)
from django.contrib.auth.models import User
from django.contrib.auth.signals import user_logged_out
from django.core.cache import cache
from django.http import HttpRequest

from dashboard.core.audit.log import Actor, address_of, record

LIMITED_EVERY_S = 60
"""Refusals of one name from one address are noted once in this time, however many they are."""


def connect() -> None:
    """Connect the receivers."""
    user_logged_out.connect(_logged_out, dispatch_uid="audit")
    password_changed.connect(_password_changed, dispatch_uid="audit")
    for signal, action in (
        (authenticator_added, "factor.added"),
        (authenticator_removed, "factor.removed"),
        (authenticator_reset, "factor.renewed"),
    ):
        signal.connect(partial(_factor_changed, action), weak=False, dispatch_uid="audit")
    authentication_failed.connect(_code_failed, dispatch_uid="audit")


def login_ok(request: HttpRequest, user: User) -> None:
    """Log that a user has passed every step of a login."""
    record(Actor.of(request, user), "login.ok", target=user.get_username())


def login_failed(request: HttpRequest, name: str, what: str = "password") -> None:
    """Log a wrong name or password, at a login or where it was required once more."""
    record(Actor.of(request), "login.failed", target=name, outcome="refused", what=what)


def login_limited(request: HttpRequest, name: str) -> None:
    """Log that a login was refused after too many wrong ones."""
    key = f"audit-limited:{address_of(request)}:{hash(name)}"
    if cache.add(key, True, LIMITED_EVERY_S):
        record(Actor.of(request), "login.limited", target=name, outcome="refused")


def _logged_out(request: HttpRequest, user: User | None, **_: Any) -> None:
    if user is not None:
        record(Actor.of(request, user), "logout", target=user.get_username())


def _password_changed(request: HttpRequest, user: User, **_: Any) -> None:
    record(Actor.of(request, user), "password.changed", target=user.get_username())


def _factor_changed(
    action: str, request: HttpRequest, user: User, authenticator: Authenticator, **_: Any
) -> None:
    factor = str(authenticator.type)
    record(Actor.of(request, user), action, target=user.get_username(), factor=factor)


def _code_failed(request: HttpRequest, user: User, **_: Any) -> None:
    actor, name = Actor.of(request), user.get_username()
    record(actor, "login.failed", target=name, outcome="refused", what="code")
