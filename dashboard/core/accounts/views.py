"""Users' own sessions and API tokens, all API tokens for admins, and refused forms."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from allauth.account.decorators import reauthentication_required
from django.contrib import messages
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from dashboard.core.accounts import sessions, tokens
from dashboard.core.accounts.forms import TokenForm
from dashboard.core.accounts.login_guard import log_action
from dashboard.core.accounts.models import ApiToken
from dashboard.core.accounts.tokens import ALL_TOKENS
from dashboard.core.audit.log import Actor, record
from dashboard.core.common.access import (
    ALLOWED,
    Role,
    page_of_form,
    role_of,
    role_required,
    takes,
    user_of,
)
from dashboard.core.common.metrics import LIMITED
from dashboard.core.common.tables import NEWEST_FIRST, Pager, number_of, page_after

# ---- session views -------------------------------------------------------------------------------
# A user's own sessions, and all API tokens for admins.

MOST_TOKENS = 1_000
"""Most tokens on a page, the newest first."""


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@role_required("read")
def own_sessions(request: HttpRequest) -> HttpResponse:
    """Show the user's sessions; on POST, end one of them or all others."""
    user, key = user_of(request), request.session.session_key
    if request.method != "POST":
        places = sessions.places(user, key)
        context = {"places": places, "session_table": sessions.SESSIONS}
        return render(request, "accounts/sessions.html", context)
    ended = sessions.end_chosen(user, request.POST, but=key)
    record(Actor.of(request), "session.ended", target=user.username, sessions=ended)
    messages.success(request, f"Sessions that ended: {ended}.")
    return redirect("accounts:sessions")


@require_safe
@never_cache
@role_required("read", frozenset((Role.ADMIN,)))
@takes("after")
def all_tokens(request: HttpRequest) -> HttpResponse:
    """Show the tokens of all users that are not revoked."""
    now = timezone.now()
    rows = ApiToken.objects.not_revoked().select_related("user")
    after = number_of(request.GET.get("after", ""))
    page = page_after(rows, NEWEST_FIRST, MOST_TOKENS, after)
    context = {
        "tokens": [(token, token.expired(now)) for token in page.rows],
        "token_table": ALL_TOKENS,
        "pager": Pager.by_key("", "after", after, page.following),
    }
    return render(request, "accounts/all_tokens.html", context)


# ---- token views ---------------------------------------------------------------------------------
# A user's own API tokens.


@require_http_methods(["GET", "POST"])
@never_cache
@role_required("read")
def tokens_page(request: HttpRequest) -> HttpResponse:
    """Show the user's tokens; on POST, create one (shown only then) or revoke one."""
    if request.method == "GET":
        return _page(request, _form(request))
    if "revoke" in request.POST:
        return _revoke(request, request.POST["revoke"])
    made: HttpResponse = _make(request)
    return made


def _revoke(request: HttpRequest, prefix: str) -> HttpResponse:
    """Revoke a token without asking for the password, as it may be urgent."""
    user = user_of(request)
    if user.api_tokens.revoke(prefix, timezone.now()):
        record(Actor.of(request), "token.revoked", target=user.username, token=prefix)
    return redirect("accounts:tokens")


@reauthentication_required
def _make(request: HttpRequest) -> HttpResponse:
    """Create a token after the user has reauthenticated, as it outlives the session."""
    form = _form(request, request.POST)
    made = _issued(form, user_of(request), timezone.now())
    if not made:
        return _page(request, form, status=422)
    tokens.log_issued(Actor.of(request), made)
    return _page(request, _form(request), made)


def _form(request: HttpRequest, data: Mapping[str, Any] | None = None) -> TokenForm:
    role = role_of(user_of(request))
    return TokenForm(ALLOWED[role] if role else (), data)


def _page(request: HttpRequest, form: TokenForm, made: str = "", status: int = 200) -> HttpResponse:
    now = timezone.now()
    rows = user_of(request).api_tokens.not_revoked().order_by("-created_at", "-pk")
    context = {
        "tokens": [(row, row.expired(now)) for row in rows],
        "token_table": tokens.TOKENS,
        "own": True,
        "made": made,
        "form": form,
    }
    return render(request, "accounts/tokens.html", context, status=status)


def _issued(form: TokenForm, user: User, now: datetime) -> str:
    """Return the new token, or an empty string if the form has errors."""
    if not form.is_valid():
        return ""
    data = form.cleaned_data
    try:
        return tokens.issue(user, now, data["label"], data["scopes"], form.expires_at(now))
    except tokens.TooManyTokens as error:
        LIMITED.labels("tokens").inc()
        form.add_error(None, str(error))
        return ""


def too_many(request: HttpRequest) -> HttpResponse:
    """Show the page (429) after too many logins, or account changes, from one address."""
    LIMITED.labels("account").inc()
    return render(request, "429.html", status=429)


# ---- login guard ---------------------------------------------------------------------------------
# The page shown when a form without a valid CSRF token is refused.


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:  # noqa: ARG001 - Django's
    """Log that a form was refused, and show the page that says so (403) and leads back to it."""
    log_action(request, "form-refused")
    return render(request, "403_csrf.html", {"back": page_of_form(request)}, status=403)
