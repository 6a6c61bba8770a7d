"""Who asks: a bearer token, or the session of a browser with its CSRF token."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.http import HttpRequest
from django.utils import timezone
from ninja.security import APIKeyCookie, HttpBearer

from dashboard.accounts import tokens
from dashboard.accounts.roles import Action, may
from dashboard.api.problems import Problem


class ApiRequest(HttpRequest):
    """A request whose user is known."""

    auth: User


class BearerToken(HttpBearer):
    """`Authorization: Bearer tb_…` of a user whose role allows `action`."""

    def __init__(self, action: Action) -> None:
        super().__init__()
        self.action = action

    def authenticate(self, _request: HttpRequest, token: str) -> User | None:
        """The token's user, None for a wrong token. Raises Problem 403 for the role."""
        user = tokens.holder(token, timezone.now())
        return _allowed(user, self.action) if user else None


class Session(APIKeyCookie):
    """The login of a browser; what changes anything needs its CSRF token too."""

    param_name = settings.SESSION_COOKIE_NAME

    def __init__(self, action: Action) -> None:
        super().__init__()
        self.action = action

    def __call__(self, request: HttpRequest) -> Any:
        """Leave a request without a session alone: it failed for want of a token."""
        if "Authorization" in request.headers or self.param_name not in request.COOKIES:
            return None
        return super().__call__(request)

    def authenticate(self, request: HttpRequest, _key: str | None) -> User | None:
        """The session's user, None without one. Raises Problem 403 for the role."""
        user = request.user
        return _allowed(user, self.action) if isinstance(user, User) else None


def allow(action: Action) -> list[Any]:
    """What an operation that needs `action` names as its `auth`."""
    return [BearerToken(action), Session(action)]


def _allowed(user: User, action: Action) -> User:
    if not may(user, action):
        raise Problem(403, "role-required", f"{user.get_username()} may not {action}.")
    return user
