"""A user's own sessions, and all API tokens for admins."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from dashboard.accounts import sessions
from dashboard.accounts.models import ApiToken
from dashboard.audit.log import Actor, note
from dashboard.core.access import role_required
from dashboard.core.roles import Role

MOST_TOKENS = 1_000
"""Most tokens that are listed, the last made first."""


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@role_required("read")
def own_sessions(request: HttpRequest) -> HttpResponse:
    """Return the page of the user's sessions; end one of them, or all others."""
    user, key = request.user, request.session.session_key
    assert isinstance(user, User)
    if request.method != "POST":
        places = sessions.places(user, key)
        return render(request, "accounts/sessions.html", {"places": places})
    ended = sessions.end_chosen(user, request.POST, but=key)
    note(Actor.of(request), "session.ended", target=user.username, sessions=ended)
    messages.success(request, f"Sessions that ended: {ended}.")
    return redirect("accounts:sessions")


@require_safe
@never_cache
@role_required("read", frozenset((Role.ADMIN,)))
def all_tokens(request: HttpRequest) -> HttpResponse:
    """Return the page of all users' tokens that are not revoked."""
    now = timezone.now()
    rows = ApiToken.objects.filter(revoked_at=None).select_related("user")
    tokens = list(rows.order_by("-created_at")[:MOST_TOKENS])
    context = {
        "tokens": [(token, token.expired(now)) for token in tokens],
        "more": rows.count() - len(tokens) if len(tokens) == MOST_TOKENS else 0,
    }
    return render(request, "accounts/all_tokens.html", context)
