"""Management of users by admins: making them, giving them a role, deactivating them, giving them a
password for one login.

A change that would leave the product without an active admin is refused, also where two admins make
such changes at once.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import NamedTuple

from allauth.mfa.models import Authenticator
from django.contrib.auth.models import Group, User
from django.db import IntegrityError, transaction
from django.db.models import Q

from dashboard.accounts import demo
from dashboard.accounts.models import FirstPassword
from dashboard.accounts.sessions import end_all
from dashboard.accounts.tokens import revoke_all
from dashboard.core.roles import Role, role_of

# Of passwords that are read to somebody: nothing that looks like something else.
ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"
# A password for one login: so many groups of so many of them, about 79 bits.
GROUPS, LETTERS = 4, 4
# How long such a password lets somebody in.
GOOD_FOR = timedelta(days=7)


class Refused(ValueError):
    """An admin's request that is refused: why, in a sentence."""


def create(name: str, role: Role, now: datetime) -> tuple[User, str]:
    """Make a user with this role.

    Returns the user and the password for the first login. Raises Refused.
    """
    if User.objects.filter(username__iexact=name).exists():
        raise Refused(f"A user {name} exists already.")
    password = one_time_password()
    try:
        with transaction.atomic():
            user = User.objects.create_user(username=name, password=password)
            user.groups.add(_group(role))
            _to_be_changed(user, now)
    except IntegrityError as error:  # somebody made the same one at once
        raise Refused(f"A user {name} exists already.") from error
    return user, password


def set_role(admin: User, user: User, role: Role | None) -> Role | None:
    """Give the user this role, or none. Returns the role before. Raises Refused."""
    with _one_at_a_time():
        user.refresh_from_db()
        before = role_of_person(user)
        if role is not Role.ADMIN and before is Role.ADMIN:
            if user.pk == admin.pk:
                raise Refused("You cannot take your own admin role away; ask another admin.")
            _leaves_an_admin(user, "given another role")
            User.objects.filter(pk=user.pk).update(is_superuser=False)
        user.groups.remove(*Group.objects.filter(name__in=[each.value for each in Role]))
        if role is not None:
            user.groups.add(_group(role))
    user.refresh_from_db()
    return before


class Ended(NamedTuple):
    """The number of sessions, and of API tokens in force, that a user has lost."""

    sessions: int
    tokens: int


def deactivate(admin: User, user: User, now: datetime) -> Ended:
    """Deactivate the user: no login, page, socket or token of theirs works any more.

    Raises Refused.
    """
    with _one_at_a_time():
        if user.pk == admin.pk:
            raise Refused("You cannot deactivate yourself; ask another admin.")
        user.refresh_from_db()
        _leaves_an_admin(user, "deactivated")
        if not User.objects.filter(pk=user.pk, is_active=True).update(is_active=False):
            raise Refused(f"{user.get_username()} is deactivated already.")
    return _let_go(user, now)


def reactivate(user: User) -> None:
    """Reactivate the user, who may log in again and make new tokens. Raises Refused."""
    if not User.objects.filter(pk=user.pk, is_active=False).update(is_active=True):
        raise Refused(f"{user.get_username()} is active already.")


def reset_password(admin: User, user: User, now: datetime) -> tuple[str, Ended]:
    """Give the user a new password, to be changed at its first use; sessions and tokens end.

    Returns the password, and what ended. Raises Refused.
    """
    if user.pk == admin.pk:
        raise Refused("Change your own password under Account.")
    password = one_time_password()
    user.set_password(password)
    with transaction.atomic():
        user.save(update_fields=["password"])
        _to_be_changed(user, now)
        demo.own(user)
    return password, _let_go(user, now)


def _let_go(user: User, now: datetime) -> Ended:
    return Ended(end_all(user), revoke_all(user, now))


def remove_factor(user: User) -> None:
    """Remove the user's second factor and its recovery codes.

    Raises Refused where there is none.
    """
    if not Authenticator.objects.filter(user=user).delete()[0]:
        raise Refused(f"{user.get_username()} has no second factor.")


def one_time_password() -> str:
    """Return a password that can be read out to somebody."""
    groups = ("".join(secrets.choice(ALPHABET) for _ in range(LETTERS)) for _ in range(GROUPS))
    return "-".join(groups)


def role_of_person(user: User) -> Role | None:
    """Return the user's role, whether active or not."""
    if user.is_active:
        return role_of(user)
    return Role.ADMIN if user.is_superuser else strongest(_roles(user))


def strongest(names: set[str]) -> Role | None:
    """Return the role that counts among several groups' names."""
    return next((role for role in Role if role.value in names), None)


def _roles(user: User) -> set[str]:
    return set(user.groups.values_list("name", flat=True))


def _group(role: Role) -> Group:
    return Group.objects.get_or_create(name=role.value)[0]


def _to_be_changed(user: User, now: datetime) -> None:
    FirstPassword.objects.update_or_create(user=user, defaults={"ends_at": now + GOOD_FOR})


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    """Run a transaction that waits for others of its kind.

    SQLite has one writer; PostgreSQL locks.
    """
    with transaction.atomic():
        list(Group.objects.select_for_update().filter(name=Role.ADMIN.value))
        yield


def _leaves_an_admin(user: User, become: str) -> None:
    """Raise Refused where no other active admin would be left."""
    admins = User.objects.filter(Q(groups__name=Role.ADMIN.value) | Q(is_superuser=True))
    others = admins.filter(is_active=True).exclude(pk=user.pk)
    if role_of_person(user) is Role.ADMIN and not others.exists():
        name = user.get_username()
        raise Refused(f"{name} is the last active admin and cannot be {become}.")
