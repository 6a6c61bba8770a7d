"""Access control: roles, the pages each may open, the query parameters that these take, and rate
limits for users.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import wraps
from typing import Any, Literal, NamedTuple, cast
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, User
from django.contrib.auth.views import redirect_to_login
from django.core.cache import caches
from django.http import (
    HttpRequest,
    HttpResponse,
    HttpResponseBase,
    HttpResponseNotAllowed,
    QueryDict,
)
from django.shortcuts import redirect, render, resolve_url
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme

from dashboard.core.common.metrics import LIMITED

# ---- roles ---------------------------------------------------------------------------------------
# Who may do what: three roles, stored as groups.

# What a role allows and a token is issued for. metrics: the figures on `/metrics`.
Action = Literal["read", "command", "report", "metrics"]


class Role(StrEnum):
    """A role; its value is the name of its group. If a user has several, the strongest counts."""

    ADMIN = "admin"
    OPERATOR = "operator"
    MANAGER = "manager"


OPERATORS = frozenset((Role.ADMIN, Role.OPERATOR))
"""The roles that operate the board. A manager only reads, and is not one of them."""
ADMINS = frozenset((Role.ADMIN,))


_ALL: frozenset[Action] = frozenset(("read", "command", "report", "metrics"))

ALLOWED: dict[Role, frozenset[Action]] = {
    Role.ADMIN: _ALL,
    Role.OPERATOR: _ALL,
    Role.MANAGER: frozenset(("read", "metrics")),
}


def role_of(user: AbstractBaseUser | AnonymousUser) -> Role | None:
    """Return the user's role; None for anonymous or inactive users and those without a role.

    Queries the database.
    """
    if not isinstance(user, User) or not user.is_active:
        return None
    if user.is_superuser:
        return Role.ADMIN
    groups = set(user.groups.values_list("name", flat=True))
    return next((role for role in Role if role.value in groups), None)


def may(user: AbstractBaseUser | AnonymousUser, action: Action) -> bool:
    """Return whether the user's role allows `action`."""
    role = role_of(user)
    return role is not None and action in ALLOWED[role]


def lapsed(user_id: int | None, name: str, action: Action) -> str:
    """Return why the user may no longer do `action`, or ''.

    For work done after the request. Queries the database.
    """
    user = User.objects.filter(pk=user_id).first() if user_id is not None else None
    if user is None:
        return f"{name} is no longer a user"
    if not user.is_active:
        return f"{name} is deactivated"
    return "" if may(user, action) else f"{name} no longer has a role that may {action}"


def whom_to_ask() -> Iterable[str]:
    """Return the names of at most ten admins, in order; they can assign a role."""
    admins = User.objects.filter(is_active=True, groups__name=Role.ADMIN.value)
    supers = User.objects.filter(is_active=True, is_superuser=True)
    return (admins | supers).distinct().order_by("username").values_list("username", flat=True)[:10]


# ---- access --------------------------------------------------------------------------------------
# Restricting pages to roles.

View = Callable[..., HttpResponseBase]


EVERY_ROLE = frozenset(Role)


def role_required(action: Action, among: Collection[Role] = EVERY_ROLE) -> Callable[[View], View]:
    """Restrict a view to users whose role is `among` these and allows `action`.

    Anonymous users are redirected to the login. Users without a role, or with one that does not
    allow the action, get a page (403) that names the admins. A query parameter that the view does
    not take (`takes`) is refused.
    """

    def decorate(view: View) -> View:
        @wraps(view)
        def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            if not request.user.is_authenticated:
                return _to_login(request)
            role = role_of(request.user)
            if role is None or role not in among or action not in ALLOWED[role]:
                return refusal(request, role, action, among)
            return _refused_query(request, view) or view(request, *args, **kwargs)

        # The login is requested here, so that a fragment can redirect the whole page there.
        return cast("View", login_not_required(guarded))

    return decorate


def form_of(page: str, *parts: str) -> Callable[[View], View]:
    """Make a view accept form submissions only; redirect anyone who loads its URL to `page`.

    page: the URL name of the page with the form, or of a similar page if that one has no URL of its
    own; parts: the view's arguments that this URL takes.
    """

    def decorate(view: View) -> View:
        @wraps(view)
        def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            if request.method in ("GET", "HEAD"):
                return redirect(reverse(page, kwargs={part: kwargs[part] for part in parts}))
            if request.method != "POST":
                return HttpResponseNotAllowed(["GET", "HEAD", "POST"])
            return view(request, *args, **kwargs)

        return guarded

    return decorate


def refusal(
    request: HttpRequest, role: Role | None, action: Action, among: Collection[Role] = EVERY_ROLE
) -> HttpResponse:
    """Return the page (403) that says which role is missing and who can assign it."""
    context = {
        "role": role,
        "needed": [able for able in Role if able in among and action in ALLOWED[able]],
        "admins": whom_to_ask(),
    }
    name = "accounts/_refusal.html" if is_fragment(request) else "accounts/refusal.html"
    return render(request, name, context, status=403)


def user_of(request: HttpRequest) -> User:
    """Return the user of a request that `role_required` has let through."""
    assert isinstance(request.user, User)
    return request.user


def is_fragment(request: HttpRequest) -> bool:
    """Return whether htmx requests a part of a page."""
    return request.headers.get("HX-Request") == "true" and not request.headers.get("HX-Boosted")


# ---- parameters ----------------------------------------------------------------------------------
# Query parameters: a view that is open to roles takes those that it names, and no others.

ADDED_BY_OTHERS = ("utm_", "fbclid", "gclid")
"""How parameters begin that mail and chat programs add to links; every page ignores them."""


class Parameters(NamedTuple):
    """The query parameters of a view. One that ends in `*` stands for all that begin so.

    blank: whether they may be blank.
    """

    names: frozenset[str] = frozenset()
    blank: bool = True

    def fault(self, query: QueryDict) -> str:
        """Return what is wrong with a query; empty if nothing is."""
        for name, given in query.lists():
            if not self._has(name) and not name.startswith(ADDED_BY_OTHERS):
                return f"{name}: expected {self.known}; this one is unknown."
            if not self.blank and not all(map(str.strip, given)):
                return f"{name}: expected a value; leave the parameter out to get everything."
        return ""

    def _has(self, name: str) -> bool:
        begins = tuple(own.removesuffix("*") for own in self.names if own.endswith("*"))
        return name in self.names or (bool(begins) and name.startswith(begins))

    @property
    def known(self) -> str:
        """The names in words."""
        return f"one of {', '.join(sorted(self.names))}" if self.names else "no parameter"


def takes(*names: str, blank: bool = True) -> Callable[[View], View]:
    """Declare the query parameters of a view that `role_required` restricts.

    blank: whether they may be blank. Those of a file may not: nothing given is not everything.
    """

    def decorate(view: View) -> View:
        setattr(view, "parameters", Parameters(frozenset(names), blank))  # noqa: B010 - none of Django's
        return view

    return decorate


def _refused_query(request: HttpRequest, view: View) -> HttpResponse | None:
    """Return the refusal (400) of a query that the view does not take, or None.

    Whoever asks for some rows must not be answered with all.
    """
    parameters = getattr(view, "parameters", Parameters())
    fault = parameters.fault(request.GET)
    if not fault:
        return None
    if is_fragment(request) or not parameters.blank:
        return HttpResponse(fault, status=400, content_type="text/plain; charset=utf-8")
    return render(request, "unknown_parameter.html", {"fault": fault}, status=400)


# ---- login ---------------------------------------------------------------------------------------
# The login, and the way back to the page that asked for it.


def page_of_form(request: HttpRequest) -> str:
    """Return the path and query of the page that a form was sent from; "" if none of this site."""
    page = request.headers.get("Referer", "")
    if not url_has_allowed_host_and_scheme(page, request.get_host(), request.is_secure()):
        return ""
    path = urlsplit(page)._replace(scheme="", netloc="", fragment="").geturl()
    # A browser takes what follows two slashes, of either kind, for a host.
    return "" if path.startswith(("//", "/\\")) else path


def _to_login(request: HttpRequest) -> HttpResponse:
    if not is_fragment(request):
        is_form = request.method == "POST"
        return redirect_to_login(
            (page_of_form(request) or "/") if is_form else request.get_full_path()
        )
    # A redirect would be followed within the fragment; this header redirects the whole page.
    page = urlsplit(request.headers.get("HX-Current-URL", ""))
    back = f"{page.path}?{page.query}".removesuffix("?")
    to = redirect_to_login(back).url if back else resolve_url(settings.LOGIN_URL)
    return HttpResponse(status=401, headers={"HX-Redirect": to})


# ---- rate limits ---------------------------------------------------------------------------------
# How much one user may send in a period.


class TooMany(Exception):
    """A user sent too much. retry_after: seconds until the next window."""

    def __init__(self, what: str, limit: int, window: int, retry_after: int) -> None:
        super().__init__(
            f"At most {limit} {what} in {window} seconds; try again in {retry_after} s."
        )
        self.retry_after = retry_after


@dataclass(frozen=True, slots=True)
class Limit:
    """At most `count` of `what` per user in each window of `window` seconds.

    Counted in a cache that nothing else fills, so that other entries cannot evict a count: per
    process, unless the processes share one through Redis. Of those who are not logged in each
    network counts as a user, in the cache `visitors`.
    """

    what: str
    count: int
    window: int = 60
    cache: str = "limits"

    def take(self, user_id: int | str, now_ms: int, amount: int = 1) -> None:
        """Count `amount`. Raises TooMany, and counts the refusal, if that exceeds the limit."""
        window, passed = divmod(now_ms // 1000, self.window)
        cache = caches[self.cache]
        key = f"limit:{self.what}:{user_id}:{window}"
        cache.add(key, 0, timeout=2 * self.window)
        if cache.incr(key, amount) > self.count:
            cache.decr(key, amount)
            LIMITED.labels(self.what).inc()
            raise TooMany(self.what, self.count, self.window, self.window - passed)


COMMANDS = Limit("commands", 600)
REPORTS = Limit("reports", 600_000)
