"""Shared by the API's operations: authentication, how operations are declared, and the scenario and
asset in their paths.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import wraps
from itertools import chain
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.http import HttpRequest
from django.utils import timezone
from ninja import Query, Router
from ninja.operation import Operation
from ninja.security import APIKeyCookie, HttpBearer

from dashboard.core.accounts import tokens
from dashboard.core.accounts.login_guard import log_action
from dashboard.core.api.problems import Problem, documented, invalid, not_authenticated, too_many
from dashboard.core.api.schemas import NO_NUL
from dashboard.core.common.access import ALLOWED, EVERY_ROLE, Action, Limit, Role, TooMany, role_of
from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.times import now_ms
from dashboard.core.states.filter_forms import VocabularyForm
from dashboard.core.states.filter_parser import MAX_TEXT
from domain.names import name_ok
from domain.scenario import Scenario

# ---- auth ----------------------------------------------------------------------------------------
# Authentication: by a bearer token, or by a browser's session with its CSRF token.

REQUESTS = Limit("requests", 6_000)
"""The limit on all requests of one user; commands and reports have their own limits as well."""


class ApiRequest(HttpRequest):
    """An authenticated request."""

    auth: User


class BearerToken(HttpBearer):
    """Authentication by a bearer token, `Authorization: Bearer tb_…`.

    The token needs the scope `action`; the user's role must be in `among` and allow the action.
    """

    def __init__(self, action: Action, among: Collection[Role]) -> None:
        super().__init__()
        self.action, self.among = action, among

    def authenticate(self, request: HttpRequest, token: str) -> User | None:
        """Return the token's user; None for an invalid token. Raises Problem.

        It is 403 for a wrong scope or role, and 429 for too many requests. The token's prefix is
        stored on the request for the audit.
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
    """Authentication by a browser's session; a request that changes data needs a CSRF token."""

    param_name = settings.SESSION_COOKIE_NAME

    def __init__(self, action: Action, among: Collection[Role]) -> None:
        super().__init__()
        self.action, self.among = action, among

    def __call__(self, request: HttpRequest) -> Any:
        """Return None for a request without a session: it fails for lack of a token."""
        if "Authorization" in request.headers or self.param_name not in request.COOKIES:
            return None
        return super().__call__(request)

    def authenticate(self, request: HttpRequest, _key: str | None) -> User | None:
        """Return the session's user; None without one. Raises Problem 403 (role) or 429."""
        user = request.user
        return _allowed(user, self.action, self.among) if isinstance(user, User) else None


def allow(action: Action, among: Collection[Role] = EVERY_ROLE) -> list[Any]:
    """Return the `auth` of an operation for users whose role is in `among` and allows `action`."""
    return [BearerToken(action, among), Session(action, among)]


def user_of(request: HttpRequest, action: Action) -> User:
    """Return the user of a request that is not an operation of the API.

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
    """Return the user if the role is in `among` and allows the action. Counts the request.

    Raises Problem 403 otherwise, and 429 after too many requests.
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
# How operations are declared, and the scenario and asset that they name.

READ = (404, 422)
WRITE = (400, 404, 413, 415, 422)
SEND = (400, 404, 409, 413, 415, 422, 503)
"""Problem statuses of operations that read, that write to the database, and that write to Kafka."""


class OperationRouter(Router):
    """A router that declares an operation in one line."""

    def operation(
        self,
        route: str,
        response: Any,
        action: Action,
        *statuses: int,
        body: Mapping[str, Any] | None = None,
        among: Collection[Role] = EVERY_ROLE,
    ) -> Any:
        """Return the decorator of an operation that requires `action`, and a role in `among`.

        route: method and path; statuses: of its problems, besides those of every operation; body:
        in OpenAPI's terms, if the operation reads the body itself.
        """
        method, path = route.split()
        extra = documented(*statuses) | ({"requestBody": body} if body else {})
        register = self.api_operation(
            [method],
            path,
            response=response,
            auth=allow(action, among),
            openapi_extra=extra,
            by_alias=True,
        )

        def decorate(view: Callable[..., Any]) -> Callable[..., Any]:
            register(view)
            operations = (known.operations for known in self.path_operations.values())
            registered = next(each for each in chain(*operations) if each.view_func is view)
            registered.view_func = _strict(view, _query_names(registered))
            return view

        return decorate


MAY_BE_BLANK = frozenset({"after", "agent_label", "before"})
"""Query parameters that ask for no less when they are blank: the first page, and no label."""


def _query_names(operation: Operation) -> frozenset[str]:
    """Return the names of an operation's query parameters."""
    models = (model for model in operation.models if model.__ninja_param_source__ == "query")
    return frozenset(name for model in models for name in model.__ninja_flatten_map__)


def _strict(view: Callable[..., Any], names: frozenset[str]) -> Callable[..., Any]:
    """Return a view that refuses query parameters that are misspelt or blank.

    Whoever asks for some must not be answered with all, and nothing given is not everything.
    """

    def strict(request: HttpRequest, *arguments: Any, **values: Any) -> Any:
        for name, given in request.GET.lists():
            if name not in names:
                known = f"one of {', '.join(sorted(names))}" if names else "no query parameter"
                raise invalid(name, f"{known}; this one is unknown")
            if name not in MAY_BE_BLANK and not all(map(str.strip, given)):
                raise invalid(name, "a value; leave the parameter out to get everything")
        return view(request, *arguments, **values)

    return wraps(view)(strict)


def known_scenario(name: str) -> Scenario:
    """Return a scenario. Raises Problem 404 if there is none with this name."""
    known = scenarios().get(name)
    if known is None:
        raise Problem(404, "unknown-scenario", f"{name!r} is none of: {', '.join(scenarios())}.")
    return known


def check_asset(name: str, field: str = "asset") -> None:
    """Raise Problem 422 unless this is a valid name for an asset."""
    if not name_ok(name):
        raise invalid(field, "1 to 255 characters, none of them a control character")


Filtered = Query(
    "", max_length=MAX_TEXT, pattern=NO_NUL, description="In the language of the page's filter."
)
"""A list's filter, as its page takes it."""


def filtered(form_class: type[VocabularyForm], text: str, **narrower: Any) -> Any:
    """Return the rows of a list that pass a filter and further parameters of the operation.

    narrower: by key; `word` for a part of a name. Raises Problem 422.
    """
    query = {name: value for name, value in narrower.items() if value}
    form = form_class(query | ({"q": text} if text else {}))
    if not form.is_valid():
        raise invalid("filter", " ".join(map(str, form.errors["q"])))
    return form.rows()
