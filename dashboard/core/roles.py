"""Who may do what: three roles, kept as groups."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Literal

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, User

# What a role allows and a token is made for. metrics: the figures on `/metrics`.
Action = Literal["read", "command", "report", "metrics"]


class Role(StrEnum):
    """A role's value is the name of its group. Of several roles the strongest counts."""

    ADMIN = "admin"
    OPERATOR = "operator"
    MANAGER = "manager"


OPERATORS = frozenset((Role.ADMIN, Role.OPERATOR))
"""Who runs the board. What is theirs alone is not a manager's, who only reads."""


_ALL: frozenset[Action] = frozenset(("read", "command", "report", "metrics"))

ALLOWED: dict[Role, frozenset[Action]] = {
    Role.ADMIN: _ALL,
    Role.OPERATOR: _ALL,
    Role.MANAGER: frozenset(("read", "metrics")),
}


def role_of(user: AbstractBaseUser | AnonymousUser) -> Role | None:
    """Return the user's role; None for the anonymous, the inactive and users without one.

    Asks the database.
    """
    if not isinstance(user, User) or not user.is_active:
        return None
    if user.is_superuser:
        return Role.ADMIN
    groups = set(user.groups.values_list("name", flat=True))
    return next((role for role in Role if role.value in groups), None)


def may(user: AbstractBaseUser | AnonymousUser, action: Action) -> bool:
    """Return whether the user's role allows `action`."""
    role = role_of(user)
    return role is not None and action in ALLOWED[role]


def lapsed(user_id: int | None, name: str, action: Action) -> str:
    """Return why nothing that needs `action` is done in this user's name any more; empty if it is.

    For what the worker does later than it was asked for: asks the database.
    """
    user = User.objects.filter(pk=user_id).first() if user_id is not None else None
    if user is None:
        return f"{name} is no user any more"
    if not user.is_active:
        return f"{name} is deactivated"
    return "" if may(user, action) else f"{name} has no role any more that may {action}"


def whom_to_ask() -> Iterable[str]:
    """Return the names of the admins, who can give a role: at most ten, in order."""
    admins = User.objects.filter(is_active=True, groups__name=Role.ADMIN.value)
    supers = User.objects.filter(is_active=True, is_superuser=True)
    return (admins | supers).distinct().order_by("username").values_list("username", flat=True)[:10]
