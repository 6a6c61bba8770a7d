"""A user's own API tokens."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from allauth.account.decorators import reauthentication_required
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from dashboard.accounts import tokens
from dashboard.accounts.forms import TokenForm
from dashboard.accounts.models import ApiToken
from dashboard.audit.log import Actor, note
from dashboard.core.access import role_required, user_of
from dashboard.core.metrics import LIMITED
from dashboard.core.roles import ALLOWED, role_of


@require_http_methods(["GET", "POST"])
@never_cache
@role_required("read")
def tokens_page(request: HttpRequest) -> HttpResponse:
    """List the user's tokens; make one, shown this once, or revoke one."""
    if request.method == "GET":
        return _page(request, _form(request))
    if "revoke" in request.POST:
        return _revoke(request, request.POST["revoke"])
    made: HttpResponse = _make(request)
    return made


def _revoke(request: HttpRequest, prefix: str) -> HttpResponse:
    """Revoke a token, at once: that may be urgent."""
    user = user_of(request)
    if tokens.revoke(user, prefix, timezone.now()):
        note(Actor.of(request), "token.revoked", target=user.username, token=prefix)
    return redirect("accounts:tokens")


@reauthentication_required
def _make(request: HttpRequest) -> HttpResponse:
    """Make a token, once the user has given the password again: it outlives the session."""
    form = _form(request, request.POST)
    made = _issued(form, user_of(request), timezone.now())
    if not made:
        return _page(request, form, status=422)
    tokens.note_issued(Actor.of(request), made)
    return _page(request, _form(request), made)


def _form(request: HttpRequest, data: Mapping[str, Any] | None = None) -> TokenForm:
    role = role_of(user_of(request))
    return TokenForm(ALLOWED[role] if role else (), data)


def _page(request: HttpRequest, form: TokenForm, made: str = "", status: int = 200) -> HttpResponse:
    now = timezone.now()
    rows = ApiToken.objects.filter(user=user_of(request), revoked_at=None).order_by("-created_at")
    context = {
        "tokens": [(row, row.expired(now)) for row in rows],
        "token_table": tokens.TOKENS,
        "own": True,
        "made": made,
        "form": form,
    }
    return render(request, "accounts/tokens.html", context, status=status)


def _issued(form: TokenForm, user: User, now: datetime) -> str:
    """Return the new token; an empty text where the form has errors."""
    if not form.is_valid():
        return ""
    wanted = form.cleaned_data
    try:
        return tokens.issue(user, now, wanted["label"], wanted["scopes"], form.expires_at(now))
    except tokens.TooManyTokens as error:
        LIMITED.labels("tokens").inc()
        form.add_error(None, str(error))
        return ""


def too_many(request: HttpRequest) -> HttpResponse:
    """Return the page (429) after too many logins, or changes of a login, from one address."""
    LIMITED.labels("account").inc()
    return render(request, "429.html", status=429)
