"""The list of users, and what each role may do."""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import datetime
from typing import NamedTuple

from allauth.mfa.models import Authenticator
from django.contrib.auth.models import User

from dashboard.accounts.models import FirstPassword
from dashboard.accounts.sessions import open_sessions
from dashboard.accounts.tokens import SCOPES, in_force
from dashboard.accounts.user_management import strongest
from dashboard.core.listing import Order, Page, page_after
from dashboard.core.navigation import GROUPS
from dashboard.core.roles import ALLOWED, Role
from dashboard.core.tables import Column, Table
from dashboard.core.times import unix_ms

MOST = 500
"""Most users of a page."""
USERS = Table(
    "users", "Name", "Role", "Status", Column.time("Last login"), "Second factor",
    Column.number("Sessions"), Column.number("Tokens"),
)  # fmt: skip
ROLES = Table("", "May", *(Column(role) for role in Role), narrow=True)


class Person(NamedTuple):
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
    """Return the users whose name has this text, by name, after the user of a number."""
    rows = User.objects.filter(username__icontains=q) if q else User.objects.all()
    page = page_after(rows, Order("username", down=False), MOST, after)
    users = page.rows
    ids = [user.pk for user in users]
    groups = _groups(ids)
    factors = set(
        Authenticator.objects.filter(user__in=ids).values_list("user_id", flat=True).distinct()
    )
    first = set(FirstPassword.objects.filter(user__in=ids).values_list("user_id", flat=True))
    tokens = Counter(in_force(now).filter(user__in=ids).values_list("user_id", flat=True))
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


class Right(NamedTuple):
    """An action that roles may be allowed."""

    what: str
    roles: frozenset[Role]


def rights() -> dict[str, list[Right]]:
    """Return what each role may do, from the tables that the product itself goes by."""
    able = [
        Right(text, frozenset(role for role in Role if action in ALLOWED[role]))
        for action, text in SCOPES.items()
    ]
    pages = [
        Right(f"{place.title}: {place.hint}", place.roles)
        for places in GROUPS.values()
        for place in places
    ]
    return {"Over the board and the API": able, "Pages of the console": pages}
