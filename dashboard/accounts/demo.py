"""The demo's users: one per role, their passwords made up once and kept in a file.

They are for the demo alone: where that is off they are let go at the start. One whose password is
not the file's any more is somebody's own, and stays.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from django.contrib.auth.models import Group, User
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db.models import Q

from dashboard.accounts.sessions import end_all
from dashboard.accounts.tokens import in_force
from dashboard.audit.log import Actor, note
from dashboard.core.roles import Role

FILE = "demo-logins.json"
# The group of users whose password the demo made, beside that of their role. It gives no right.
DEMO = "demo"


def ensure(data_dir: Path) -> dict[str, str]:
    """Ensure one user per role. Returns their passwords by name, as in `data_dir/demo-logins.json`.

    A user who exists keeps the password and the groups. One with a password of the demo's that the
    file does not know gets a new one; so does one who was deactivated, who is active again. Raises
    OSError when the file cannot be written, ValueError when it is no JSON table.
    """
    path = data_dir / FILE
    kept = _read(path)
    names = [role.value for role in Role if role.value in kept or _to_be_made(role.value)]
    logins = {name: kept.get(name) or secrets.token_urlsafe(9) for name in names}
    if logins != kept:
        _write(path, logins)
    for name, password in logins.items():
        _ensure_user(name, password, renew=name not in kept)
    return logins


def retire(data_dir: Path, now: datetime) -> list[str]:
    """Deactivate the demo's users. Returns their names.

    They are left without a password, session or token, and the file forgets them. A user with a
    password of their own is not one of them: the password is compared with the file's, and where
    the file does not have the name, membership of the group DEMO decides. Raises OSError when the
    file cannot be written, ValueError when it is no JSON table.
    """
    path = data_dir / FILE
    kept = _read(path)
    demos = Q(username__in=list(kept)) | Q(groups__name=DEMO)
    users = [user for user in User.objects.filter(demos).distinct() if _is_demo(user, kept)]
    for user in users:
        _let_go(user, now)
    if kept:
        _write(path, {})
    User.groups.through.objects.filter(group__name=DEMO).delete()
    return sorted(user.get_username() for user in users)


def own(user: User) -> None:
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
    tokens = in_force(now).filter(user=user).update(revoked_at=now)
    name, actor = user.get_username(), Actor.system("start")
    note(actor, "user.deactivated", target=name, demo="off", sessions=sessions, tokens=tokens)


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
        note(Actor.system("start"), "user.reactivated", target=name, demo="on")


def _check(name: str, password: str) -> None:
    try:
        validate_password(password, User(username=name))
    except ValidationError as error:
        raise ValueError(f"{FILE}: {name}: {' '.join(error.messages)}") from None


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
