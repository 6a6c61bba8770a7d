"""What the operations share: authentication, how each is declared, and the scenario and asset of
its path.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.http import HttpRequest
from django.utils import timezone
from ninja import Router
from ninja.security import APIKeyCookie, HttpBearer

from dashboard.core.accounts import tokens
from dashboard.core.accounts.login_guard import log_action
from dashboard.core.api.problems import Problem, documented, invalid, not_authenticated, too_many
from dashboard.core.common.access import ALLOWED, EVERY_ROLE, Action, Limit, Role, TooMany, role_of
from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.times import now_ms
from domain.names import name_ok
from domain.scenario import Scenario

# ---- auth ----------------------------------------------------------------------------------------
# Authentication: a bearer token, or the session of a browser with its CSRF token.

REQUESTS = Limit("requests", 6_000)
"""Of one user, of whatever kind; commands and reports have their own limits besides."""


class ApiRequest(HttpRequest):
    """A request whose user is known."""

    auth: User


class BearerToken(HttpBearer):
    """A bearer token, `Authorization: Bearer tb_…`, made for `action`, of a user whose role is
    `among` these and allows it."""

    def __init__(self, action: Action, among: Collection[Role]) -> None:
        super().__init__()
        self.action, self.among = action, among

    def authenticate(self, request: HttpRequest, token: str) -> User | None:
        """Return the token's user, None for a wrong token. Raises Problem 403 for scope or role.

        The token's prefix stays with the request, for the audit.
        """
        row = tokens.find(token, timezone.now())
        if row is None:
            log_action(request, "token-refused")
            return None
        if not row.allows(self.action):
            raise _scope_required(self.action, row.scopes)
        setattr(request, "token_prefix", row.prefix)  # noqa: B010 - no attribute of Django's
        return _allowed(row.user, self.action, self.among)


class Session(APIKeyCookie):
    """The login of a browser; a request that changes anything needs its CSRF token too."""

    param_name = settings.SESSION_COOKIE_NAME

    def __init__(self, action: Action, among: Collection[Role]) -> None:
        super().__init__()
        self.action, self.among = action, among

    def __call__(self, request: HttpRequest) -> Any:
        """Leave a request without a session alone: it failed for want of a token."""
        if "Authorization" in request.headers or self.param_name not in request.COOKIES:
            return None
        return super().__call__(request)

    def authenticate(self, request: HttpRequest, _key: str | None) -> User | None:
        """Return the session's user, None without one. Raises Problem 403 for the role."""
        user = request.user
        return _allowed(user, self.action, self.among) if isinstance(user, User) else None


def allow(action: Action, among: Collection[Role] = EVERY_ROLE) -> list[Any]:
    """Return what an operation names as its `auth` that users may call whose role is `among` these
    and allows `action`."""
    return [BearerToken(action, among), Session(action, among)]


def user_of(request: HttpRequest, action: Action) -> User:
    """Return the user of a request that is no operation of the API.

    Raises Problem 401, 403 or 429.
    """
    for way in allow(action):
        user: User | None = way(request)
        if user is not None:
            return user
    raise not_authenticated()


def _scope_required(action: Action, scopes: str) -> Problem:
    header = {"WWW-Authenticate": f'Bearer error="insufficient_scope", scope="{action}"'}
    had = scopes.replace(" ", ", ") or "none"
    detail = f"This needs the scope {action}; the token has: {had}."
    return Problem(403, "scope-required", detail, headers=header)


def _allowed(user: User, action: Action, among: Collection[Role]) -> User:
    """Return the user, whose role is among these and allows it and who has not sent too many
    requests.

    Raises Problem.
    """
    role = role_of(user)
    if role is None or action not in ALLOWED[role]:
        raise Problem(403, "role-required", f"{user.get_username()} may not {action}.")
    if role not in among:
        needed = " or ".join(sorted(among))
        raise Problem(403, "role-required", f"This needs the role {needed}; yours is {role}.")
    try:
        REQUESTS.take(user.pk, now_ms())
    except TooMany as error:
        raise too_many(error) from error
    return user


# ---- router --------------------------------------------------------------------------------------
# What the operations share: how each is declared, and the scenario and the asset that it names.

READ = (404, 422)
WRITE = (400, 404, 413, 415, 422)
SEND = (400, 404, 409, 413, 415, 422, 503)
"""Statuses of the problems of what reads, of what writes to the database, and what to Kafka."""


class OperationRouter(Router):
    """A router that declares an operation in a line."""

    def operation(
        self,
        route: str,
        response: Any,
        action: Action,
        *statuses: int,
        body: Mapping[str, Any] | None = None,
        among: Collection[Role] = EVERY_ROLE,
    ) -> Any:
        """Return the decorator of an operation that needs `action`, and a role `among` these.

        route: method and path; statuses: of its problems, beyond those that each may answer with;
        body: in OpenAPI's terms, where the operation reads it itself.
        """
        method, path = route.split()
        extra = documented(*statuses) | ({"requestBody": body} if body else {})
        return self.api_operation(
            [method],
            path,
            response=response,
            auth=allow(action, among),
            openapi_extra=extra,
            by_alias=True,
        )


def known_scenario(name: str) -> Scenario:
    """Return a scenario. Raises Problem 404."""
    known = scenarios().get(name)
    if known is None:
        raise Problem(404, "unknown-scenario", f"{name!r} is none of: {', '.join(scenarios())}.")
    return known


def check_asset(name: str, field: str = "asset") -> None:
    """Raise Problem 422 unless an asset may have this name."""
    if not name_ok(name):
        raise invalid(field, "1 to 255 characters, none of them a control character")
