"""Passwords that an admin has given for one login: nothing else is shown until they are changed."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone

from dashboard.accounts import demo
from dashboard.accounts.models import FirstPassword
from dashboard.accounts.sessions import end_all
from dashboard.accounts.tokens import find, revoke_all
from dashboard.audit.log import Actor, note
from dashboard.core.access import is_fragment

# In a session: it was begun with such a password.
FLAG = "first_password"


def ended(user: User) -> bool:
    """Return whether the user has such a password and its time is over."""
    return FirstPassword.objects.filter(user=user, ends_at__lte=timezone.now()).exists()


def is_first(user: User) -> bool:
    """Return whether the user has such a password."""
    return FirstPassword.objects.filter(user=user).exists()


def begin(request: HttpRequest, user: User) -> None:
    """Mark the session of a user who has just logged in with such a password."""
    if is_first(user):
        request.session[FLAG] = True


def changed(request: HttpRequest, user: User, **_: Any) -> None:
    """Note the change of the password: it is the user's own now. Other sessions end, and so do the
    user's tokens: whoever knew the old password may have made one."""
    FirstPassword.objects.filter(user=user).delete()
    demo.own(user)
    request.session.pop(FLAG, None)
    end_all(user, but=request.session.session_key)
    if revoked := revoke_all(user, timezone.now()):
        by = "the change of the password"
        note(Actor.of(request), "token.revoked", target=user.username, tokens=revoked, by=by)
        messages.info(request, f"API tokens that were revoked: {revoked}. Make new ones.")


def detour(request: HttpRequest) -> HttpResponse | None:
    """Return a redirect to the change of the password, or a refusal, if it must come first.

    A session is treated alike whatever else the request carries; where tokens count, a token in
    force is checked on its own account.
    """
    if not request.session.get(FLAG):
        return None
    change = reverse("account_change_password")
    if request.path in (change, reverse("account_logout")):
        return None
    if request.path.startswith(("/api/", "/metrics")):
        if _with_token(request):
            return None
        return HttpResponse("The password must be changed first.", status=401)
    if is_fragment(request):
        return HttpResponse(status=401, headers={"HX-Redirect": change})
    return redirect(change)


def _with_token(request: HttpRequest) -> bool:
    """Return whether the request brings a token in force, by which it is then authenticated."""
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    return scheme.lower() == "bearer" and find(token, timezone.now()) is not None
