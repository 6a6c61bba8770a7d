"""A user's own API tokens."""

from __future__ import annotations

from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from dashboard.accounts import tokens
from dashboard.accounts.access import role_required
from dashboard.accounts.models import ApiToken


@require_http_methods(["GET", "POST"])
@never_cache
@role_required("read")
def tokens_page(request: HttpRequest) -> HttpResponse:
    """List the user's tokens; make one, shown this once, or revoke one."""
    assert isinstance(request.user, User)
    now, made = timezone.now(), ""
    if request.method == "POST" and "revoke" in request.POST:
        tokens.revoke(request.user, request.POST["revoke"], now)
        return redirect("accounts:tokens")
    if request.method == "POST":
        made = tokens.issue(request.user, now, request.POST.get("label", "")[:100])
    rows = ApiToken.objects.filter(user=request.user, revoked_at=None).order_by("-created_at")
    return render(request, "accounts/tokens.html", {"tokens": rows, "made": made})
