"""A user's own sessions, and all API tokens for admins."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from dashboard.accounts import sessions
from dashboard.accounts.models import ApiToken
from dashboard.accounts.tokens import ALL_TOKENS
from dashboard.audit.log import Actor, note
from dashboard.core.access import role_required, user_of
from dashboard.core.listing import NEWEST_FIRST, number_of, page_after
from dashboard.core.roles import Role
from dashboard.core.tables import Pager

MOST_TOKENS = 1_000
"""Most tokens of a page, the last made first."""


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@role_required("read")
def own_sessions(request: HttpRequest) -> HttpResponse:
    """Return the page of the user's sessions; end one of them, or all others."""
    user, key = user_of(request), request.session.session_key
    if request.method != "POST":
        places = sessions.places(user, key)
        context = {"places": places, "session_table": sessions.SESSIONS}
        return render(request, "accounts/sessions.html", context)
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
    after = number_of(request.GET.get("after", ""))
    page = page_after(rows, NEWEST_FIRST, MOST_TOKENS, after)
    context = {
        "tokens": [(token, token.expired(now)) for token in page.rows],
        "token_table": ALL_TOKENS,
        "pager": Pager.by_key("", "after", after, page.following),
    }
    return render(request, "accounts/all_tokens.html", context)
