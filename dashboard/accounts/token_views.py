"""A user's own API tokens."""

from __future__ import annotations

from datetime import datetime

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
    user, now = user_of(request), timezone.now()
    if request.method == "POST" and "revoke" in request.POST:
        if tokens.revoke(user, request.POST["revoke"], now):
            prefix = request.POST["revoke"]
            note(Actor.of(request), "token.revoked", target=user.username, token=prefix)
        return redirect("accounts:tokens")
    role = role_of(user)
    data = request.POST if request.method == "POST" else None
    form = TokenForm(ALLOWED[role] if role else (), data)
    made = _make(form, user, now) if request.method == "POST" else ""
    if made:
        tokens.note_issued(Actor.of(request), made)
    rows = ApiToken.objects.filter(user=user, revoked_at=None).order_by("-created_at")
    context = {
        "tokens": [(row, row.expired(now)) for row in rows],
        "token_table": tokens.TOKENS,
        "own": True,
        "made": made,
        "form": TokenForm(ALLOWED[role] if role else ()) if made else form,
    }
    refused = request.method == "POST" and not made
    return render(request, "accounts/tokens.html", context, status=422 if refused else 200)


def _make(form: TokenForm, user: User, now: datetime) -> str:
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
