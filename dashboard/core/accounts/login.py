"""The login: the library's adapter, addresses that are known, first passwords, and a password or
code given once more.
"""

from __future__ import annotations

import re
from datetime import timedelta
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

# ---- passwords -----------------------------------------------------------------------------------
# Validators of new passwords.

# What people put around a word that is too short: digits and signs.
AROUND = re.compile(r"^[\W\d_]+|[\W\d_]+$")


class CommonPasswordValidator(password_validation.CommonPasswordValidator):
    """A validator that refuses Django's 20,000 common passwords.

    Also repeated ones, and ones with digits and signs around.
    """

    def validate(self, password: str, user: Any = None) -> None:
        """Raise ValidationError for such a password."""
        for common in {password, AROUND.sub("", password), _repeated(password)}:
            super().validate(common, user)


def _repeated(password: str) -> str:
    """Return the text that the password repeats; the password itself where it repeats none."""
    match = re.fullmatch(r"(.+?)\1+", password, re.DOTALL)
    return match[1] if match else password


# ---- first password ------------------------------------------------------------------------------
# Passwords that an admin has given for one login: nothing else is shown until they are changed.

# In a session: it was begun with such a password.
FLAG = "first_password"


def first_password_has_ended(user: User) -> bool:
    """Return whether the user has such a password and its time is over."""
    return FirstPassword.objects.expired(timezone.now()).filter(user=user).exists()


def has_first_password(user: User) -> bool:
    """Return whether the user has such a password."""
    return FirstPassword.objects.filter(user=user).exists()


def begin_with_first_password(request: HttpRequest, user: User) -> None:
    """Mark the session of a user who has just logged in with such a password."""
    if has_first_password(user):
        request.session[FLAG] = True


def changed(request: HttpRequest, user: User, **_: Any) -> None:
    """Note the change of the password: it is the user's own now. Other sessions end, and so do the
    user's tokens: whoever knew the old password may have made one."""
    FirstPassword.objects.filter(user=user).delete()
    users.release_from_demo(user)
    request.session.pop(FLAG, None)
    end_all(user, but=request.session.session_key)
    if revoked := user.api_tokens.revoke_all(timezone.now()):
        by = "the change of the password"
        record(Actor.of(request), "token.revoked", target=user.username, tokens=revoked, by=by)
        messages.info(request, f"API tokens that were revoked: {revoked}. Make new ones.")


def detour(request: HttpRequest) -> HttpResponse | None:
    """Return a redirect to the change of the password, or a refusal, if it must come first.

    A session is treated alike whatever else the request carries; where tokens count, a token in
    force is checked on its own account.
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
    """Return whether the request brings a token in force, by which it is then authenticated."""
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    return scheme.lower() == "bearer" and find(token, timezone.now()) is not None


# ---- known addresses -----------------------------------------------------------------------------
# Addresses that users have logged in from: guesses from elsewhere keep nobody out there.

# How long after the last login from there.
KNOWN_FOR = timedelta(days=90)
# Most addresses of one user: those last logged in from.
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
    """Return whether the user of this name has logged in from the request's address."""
    since = timezone.now() - KNOWN_FOR
    known = KnownAddress.objects.filter(user__username__iexact=name, seen_at__gt=since)
    return known.filter(address=get_ip(request)).exists()


# ---- confirmation --------------------------------------------------------------------------------
# The password or the code that a logged-in user gives once more, and how often it may be wrong.
#
# Counted by session, apart from logins: what others try at the login, under whatever name and from
# wherever, keeps nobody who is logged in from an urgent action.

# Of the settings' rates: how many wrong ones there may be.
ACTION = "reauthenticate_failed"


def attempt(request: HttpRequest) -> ratelimit.RateLimitUsage:
    """Count an attempt of this session; one that was right is rolled back.

    Raises ValidationError after too many wrong ones.
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

    Raises ValidationError after too many wrong ones.
    """
    used = attempt(request)
    if user.check_password(password):
        used.rollback()
        return True
    login_failed(request, user.get_username())
    return False


class CodeForm(OneTimeCodeForm, ReauthenticateForm):
    """A code of the second factor, given once more."""

    def clean_code(self) -> str:
        """Return the code. Raises ValidationError for a wrong one, and after too many."""
        used = attempt(context.request)
        code: str = self.cleaned_data["code"]
        self.use_code(code)
        used.rollback()
        return code


# ---- login adapter -------------------------------------------------------------------------------
# The adapter of allauth: its behaviour here.


class ClosedAdapter(DefaultAccountAdapter):
    """An adapter that lets nobody sign up: users are made by an admin. It counts logins."""

    def is_open_for_signup(self, request: HttpRequest) -> bool:  # noqa: ARG002 - allauth's form
        """Return False: nobody signs up."""
        return False

    def get_client_ip(self, request: HttpRequest) -> str:
        """Return the client's address as trusted proxies give it; the proxy's where they give none.

        Raises PermissionDenied where there is none.
        """
        try:
            return str(super().get_client_ip(request))
        except ImproperlyConfigured:  # fewer addresses than there are proxies
            return str(request.META.get("REMOTE_ADDR", ""))

    def pre_authenticate(self, request: HttpRequest, **credentials: Any) -> None:
        """Let a password be tried. Raises ValidationError after too many wrong ones."""
        try:
            super().pre_authenticate(request, **credentials)
        except ValidationError:
            LIMITED.labels("logins").inc()
            LOGINS.labels("limited").inc()
            login_limited(request, credentials.get("username", ""))
            raise

    def authenticate(self, request: HttpRequest, **credentials: Any) -> Any:
        """Return the user of this name and password. A password for one login may have ended."""
        user = super().authenticate(request, **credentials)
        if user is not None and first_password_has_ended(user):
            self.authentication_failed(request, **credentials)
            return None
        return user

    def reauthenticate(self, user: Any, password: str) -> bool:
        """Return whether a logged-in user has given their own password once more."""
        return is_password(context.request, user, password)

    def _get_login_attempts_cache_key(self, request: HttpRequest, **credentials: Any) -> str:
        """Return the key under which wrong passwords are counted: the name; at an address that its
        user has logged in from, name and address, so that guesses from elsewhere do not keep the
        user out there."""
        key: str = super()._get_login_attempts_cache_key(request, **credentials)
        known = is_known_address(request, credentials.get("username", ""))
        return f"{key}@{get_ip(request)}" if known else key

    def clean_password(self, password: str, user: Any = None) -> str:
        """Return a new password. Raises ValidationError also for the one that must be changed."""
        if user is not None and user.check_password(password) and has_first_password(user):
            raise ValidationError("Expected another password than the one you were given.")
        cleaned: str = super().clean_password(password, user)
        return cleaned

    def get_password_change_redirect_url(self, request: HttpRequest) -> str:
        """Return the address of the page that follows the change of the password."""
        return self.get_login_redirect_url(request)

    def post_login(
        self, request: HttpRequest, user: Any, *, redirect_url: str | None, **more: Any
    ) -> HttpResponse:
        """Return the way to the page that was asked for; the front page is where anybody's login
        leads, so whoever asked for that alone asked for none."""
        asked = redirect_url or get_next_redirect_url(request)
        if asked == settings.LOGIN_REDIRECT_URL:
            redirect_url = self.get_login_redirect_url(request)
        response: HttpResponse = super().post_login(
            request, user, redirect_url=redirect_url, **more
        )
        return response

    def get_login_redirect_url(self, request: HttpRequest) -> str:
        """Return the address of the page that a login leads to: a manager's is the summary."""
        manages = role_of(request.user) is Role.MANAGER
        return resolve_url("summaries:summary" if manages else settings.LOGIN_REDIRECT_URL)

    def authentication_failed(self, request: HttpRequest, **credentials: Any) -> None:
        """Count a wrong name or password."""
        LOGINS.labels("failed").inc()
        login_failed(request, credentials.get("username", ""))
        super().authentication_failed(request, **credentials)

    def respond_user_inactive(self, request: HttpRequest, user: Any) -> HttpResponse:
        """Count a login with the right password of somebody who was deactivated."""
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
