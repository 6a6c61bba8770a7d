"""Users made, changed and deactivated by admins, and those of the demo."""

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
# The demo's users: one per role, their passwords made up once and kept in a file.
#
# They are for the demo alone: where that is off they are let go at the start. One whose password is
# not the file's any more is somebody's own, and stays.

DEMO_LOGINS = "demo-logins.json"
# The group of users whose password the demo made, beside that of their role. It gives no right.
DEMO = "demo"


def ensure_demo_users(data_dir: Path) -> dict[str, str]:
    """Ensure one user per role. Returns their passwords by name, as in `data_dir/demo-logins.json`.

    A user who exists keeps the password and the groups. One with a password of the demo's that the
    file does not know gets a new one; so does one who was deactivated, who is active again. Raises
    OSError when the file cannot be written, ValueError when it is no JSON table.
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
    """Deactivate the demo's users. Returns their names.

    They are left without a password, session or token, and the file forgets them. A user with a
    password of their own is not one of them: the password is compared with the file's, and where
    the file does not have the name, membership of the group DEMO decides. Raises OSError when the
    file cannot be written, ValueError when it is no JSON table.
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
    """Note that the user has a password that the demo did not make, so is no longer the demo's."""
    user.groups.remove(*Group.objects.filter(name=DEMO))


def _to_be_made(name: str) -> bool:
    """Return whether the demo makes this user's password: there is none, or it is the demo's."""
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
# Management of users by admins: making them, giving them a role, deactivating them, giving them a
# password for one login.
#
# A change that would leave the product without an active admin is refused, also where two admins
# make such changes at once.

# Of passwords that are read to somebody: nothing that looks like something else.
ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"
# A password for one login: so many groups of so many of them, about 79 bits.
GROUPS, LETTERS = 4, 4
# How long such a password lets somebody in.
GOOD_FOR = timedelta(days=7)


class UserChangeRefused(ValueError):
    """An admin's request that is refused: why, in a sentence."""


def create_user(name: str, role: Role, now: datetime) -> tuple[User, str]:
    """Make a user with this role.

    Returns the user and the password for the first login. Raises Refused.
    """
    if User.objects.filter(username__iexact=name).exists():
        raise UserChangeRefused(f"A user {name} exists already.")
    password = one_time_password()
    try:
        with transaction.atomic():
            user = User.objects.create_user(username=name, password=password)
            user.groups.add(_group(role))
            _to_be_changed(user, now)
    except IntegrityError as error:  # somebody made the same one at once
        raise UserChangeRefused(f"A user {name} exists already.") from error
    return user, password


def set_role(admin: User, user: User, role: Role | None) -> Role | None:
    """Give the user this role, or none. Returns the role before. Raises Refused."""
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
    """The number of sessions, and of API tokens in force, that a user has lost."""

    sessions: int
    tokens: int


def deactivate_user(admin: User, user: User, now: datetime) -> RevokedAccess:
    """Deactivate the user: no login, page, socket or token of theirs works any more.

    Raises Refused.
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
    """Reactivate the user, who may log in again and make new tokens. Raises Refused."""
    if not User.objects.filter(pk=user.pk, is_active=False).update(is_active=True):
        raise UserChangeRefused(f"{user.get_username()} is active already.")


def reset_password(admin: User, user: User, now: datetime) -> tuple[str, RevokedAccess]:
    """Give the user a new password, to be changed at its first use; sessions and tokens end.

    Returns the password, and what ended. Raises Refused.
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

    Raises Refused where there is none.
    """
    if not Authenticator.objects.filter(user=user).delete()[0]:
        raise UserChangeRefused(f"{user.get_username()} has no second factor.")


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
        raise UserChangeRefused(f"{name} is the last active admin and cannot be {become}.")
