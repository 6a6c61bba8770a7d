"""Management of users by admins, and the users of the demo."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from allauth.mfa.models import Authenticator
from django.contrib.auth.models import Group, User
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.db.models import Q

from dashboard.core.accounts.models import FirstPassword
from dashboard.core.accounts.sessions import end_all
from dashboard.core.audit.log import Actor, record
from dashboard.core.common.access import Role, role_of

# ---- demo ----------------------------------------------------------------------------------------
# The demo's users: one per role, with passwords generated once and kept in a file.
#
# They exist for the demo alone: if the demo is off, they are deactivated at startup. A user whose
# password is no longer the one in the file belongs to somebody, and stays.

DEMO_LOGINS = "demo-logins.json"
# The group of users whose password the demo generated, besides that of their role. Grants nothing.
DEMO = "demo"


def ensure_demo_users(data_dir: Path) -> dict[str, str]:
    """Ensure that there is one user per role, and return their passwords by name.

    The passwords are those in `data_dir/demo-logins.json`. A user who exists keeps the password and
    the groups. A user with a demo password that is not in the file gets a new one; so does a
    deactivated user without a password, who is reactivated. Raises OSError if the file cannot be
    written, ValueError if it is not a JSON table.
    """
    path = data_dir / DEMO_LOGINS
    kept = _read(path)
    names = [role.value for role in Role if role.value in kept or _to_be_made(role.value)]
    logins = {name: kept.get(name) or secrets.token_urlsafe(9) for name in names}
    if logins != kept:
        _write(path, logins)
    for name, password in logins.items():
        _ensure_user(name, password, renew=name not in kept)
    return logins


def retire_demo_users(data_dir: Path, now: datetime) -> list[str]:
    """Deactivate the demo's users and return their names.

    Their passwords, sessions and tokens are removed, as are their entries in the file. A user with
    a password of their own is not a demo user: the password is compared with the one in the file,
    or, if the file does not have the name, membership of the group DEMO decides. Raises OSError if
    the file cannot be written, ValueError if it is not a JSON table.
    """
    path = data_dir / DEMO_LOGINS
    kept = _read(path)
    demos = Q(username__in=list(kept)) | Q(groups__name=DEMO)
    users = [user for user in User.objects.filter(demos).distinct() if _is_demo(user, kept)]
    for user in users:
        _let_go(user, now)
    if kept:
        _write(path, {})
    User.groups.through.objects.filter(group__name=DEMO).delete()
    return sorted(user.get_username() for user in users)


def release_from_demo(user: User) -> None:
    """Record that a user no longer has a password of the demo's, and is no longer a demo user."""
    user.groups.remove(*Group.objects.filter(name=DEMO))


def _to_be_made(name: str) -> bool:
    """Return whether the demo may set this user's password: no such user, or a demo user."""
    user = User.objects.filter(username=name).first()
    return user is None or _is_gone(user) or user.groups.filter(name=DEMO).exists()


def _is_gone(user: User) -> bool:
    return not user.is_active and not user.has_usable_password()


def _is_demo(user: User, kept: Mapping[str, str]) -> bool:
    password = kept.get(user.get_username())
    return user.has_usable_password() and (password is None or user.check_password(password))


def _let_go(user: User, now: datetime) -> None:
    user.set_unusable_password()
    user.is_active = False
    user.save(update_fields=["password", "is_active"])
    sessions = end_all(user)
    tokens = user.api_tokens.in_force(now).update(revoked_at=now)
    name, actor = user.get_username(), Actor.system("start")
    record(actor, "user.deactivated", target=name, demo="off", sessions=sessions, tokens=tokens)


def _ensure_user(name: str, password: str, renew: bool) -> None:
    if renew or not User.objects.filter(username=name).exists():
        _check(name, password)
    user, created = User.objects.get_or_create(username=name)
    back = not created and renew and _is_gone(user)
    if created or renew:
        user.set_password(password)
        user.is_active = user.is_active or back
        user.save()
    if created:
        user.groups.add(Group.objects.get(name=name))
    if user.check_password(password):
        user.groups.add(Group.objects.get_or_create(name=DEMO)[0])
    if back:
        record(Actor.system("start"), "user.reactivated", target=name, demo="on")


def _check(name: str, password: str) -> None:
    try:
        validate_password(password, User(username=name))
    except ValidationError as error:
        raise ValueError(f"{DEMO_LOGINS}: {name}: {' '.join(error.messages)}") from None


def _read(path: Path) -> dict[str, str]:
    try:
        logins = json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    if not isinstance(logins, dict):
        raise ValueError(  # noqa: TRY004 - what the file says is wrong, not a type
            f"{path}: expected a JSON table of passwords by user name"
        )
    return {str(name): str(password) for name, password in logins.items()}


def _write(path: Path, logins: dict[str, str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".new")
    draft.touch(mode=0o600)
    draft.chmod(0o600)
    draft.write_text(json.dumps(logins, indent=2))
    draft.replace(path)


# ---- user management -----------------------------------------------------------------------------
# Management of users by admins: creating them, changing their role, deactivating them, and giving
# them a password for one login.
#
# A change that would leave no active admin is refused, even if two admins make such changes at the
# same time.

# The characters of passwords that are read aloud: none looks like another.
ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"
# The number of groups in a one-time password, and of letters in each: about 79 bits.
GROUPS, LETTERS = 4, 4
# How long such a password is valid.
GOOD_FOR = timedelta(days=7)


class UserChangeRefused(ValueError):
    """An admin's request is refused; the message says why in a sentence."""


def create_user(name: str, role: Role, now: datetime) -> tuple[User, str]:
    """Create a user with this role, and return the user and the password for the first login.

    Raises UserChangeRefused.
    """
    if User.objects.filter(username__iexact=name).exists():
        raise UserChangeRefused(f"A user {name} exists already.")
    password = one_time_password()
    try:
        with transaction.atomic():
            user = User.objects.create_user(username=name, password=password)
            user.groups.add(_group(role))
            _to_be_changed(user, now)
    except IntegrityError as error:  # somebody created the same user at the same time
        raise UserChangeRefused(f"A user {name} exists already.") from error
    return user, password


def set_role(admin: User, user: User, role: Role | None) -> Role | None:
    """Give the user this role, or none, and return the previous role. Raises UserChangeRefused."""
    with _one_at_a_time():
        user.refresh_from_db()
        before = role_of_person(user)
        if role is not Role.ADMIN and before is Role.ADMIN:
            if user.pk == admin.pk:
                raise UserChangeRefused(
                    "You cannot take your own admin role away; ask another admin."
                )
            _leaves_an_admin(user, "given another role")
            User.objects.filter(pk=user.pk).update(is_superuser=False)
        user.groups.remove(*Group.objects.filter(name__in=[each.value for each in Role]))
        if role is not None:
            user.groups.add(_group(role))
    user.refresh_from_db()
    return before


class RevokedAccess(NamedTuple):
    """How many sessions, and how many API tokens in force, a user has lost."""

    sessions: int
    tokens: int


def deactivate_user(admin: User, user: User, now: datetime) -> RevokedAccess:
    """Deactivate the user: their login, pages, sockets and tokens stop working.

    Return what was revoked. Raises UserChangeRefused.
    """
    with _one_at_a_time():
        if user.pk == admin.pk:
            raise UserChangeRefused("You cannot deactivate yourself; ask another admin.")
        user.refresh_from_db()
        _leaves_an_admin(user, "deactivated")
        if not User.objects.filter(pk=user.pk, is_active=True).update(is_active=False):
            raise UserChangeRefused(f"{user.get_username()} is deactivated already.")
    return _user_management_let_go(user, now)


def reactivate_user(user: User) -> None:
    """Reactivate the user, who may then log in and create tokens. Raises UserChangeRefused."""
    if not User.objects.filter(pk=user.pk, is_active=False).update(is_active=True):
        raise UserChangeRefused(f"{user.get_username()} is active already.")


def reset_password(admin: User, user: User, now: datetime) -> tuple[str, RevokedAccess]:
    """Give the user a new password to be changed at its first use; end their sessions and tokens.

    Return the password, and what was revoked. Raises UserChangeRefused.
    """
    if user.pk == admin.pk:
        raise UserChangeRefused("Change your own password under Account.")
    password = one_time_password()
    user.set_password(password)
    with transaction.atomic():
        user.save(update_fields=["password"])
        _to_be_changed(user, now)
        release_from_demo(user)
    return password, _user_management_let_go(user, now)


def _user_management_let_go(user: User, now: datetime) -> RevokedAccess:
    return RevokedAccess(end_all(user), user.api_tokens.revoke_all(now))


def remove_factor(user: User) -> None:
    """Remove the user's second factor and its recovery codes.

    Raises UserChangeRefused if there is none.
    """
    if not Authenticator.objects.filter(user=user).delete()[0]:
        raise UserChangeRefused(f"{user.get_username()} has no second factor.")


def one_time_password() -> str:
    """Return a random password that is easy to read aloud."""
    groups = ("".join(secrets.choice(ALPHABET) for _ in range(LETTERS)) for _ in range(GROUPS))
    return "-".join(groups)


def role_of_person(user: User) -> Role | None:
    """Return the role of a user, active or not."""
    if user.is_active:
        return role_of(user)
    return Role.ADMIN if user.is_superuser else strongest(_roles(user))


def strongest(names: set[str]) -> Role | None:
    """Return the role that applies to a user in groups with these names."""
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

    SQLite only has one writer; on PostgreSQL this takes a lock.
    """
    with transaction.atomic():
        list(Group.objects.select_for_update().filter(name=Role.ADMIN.value))
        yield


def _leaves_an_admin(user: User, become: str) -> None:
    """Raise UserChangeRefused if no other active admin would be left."""
    admins = User.objects.filter(Q(groups__name=Role.ADMIN.value) | Q(is_superuser=True))
    others = admins.filter(is_active=True).exclude(pk=user.pk)
    if role_of_person(user) is Role.ADMIN and not others.exists():
        name = user.get_username()
        raise UserChangeRefused(f"{name} is the last active admin and cannot be {become}.")
