"""Keeping pages to those whose role allows them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import wraps
from typing import Any, cast
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.models import User
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseNotAllowed
from django.shortcuts import redirect, render, resolve_url
from django.urls import reverse

from dashboard.core.roles import ALLOWED, Action, Role, role_of, whom_to_ask

View = Callable[..., HttpResponseBase]


EVERY_ROLE = frozenset(Role)


def role_required(action: Action, among: Collection[Role] = EVERY_ROLE) -> Callable[[View], View]:
    """Let only users reach the view whose role is `among` these and allows `action`.

    The anonymous are sent to the login and back; without a role, or with one that does not allow
    it, a page (403) says whom to ask.
    """

    def decorate(view: View) -> View:
        @wraps(view)
        def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            if not request.user.is_authenticated:
                return _to_login(request)
            role = role_of(request.user)
            if role is None or role not in among or action not in ALLOWED[role]:
                return refusal(request, role, action, among)
            return view(request, *args, **kwargs)

        # The login is asked for here, so that a fragment can move the whole page there.
        return cast("View", login_not_required(guarded))

    return decorate


def form_of(page: str, *parts: str) -> Callable[[View], View]:
    """Let only what a form sends reach the view; redirect anyone who loads its address to `page`.

    page: the name of the address of the page that has the form, or a like one where this has no
    address of its own; parts: which of the view's arguments that address has.
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
    """Return the page (403) that says what is missing and who can give it."""
    context = {
        "role": role,
        "needed": [able for able in Role if able in among and action in ALLOWED[able]],
        "admins": whom_to_ask(),
    }
    name = "accounts/_refusal.html" if is_fragment(request) else "accounts/refusal.html"
    return render(request, name, context, status=403)


def user_of(request: HttpRequest) -> User:
    """Return who asks, where `role_required` has let them in."""
    assert isinstance(request.user, User)
    return request.user


def is_fragment(request: HttpRequest) -> bool:
    """Return whether htmx asks, for a part of a page."""
    return request.headers.get("HX-Request") == "true" and not request.headers.get("HX-Boosted")


def _to_login(request: HttpRequest) -> HttpResponse:
    if not is_fragment(request):
        back = request.get_full_path() if request.method == "GET" else "/"
        return redirect_to_login(back)
    # A redirect would be followed within the fragment; this header moves the whole page.
    page = urlsplit(request.headers.get("HX-Current-URL", ""))
    back = f"{page.path}?{page.query}".removesuffix("?")
    to = redirect_to_login(back).url if back else resolve_url(settings.LOGIN_URL)
    return HttpResponse(status=401, headers={"HX-Redirect": to})
