"""The demo's users: one per role, their passwords made up once and kept in a file."""

from __future__ import annotations

import json
import secrets
from pathlib import Path

from django.contrib.auth.models import Group, User
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError

from dashboard.accounts.roles import Role

FILE = "demo-logins.json"


def ensure(data_dir: Path) -> dict[str, str]:
    """Have one user per role; returns their passwords by name, as in `data_dir/demo-logins.json`.

    A user who exists keeps the password and the groups, unless the file does not know it.
    Raises OSError when the file cannot be written, ValueError when it is no JSON table.
    """
    path = data_dir / FILE
    kept = _read(path)
    logins = {role.value: kept.get(role.value) or secrets.token_urlsafe(9) for role in Role}
    if logins != kept:
        _write(path, logins)
    for name, password in logins.items():
        _ensure_user(name, password, renew=name not in kept)
    return logins


def _ensure_user(name: str, password: str, renew: bool) -> None:
    if User.objects.filter(username=name).exists() and not renew:
        return
    _check(name, password)
    user, created = User.objects.get_or_create(username=name)
    user.set_password(password)
    user.save()
    if created:
        user.groups.add(Group.objects.get(name=name))


def _check(name: str, password: str) -> None:
    try:
        validate_password(password, User(username=name))
    except ValidationError as error:
        raise ValueError(f"{FILE}: {name}: {' '.join(error.messages)}") from None


def _read(path: Path) -> dict[str, str]:
    try:
        found = json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    if not isinstance(found, dict):
        raise ValueError(  # noqa: TRY004 - what the file says is wrong, not a type
            f"{path}: expected a JSON table of passwords by user name"
        )
    return {str(name): str(password) for name, password in found.items()}


def _write(path: Path, logins: dict[str, str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".new")
    draft.touch(mode=0o600)
    draft.chmod(0o600)
    draft.write_text(json.dumps(logins, indent=2))
    draft.replace(path)
