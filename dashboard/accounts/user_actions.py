"""Actions of an admin on a user, from the user's page."""

from __future__ import annotations

from collections.abc import Callable

from allauth.account.decorators import reauthentication_required
from django.contrib import messages
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.utils import timezone
from django.views.decorators.cache import never_cache

from dashboard.accounts import sessions, tokens, user_management
from dashboard.accounts.user_forms import RoleForm
from dashboard.accounts.user_management import Refused
from dashboard.accounts.user_views import ADMINS, user_page
from dashboard.audit.log import Actor, note
from dashboard.core.access import form_of, role_required, user_of


@form_of("users:user", "number")
@role_required("read", ADMINS)
@reauthentication_required
def change_role(request: HttpRequest, number: int) -> HttpResponse:
    """Give a user another role."""
    user, form = get_object_or_404(User, pk=number), RoleForm(request.POST)
    if not form.is_valid():
        return user_page(request, user, form=form, status=422)
    role = form.role_of()
    try:
        before = user_management.set_role(user_of(request), user, role)
    except Refused as refused:
        facts = {"to": str(role or "none")}
        return _refused(request, user, "user.role", refused, form=form, **facts)
    roles = {"before": str(before or "none"), "to": str(role or "none")}
    note(Actor.of(request), "user.role", target=user.username, **roles)
    messages.success(request, f"{user.username} has {roles['to']} as role now." if role else
                     f"{user.username} has no role now.")  # fmt: skip
    return redirect("users:user", user.pk)


@form_of("users:user", "number")
@role_required("read", ADMINS)
@reauthentication_required
def deactivate(request: HttpRequest, number: int) -> HttpResponse:
    """Deactivate a user."""

    def do(user: User) -> str:
        ended = user_management.deactivate(user_of(request), user, timezone.now())
        note(Actor.of(request), "user.deactivated", target=user.username, **ended._asdict())
        return (
            f"{user.username} is deactivated; sessions that ended: {ended.sessions}, tokens "
            f"revoked: {ended.tokens}."
        )

    return _do(request, number, "user.deactivated", do)


@form_of("users:user", "number")
@role_required("read", ADMINS)
@reauthentication_required
def reactivate(request: HttpRequest, number: int) -> HttpResponse:
    """Reactivate a user."""

    def do(user: User) -> str:
        user_management.reactivate(user)
        note(Actor.of(request), "user.reactivated", target=user.username)
        return f"{user.username} is active again."

    return _do(request, number, "user.reactivated", do)


@form_of("users:user", "number")
@never_cache
@role_required("read", ADMINS)
@reauthentication_required
def reset_password(request: HttpRequest, number: int) -> HttpResponse:
    """Give a user a password for one login, shown this once."""
    user = get_object_or_404(User, pk=number)
    try:
        password, ended = user_management.reset_password(user_of(request), user, timezone.now())
    except Refused as refused:
        return _refused(request, user, "user.password-reset", refused)
    note(Actor.of(request), "user.password-reset", target=user.username, **ended._asdict())
    return user_page(request, user, password=password)


@form_of("users:user", "number")
@role_required("read", ADMINS)
@reauthentication_required
def remove_factor(request: HttpRequest, number: int) -> HttpResponse:
    """Take a user's second factor away, as when the phone is lost."""

    def do(user: User) -> str:
        user_management.remove_factor(user)
        note(Actor.of(request), "factor.removed", target=user.username, by="an admin")
        return f"{user.username} logs in with the password alone now."

    return _do(request, number, "factor.removed", do)


@form_of("users:user", "number")
@role_required("read", ADMINS)
def end_sessions(request: HttpRequest, number: int) -> HttpResponse:
    """End a user's sessions, or the one that the form names; never the request's own."""
    user, own = get_object_or_404(User, pk=number), request.session.session_key
    ended = sessions.end_chosen(user, request.POST, but=own)
    note(Actor.of(request), "session.ended", target=user.username, sessions=ended)
    messages.success(request, f"Sessions that ended: {ended}.")
    return redirect("users:user", user.pk)


@form_of("users:user", "number")
@role_required("read", ADMINS)
def revoke_token(request: HttpRequest, number: int) -> HttpResponse:
    """Revoke one of a user's tokens."""
    user, prefix = get_object_or_404(User, pk=number), request.POST.get("prefix", "")
    if tokens.revoke(user, prefix, timezone.now()):
        note(Actor.of(request), "token.revoked", target=user.username, token=prefix)
        messages.success(request, f"Token {prefix} is revoked.")
    else:
        messages.info(request, "There is no such token; it may have been revoked already.")
    if request.POST.get("back") == "tokens":
        return redirect("accounts:all-tokens")
    return redirect("users:user", user.pk)


def _do(request: HttpRequest, number: int, action: str, do: Callable[[User], str]) -> HttpResponse:
    """Carry out an action and report it, or show the page with why it was refused."""
    user = get_object_or_404(User, pk=number)
    try:
        message = do(user)
    except Refused as refused:
        return _refused(request, user, action, refused)
    messages.success(request, message)
    return redirect("users:user", user.pk)


def _refused(
    request: HttpRequest,
    user: User,
    action: str,
    refused: Refused,
    form: RoleForm | None = None,
    **facts: str,
) -> HttpResponse:
    note(Actor.of(request), action, target=user.username, outcome=f"refused: {refused}", **facts)
    user.refresh_from_db()
    return user_page(request, user, form=form, refused=str(refused), status=409)
