"""User pages: the list, a user's own page, and what admins do there."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from allauth.account.decorators import reauthentication_required
from allauth.mfa.models import Authenticator
from django import forms
from django.contrib import messages
from django.contrib.auth.models import User
from django.contrib.auth.validators import UnicodeUsernameValidator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.utils.decorators import method_decorator
from django.utils.http import urlencode
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from dashboard.core.accounts import sessions as account_sessions
from dashboard.core.accounts import users as account_users
from dashboard.core.accounts.models import ApiToken, FirstPassword
from dashboard.core.accounts.sessions import SESSIONS, open_sessions, places
from dashboard.core.accounts.tokens import SCOPES, TOKENS
from dashboard.core.accounts.users import UserChangeRefused, strongest
from dashboard.core.audit.log import Actor, record
from dashboard.core.common.access import ADMINS, ALLOWED, Role, form_of, role_required, user_of
from dashboard.core.common.forms import FormPage
from dashboard.core.common.lists import ListPage, NoFilter
from dashboard.core.common.navigation import every_page
from dashboard.core.common.tables import (
    Column,
    ListOrder,
    Page,
    Pager,
    Table,
    number_of,
    page_after,
)
from dashboard.core.common.times import unix_ms

# ---- user forms ----------------------------------------------------------------------------------
# Forms in which admins create and change users.

MAX_NAME = 150
LETTERS = "Expected letters, digits and any of @ . + - _."
NONE = "none"
"""The form value for no role."""
ROLE_CHOICES = [(role.value, role.value) for role in reversed(Role)]


class UserForm(forms.Form):
    """A form that creates a user."""

    name = forms.CharField(
        max_length=MAX_NAME,
        validators=[UnicodeUsernameValidator(message=LETTERS)],
    )
    role = forms.ChoiceField(choices=ROLE_CHOICES, initial=Role.MANAGER.value)

    def __init__(self, data: Any = None) -> None:
        super().__init__(data, auto_id="%s")
        self.fields["name"].widget.attrs |= {"autocomplete": "off", "spellcheck": "false"}

    def role_of(self) -> Role:
        """Return the role of a valid form."""
        return Role(self.cleaned_data["role"])


class RoleForm(forms.Form):
    """A form that changes or removes a user's role."""

    role = forms.ChoiceField(choices=[*ROLE_CHOICES, (NONE, "no role")])

    def __init__(self, data: Any = None, role: Role | None = None) -> None:
        initial = {"role": role.value if role else NONE}
        super().__init__(data, auto_id="%s", initial=initial)

    def role_of(self) -> Role | None:
        """Return the role of a valid form, or None."""
        name = self.cleaned_data["role"]
        return None if name == NONE else Role(name)


class SearchForm(NoFilter):
    """A form that searches a list of users."""

    q = forms.CharField(required=False, max_length=MAX_NAME, label="Part of a name")


# ---- user list -----------------------------------------------------------------------------------
# The list of users, and what each role may do.

MOST = 500
"""Most users on a page."""
USERS = Table(
    "users", "Name", "Role", "Status", Column.time("Last login"), "Second factor",
    Column.number("Sessions"), Column.number("Tokens"),
)  # fmt: skip
ROLE_TABLE = Table("", "May", *(Column(role) for role in Role), narrow=True)


@dataclass(frozen=True)
class Person:
    """A user in the list."""

    user: User
    role: Role | None
    factor: bool
    tokens: int
    sessions: int
    first_password: bool

    @property
    def last_login(self) -> int | None:
        """Return when the user last logged in, Unix ms."""
        at = self.user.last_login
        return unix_ms(at)


def people(q: str, now: datetime, after: int | None = None) -> Page[Person]:
    """Return a page of the users whose name contains `q`, by name, past the id `after`."""
    rows = User.objects.filter(username__icontains=q) if q else User.objects.all()
    page = page_after(rows, ListOrder("username", down=False), MOST, after)
    users = page.rows
    ids = [user.pk for user in users]
    groups = _groups(ids)
    factors = set(
        Authenticator.objects.filter(user__in=ids).values_list("user_id", flat=True).distinct()
    )
    first = set(FirstPassword.objects.filter(user__in=ids).values_list("user_id", flat=True))
    tokens = Counter(
        ApiToken.objects.in_force(now).filter(user__in=ids).values_list("user_id", flat=True)
    )
    sessions = Counter(open_sessions().filter(user__in=ids).values_list("user_id", flat=True))
    listed = [
        Person(
            user,
            Role.ADMIN if user.is_superuser else strongest(groups[user.pk]),
            user.pk in factors,
            tokens[user.pk],
            sessions[user.pk] if user.is_active else 0,
            user.pk in first,
        )
        for user in users
    ]
    return Page(listed, page.following)


def _groups(ids: list[int]) -> dict[int, set[str]]:
    groups: dict[int, set[str]] = defaultdict(set)
    pairs = User.groups.through.objects.filter(user__in=ids).values_list("user_id", "group__name")
    for user_id, name in pairs:
        groups[user_id].add(name)
    return groups


def holders() -> dict[Role, int]:
    """Return how many active users have each role."""
    users = User.objects.filter(is_active=True)
    counts = {
        role: users.filter(groups__name=role.value, is_superuser=False).count() for role in Role
    }
    counts[Role.ADMIN] += users.filter(is_superuser=True).count()
    return counts


@dataclass(frozen=True)
class Right:
    """A right that roles may have."""

    what: str
    roles: frozenset[Role]


def rights() -> dict[str, list[Right]]:
    """Return what each role may do, from the tables that the application itself uses."""
    able = [
        Right(text, frozenset(role for role in Role if action in ALLOWED[role]))
        for action, text in SCOPES.items()
    ]
    pages = [Right(f"{page.title}: {page.hint}", page.roles) for page in every_page()]
    return {"Over the board and the API": able, "Pages of the console": pages}


# ---- user views ----------------------------------------------------------------------------------
# User pages: the list, a user's own page, and what each role may do.


class UserList(ListPage):
    """The list of all users, or of those whose name contains a text."""

    form_class = SearchForm
    template = "accounts/users"
    table = USERS
    parameters = ("after",)
    roles = ADMINS

    def list_context(self) -> dict[str, Any]:
        """Return the page's users, None if the filter is invalid, and its pager."""
        valid, after = self.form.is_valid(), number_of(self.request.GET.get("after", ""))
        q = self.form.cleaned_data.get("q", "")
        page = people(q, timezone.now(), after) if valid else None
        query, following = urlencode({"q": q}) if q else "", page and page.following
        return {"page": page, "pager": Pager.by_key(query, "after", after, following)}


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@role_required("read", ADMINS)
@reauthentication_required(allow_get=True)
def new_user(request: HttpRequest) -> HttpResponse:
    """Return the form that creates a user; afterwards, show the first password, this once."""
    form = UserForm(request.POST if request.method == "POST" else None)
    if not form.is_bound or not form.is_valid():
        status = 422 if form.is_bound else 200
        return render(request, "accounts/new_user.html", {"form": form}, status=status)
    try:
        user, password = account_users.create_user(
            form.cleaned_data["name"], form.role_of(), timezone.now()
        )
    except UserChangeRefused as refused:
        form.add_error("name", str(refused))
        return render(request, "accounts/new_user.html", {"form": form}, status=409)
    record(Actor.of(request), "user.created", target=user.username, role=form.role_of().value)
    return user_page(request, user, password=password, fresh=True)


@require_safe
@never_cache
@role_required("read", ADMINS)
def user(request: HttpRequest, number: int) -> HttpResponse:
    """Return a user's page: what is known, and what an admin may change."""
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
    """Return a user's page. refused: why a request was refused."""
    role = account_users.role_of_person(person)
    now = timezone.now()
    tokens = person.api_tokens.not_revoked().order_by("-created_at", "-pk")
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
    """Return the page of what each role may do and how many users have it."""
    context = {"table": ROLE_TABLE, "roles": list(Role), "rights": rights(), "holders": holders()}
    return render(request, "accounts/roles.html", context)


# ---- user actions --------------------------------------------------------------------------------
# An admin's actions on a user, from the user's page.


Done = tuple[str, Mapping[str, Any]]
"""What was done, in words, and the facts for the audit."""


@method_decorator(reauthentication_required, name="dispatch")
class UserAction(FormPage):
    """An admin's action on a user, which needs the admin's password again."""

    queryset = User.objects.all()
    roles = ADMINS
    form_class: Any = forms.Form
    page = "users:user"
    action = ""
    """The action's name in the audit."""

    def act(self, form: Any) -> Done:
        """Perform the action. Raises UserChangeRefused."""
        raise NotImplementedError

    def form_valid(self, form: Any) -> HttpResponse:
        """Perform and audit the action, or show the user's page with the refusal (409)."""
        refused = ""
        try:
            words, facts = self.act(form)
        except UserChangeRefused as error:
            refused = str(error)
            facts = {"outcome": f"refused: {refused}", "to": form.cleaned_data.get("role")}
        record(Actor.of(self.request), self.action, target=self.row.username, **facts)
        if not refused:
            return self.done(words, self.page, self.row.pk)
        self.row.refresh_from_db()
        return self.form_invalid(form, 409, refused=refused)

    def form_invalid(self, form: Any, status: int = 422, **context: Any) -> HttpResponse:
        """Return the user's page with the form as submitted."""
        role_form = form if self.form_class is RoleForm else None
        return user_page(self.request, self.row, form=role_form, status=status, **context)


class RoleChange(UserAction):
    """Change a user's role."""

    form_class = RoleForm
    action = "user.role"

    def act(self, form: RoleForm) -> Done:
        """Set the role. Raises UserChangeRefused."""
        name, role = self.row.username, form.role_of()
        before = account_users.set_role(user_of(self.request), self.row, role)
        words = f"{name} now has the role {role}." if role else f"{name} now has no role."
        return words, {"before": str(before or "none"), "to": str(role or "none")}


class PasswordReset(UserAction):
    """Give a user a password for one login, shown only once."""

    action = "user.password-reset"

    def act(self, _form: forms.Form) -> Done:
        """Reset the password and return it. Raises UserChangeRefused."""
        admin = user_of(self.request)
        password, ended = account_users.reset_password(admin, self.row, timezone.now())
        return password, ended._asdict()

    def done(self, words: str, *_to: Any) -> HttpResponse:
        """Return the user's page with the password."""
        return user_page(self.request, self.row, password=words)


class Deactivation(UserAction):
    """Deactivate a user."""

    action = "user.deactivated"

    def act(self, _form: forms.Form) -> Done:
        """Deactivate the user. Raises UserChangeRefused."""
        ended = account_users.deactivate_user(user_of(self.request), self.row, timezone.now())
        words = f"sessions ended: {ended.sessions}, tokens revoked: {ended.tokens}."
        return f"{self.row.username} is deactivated; {words}", ended._asdict()


class Reactivation(UserAction):
    """Reactivate a user."""

    action = "user.reactivated"

    def act(self, _form: forms.Form) -> Done:
        """Reactivate the user. Raises UserChangeRefused."""
        account_users.reactivate_user(self.row)
        return f"{self.row.username} is reactivated.", {}


class FactorRemoval(UserAction):
    """Remove a user's second factor, for instance when the phone is lost."""

    action = "factor.removed"

    def act(self, _form: forms.Form) -> Done:
        """Remove the second factor. Raises UserChangeRefused."""
        account_users.remove_factor(self.row)
        words = f"{self.row.username} now logs in with the password alone."
        return words, {"by": "an admin"}


@form_of("users:user", "number")
@role_required("read", ADMINS)
def end_sessions(request: HttpRequest, number: int) -> HttpResponse:
    """End the session that the form names, or all of a user's, but never the current one."""
    user, own = get_object_or_404(User, pk=number), request.session.session_key
    ended = account_sessions.end_chosen(user, request.POST, but=own)
    record(Actor.of(request), "session.ended", target=user.username, sessions=ended)
    messages.success(request, f"Sessions that ended: {ended}.")
    return redirect("users:user", user.pk)


@form_of("users:user", "number")
@role_required("read", ADMINS)
def revoke_token(request: HttpRequest, number: int) -> HttpResponse:
    """Revoke one of a user's tokens."""
    user, prefix = get_object_or_404(User, pk=number), request.POST.get("prefix", "")
    if user.api_tokens.revoke(prefix, timezone.now()):
        record(Actor.of(request), "token.revoked", target=user.username, token=prefix)
        messages.success(request, f"Token {prefix} is revoked.")
    else:
        messages.info(request, "There is no such token; it may have been revoked already.")
    if request.POST.get("back") == "tokens":
        return redirect("accounts:all-tokens")
    return redirect("users:user", user.pk)
