"""The login: allauth's adapter, known addresses, first passwords, and reauthentication with a
password or code.
"""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import timedelta
from ipaddress import ip_address
from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from allauth.account.adapter import get_adapter as account_adapter
from allauth.account.utils import get_next_redirect_url
from allauth.core import context
from allauth.core.internal import ratelimit
from allauth.core.internal.ratelimit import get_ip
from allauth.mfa.base.forms import ReauthenticateForm
from django.conf import settings
from django.contrib import messages
from django.contrib.auth import password_validation
from django.contrib.auth.models import User
from django.core.exceptions import ImproperlyConfigured, ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, resolve_url
from django.urls import reverse
from django.utils import timezone

from dashboard.core.accounts import users
from dashboard.core.accounts.forms import OneTimeCodeForm
from dashboard.core.accounts.models import FirstPassword, KnownAddress
from dashboard.core.accounts.sessions import end_all
from dashboard.core.accounts.tokens import find
from dashboard.core.audit.log import Actor, login_failed, login_limited, login_ok, record
from dashboard.core.common.access import Role, is_fragment, role_of
from dashboard.core.common.metrics import LIMITED, LOGINS
from dashboard.core.common.navigation import first_board

# ---- passwords -----------------------------------------------------------------------------------
# Validators of new passwords.

# What people add around a word that is too short: digits and symbols.
AROUND = re.compile(r"^[\W\d_]+|[\W\d_]+$")


class CommonPasswordValidator(password_validation.CommonPasswordValidator):
    """A validator that refuses Django's 20,000 common passwords.

    It also refuses repetitions of them, and those with digits and symbols around them.
    """

    def validate(self, password: str, user: Any = None) -> None:
        """Raise ValidationError if the password is common."""
        for common in {password, AROUND.sub("", password), _repeated(password)}:
            super().validate(common, user)


def _repeated(password: str) -> str:
    """Return the text that the password repeats, or the password itself if it repeats none."""
    match = re.fullmatch(r"(.+?)\1+", password, re.DOTALL)
    return match[1] if match else password


# ---- first password ------------------------------------------------------------------------------
# Passwords that an admin gave for one login: nothing else is shown until they are changed.

# The session item that marks a session begun with such a password.
FLAG = "first_password"


def first_password_has_ended(user: User) -> bool:
    """Return whether the user has a first password and it has expired."""
    return FirstPassword.objects.expired(timezone.now()).filter(user=user).exists()


def has_first_password(user: User) -> bool:
    """Return whether the user has a first password."""
    return FirstPassword.objects.filter(user=user).exists()


def begin_with_first_password(request: HttpRequest, user: User) -> None:
    """Mark the session of a user who has just logged in with a first password."""
    if has_first_password(user):
        request.session[FLAG] = True


def changed(request: HttpRequest, user: User, **_: Any) -> None:
    """Handle a change of password, which is now the user's own.

    The user's other sessions end and their tokens are revoked, as whoever knew the old password may
    have created one.
    """
    FirstPassword.objects.filter(user=user).delete()
    users.release_from_demo(user)
    request.session.pop(FLAG, None)
    end_all(user, but=request.session.session_key)
    if revoked := user.api_tokens.revoke_all(timezone.now()):
        by = "the change of the password"
        record(Actor.of(request), "token.revoked", target=user.username, tokens=revoked, by=by)
        messages.info(request, f"API tokens that were revoked: {revoked}. Create new ones.")


def detour(request: HttpRequest) -> HttpResponse | None:
    """Return a redirect to the change of password, or a refusal, if that must come first.

    The session decides, whatever else the request contains. Only where tokens are accepted does a
    request with a token in force pass: it is then judged by the token.
    """
    if not request.session.get(FLAG):
        return None
    change = reverse("account_change_password")
    if request.path in (change, reverse("account_logout")):
        return None
    if request.path.startswith(("/api/", "/metrics")):
        if _with_token(request):
            return None
        return HttpResponse("The password must be changed first.", status=401)
    if is_fragment(request):
        return HttpResponse(status=401, headers={"HX-Redirect": change})
    return redirect(change)


def _with_token(request: HttpRequest) -> bool:
    """Return whether the request has a token in force, which then authenticates it."""
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    return scheme.lower() == "bearer" and find(token, timezone.now()) is not None


# ---- known addresses -----------------------------------------------------------------------------
# Addresses that users have logged in from: wrong passwords from elsewhere lock nobody out there.

# How long an address is known after the last login from it.
KNOWN_FOR = timedelta(days=90)
# Most addresses kept per user: those of the latest logins.
MOST = 20


def record_login(request: HttpRequest, user: User) -> None:
    """Store the address that a user has logged in from."""
    now, mine = timezone.now(), KnownAddress.objects.filter(user=user)
    KnownAddress.objects.update_or_create(
        user=user, address=get_ip(request), defaults={"seen_at": now}
    )
    newest = mine.filter(seen_at__gt=now - KNOWN_FOR).order_by("-seen_at", "-pk")
    kept = list(newest.values_list("pk", flat=True)[:MOST])
    mine.exclude(pk__in=kept).delete()


def is_known_address(request: HttpRequest, name: str) -> bool:
    """Return whether the user with this name has logged in from the request's address."""
    since = timezone.now() - KNOWN_FOR
    known = KnownAddress.objects.filter(user__username__iexact=name, seen_at__gt=since)
    return known.filter(address=get_ip(request)).exists()


# ---- confirmation --------------------------------------------------------------------------------
# Reauthentication by password or code, and how often it may fail.
#
# Attempts are counted by session, apart from logins: attempts at the login, under whatever name and
# from wherever, keep no logged-in user from an urgent action.

# The rate in the settings that limits failed attempts.
ACTION = "reauthenticate_failed"


def attempt(request: HttpRequest) -> ratelimit.RateLimitUsage:
    """Count an attempt of this session and return the usage, to be rolled back on success.

    Raises ValidationError after too many failed attempts.
    """
    used = ratelimit.consume(
        request, app="allauth.account", action=ACTION, key=request.session.session_key or ""
    )
    if used is None:
        LIMITED.labels("logins").inc()
        raise account_adapter().validation_error("too_many_login_attempts")
    return used


def is_password(request: HttpRequest, user: User, password: str) -> bool:
    """Return whether the password is the user's.

    Raises ValidationError after too many failed attempts.
    """
    used = attempt(request)
    if user.check_password(password):
        used.rollback()
        return True
    login_failed(request, user.get_username())
    return False


class CodeForm(OneTimeCodeForm, ReauthenticateForm):
    """Reauthentication with a code of the second factor."""

    def clean_code(self) -> str:
        """Return the code. Raises ValidationError if it is wrong, or after too many attempts."""
        used = attempt(context.request)
        code: str = self.cleaned_data["code"]
        self.use_code(code)
        used.rollback()
        return code


# ---- login adapter -------------------------------------------------------------------------------
# How allauth behaves here.


def _unmapped(address: str) -> str:
    """Return the IPv4 address that an IPv6 one holds, as a socket of both protocols has them, else
    the address itself. Limits count all of IPv6's as one network."""
    with suppress(ValueError):
        inner = getattr(ip_address(address), "ipv4_mapped", None)
        return str(inner or address)
    return address


class ClosedAdapter(DefaultAccountAdapter):
    """Closes sign-up, as users are created by an admin, and counts logins."""

    def is_open_for_signup(self, request: HttpRequest) -> bool:  # noqa: ARG002 - allauth's form
        """Return False: nobody can sign up."""
        return False

    def get_client_ip(self, request: HttpRequest) -> str:
        """Return the client's address from trusted proxies, or the proxy's if they give none.

        Raises PermissionDenied if there is no address.
        """
        try:
            address = str(super().get_client_ip(request))
        except ImproperlyConfigured:  # fewer addresses than proxies
            address = str(request.META.get("REMOTE_ADDR", ""))
        return _unmapped(address)

    def pre_authenticate(self, request: HttpRequest, **credentials: Any) -> None:
        """Allow an attempt to log in. Raises ValidationError after too many failed ones."""
        try:
            super().pre_authenticate(request, **credentials)
        except ValidationError:
            LIMITED.labels("logins").inc()
            LOGINS.labels("limited").inc()
            login_limited(request, credentials.get("username", ""))
            raise

    def authenticate(self, request: HttpRequest, **credentials: Any) -> Any:
        """Return the user with this name and password; None if it is an expired first password."""
        user = super().authenticate(request, **credentials)
        if user is not None and first_password_has_ended(user):
            self.authentication_failed(request, **credentials)
            return None
        return user

    def reauthenticate(self, user: Any, password: str) -> bool:
        """Return whether this is the logged-in user's password."""
        return is_password(context.request, user, password)

    def _get_login_attempts_cache_key(self, request: HttpRequest, **credentials: Any) -> str:
        """Return the key under which wrong passwords are counted.

        It is the name; at an address that the user has logged in from, name and address, so that
        wrong passwords from elsewhere do not lock the user out there.
        """
        key: str = super()._get_login_attempts_cache_key(request, **credentials)
        known = is_known_address(request, credentials.get("username", ""))
        return f"{key}@{get_ip(request)}" if known else key

    def clean_password(self, password: str, user: Any = None) -> str:
        """Return a new password. Raises ValidationError, also for the one that must be changed."""
        if user is not None and user.check_password(password) and has_first_password(user):
            raise ValidationError("Expected another password than the one you were given.")
        cleaned: str = super().clean_password(password, user)
        return cleaned

    def get_password_change_redirect_url(self, request: HttpRequest) -> str:
        """Return the address of the page that follows a change of password."""
        return self.get_login_redirect_url(request)

    def post_login(
        self, request: HttpRequest, user: Any, *, redirect_url: str | None, **more: Any
    ) -> HttpResponse:
        """Return a redirect to the page that was requested before the login.

        The front page is where every login leads, so a request for it counts as none.
        """
        asked = redirect_url or get_next_redirect_url(request)
        if asked == settings.LOGIN_REDIRECT_URL:
            redirect_url = self.get_login_redirect_url(request)
        response: HttpResponse = super().post_login(
            request, user, redirect_url=redirect_url, **more
        )
        return response

    def get_login_redirect_url(self, request: HttpRequest) -> str:
        """Return the address of the page after a login: the board that the user has chosen, else
        for a manager the summary."""
        if isinstance(request.user, User) and (chosen := first_board(request.user)):
            return chosen
        manages = role_of(request.user) is Role.MANAGER
        return resolve_url("summaries:summary" if manages else settings.LOGIN_REDIRECT_URL)

    def authentication_failed(self, request: HttpRequest, **credentials: Any) -> None:
        """Count a wrong name or password."""
        LOGINS.labels("failed").inc()
        login_failed(request, credentials.get("username", ""))
        super().authentication_failed(request, **credentials)

    def respond_user_inactive(self, request: HttpRequest, user: Any) -> HttpResponse:
        """Count a login of a deactivated user with the right password."""
        LOGINS.labels("failed").inc()
        login_failed(request, user.get_username(), "deactivated")
        response: HttpResponse = super().respond_user_inactive(request, user)
        return response

    def login(self, request: HttpRequest, user: Any) -> None:
        """Count a login that has passed every step."""
        super().login(request, user)
        begin_with_first_password(request, user)
        record_login(request, user)
        LOGINS.labels("ok").inc()
        login_ok(request, user)
