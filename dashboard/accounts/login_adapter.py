"""The adapter of allauth: its behaviour here."""

from __future__ import annotations

from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from allauth.account.utils import get_next_redirect_url
from allauth.core import context
from allauth.core.internal.ratelimit import get_ip
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured, ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import resolve_url

from dashboard.accounts import confirmation, first_password, known_addresses
from dashboard.audit.login_signals import login_failed, login_limited, login_ok
from dashboard.core.metrics import LIMITED, LOGINS
from dashboard.core.roles import Role, role_of


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
        if user is not None and first_password.ended(user):
            self.authentication_failed(request, **credentials)
            return None
        return user

    def reauthenticate(self, user: Any, password: str) -> bool:
        """Return whether a logged-in user has given their own password once more."""
        return confirmation.is_password(context.request, user, password)

    def _get_login_attempts_cache_key(self, request: HttpRequest, **credentials: Any) -> str:
        """Return the key under which wrong passwords are counted: the name; at an address that its
        user has logged in from, name and address, so that guesses from elsewhere do not keep the
        user out there."""
        key: str = super()._get_login_attempts_cache_key(request, **credentials)
        known = known_addresses.is_known(request, credentials.get("username", ""))
        return f"{key}@{get_ip(request)}" if known else key

    def clean_password(self, password: str, user: Any = None) -> str:
        """Return a new password. Raises ValidationError also for the one that must be changed."""
        if user is not None and user.check_password(password) and first_password.is_first(user):
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
        first_password.begin(request, user)
        known_addresses.note_login(request, user)
        LOGINS.labels("ok").inc()
        login_ok(request, user)
