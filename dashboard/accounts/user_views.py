"""The pages of users: their list, a user's own page, and what each role may do."""

from __future__ import annotations

from typing import Any

from allauth.account.decorators import reauthentication_required
from allauth.mfa.models import Authenticator
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.utils import timezone
from django.utils.http import urlencode
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from dashboard.accounts import user_management
from dashboard.accounts.models import ApiToken, FirstPassword
from dashboard.accounts.sessions import SESSIONS, places
from dashboard.accounts.tokens import TOKENS
from dashboard.accounts.user_forms import RoleForm, SearchForm, UserForm
from dashboard.accounts.user_list import ROLES, USERS, holders, rights
from dashboard.accounts.user_list import people as listed
from dashboard.accounts.user_management import Refused
from dashboard.audit.log import Actor, note
from dashboard.core.access import role_required
from dashboard.core.listing import number_of
from dashboard.core.pages import render_page
from dashboard.core.roles import Role
from dashboard.core.tables import Pager
from dashboard.core.times import now_ms

ADMINS = frozenset((Role.ADMIN,))


@require_safe
@never_cache
@role_required("read", ADMINS)
def users(request: HttpRequest) -> HttpResponse:
    """Return the page of every user, or of those whose name has a text."""
    form = SearchForm(request.GET)
    valid = form.is_valid()
    q, after = form.cleaned_data.get("q", ""), number_of(request.GET.get("after", ""))
    found = listed(q, timezone.now(), after) if valid else None
    query = urlencode({"q": q}) if q else ""
    context = {
        "now": now_ms(),
        "form": form,
        "table": USERS,
        "found": found,
        "pager": Pager.by_key(query, "after", after, found.following if found else None),
        "address": request.get_full_path(),
    }
    return render_page(request, "accounts/users", context, status=200 if valid else 422)


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@role_required("read", ADMINS)
@reauthentication_required(allow_get=True)
def new_user(request: HttpRequest) -> HttpResponse:
    """Return the form that makes a user; then the password for the first login, shown this once."""
    form = UserForm(request.POST if request.method == "POST" else None)
    if not form.is_bound or not form.is_valid():
        status = 422 if form.is_bound else 200
        return render(request, "accounts/new_user.html", {"form": form}, status=status)
    try:
        user, password = user_management.create(
            form.cleaned_data["name"], form.role_of(), timezone.now()
        )
    except Refused as refused:
        form.add_error("name", str(refused))
        return render(request, "accounts/new_user.html", {"form": form}, status=409)
    note(Actor.of(request), "user.created", target=user.username, role=form.role_of().value)
    return user_page(request, user, password=password, fresh=True)


@require_safe
@never_cache
@role_required("read", ADMINS)
def user(request: HttpRequest, number: int) -> HttpResponse:
    """Return the page of a user: what is known, and what an admin may change."""
    return user_page(request, get_object_or_404(User, pk=number))


def user_page(
    request: HttpRequest,
    person: User,
    *,
    form: RoleForm | None = None,
    refused: str = "",
    status: int = 200,
    **more: Any,
) -> HttpResponse:
    """Return the page of a user; `refused`: why a request was refused."""
    role = user_management.role_of_person(person)
    now = timezone.now()
    tokens = ApiToken.objects.filter(user=person, revoked_at=None).order_by("-created_at")
    context = {
        "person": person,
        "person_role": role,
        "own": person.pk == request.user.pk,
        "factors": list(Authenticator.objects.filter(user=person).values_list("type", flat=True)),
        "first_password": FirstPassword.objects.filter(user=person).first(),
        "places": places(person, request.session.session_key),
        "session_table": SESSIONS,
        "tokens": [(token, token.expired(now)) for token in tokens],
        "token_table": TOKENS,
        "form": form or RoleForm(role=role),
        "refused": refused,
    }
    return render(request, "accounts/user.html", context | more, status=status)


@require_safe
@never_cache
@role_required("read", ADMINS)
def roles(request: HttpRequest) -> HttpResponse:
    """Return the page of what each role may do, and how many users have it."""
    context = {"table": ROLES, "roles": list(Role), "rights": rights(), "holders": holders()}
    return render(request, "accounts/roles.html", context)
