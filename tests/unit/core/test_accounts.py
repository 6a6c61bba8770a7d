"""Roles, the demo's users, and API tokens."""

from __future__ import annotations

import io
import json
import secrets
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from allauth.mfa.totp.internal import auth
from django.contrib.auth.models import AnonymousUser, Group, User
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.management import CommandError, call_command
from django.test import Client

from config.settings import Settings
from dashboard.core.accounts import tokens, users
from dashboard.core.accounts.models import ApiToken
from dashboard.core.audit.models import AuditEntry
from dashboard.core.common.access import Role, may, role_of, whom_to_ask

pytestmark = pytest.mark.django_db

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def user_in(*groups: str, **fields: bool) -> User:
    user = User.objects.create(username="-".join(groups) or "nobody", **fields)
    user.groups.set(Group.objects.filter(name__in=groups))
    return user


def holder(token: str, now: datetime) -> User | None:
    """Return whose token in force this is."""
    row = tokens.find(token, now)
    return row.user if row else None


def test_a_role_is_a_group_and_the_strongest_counts():
    assert role_of(user_in("operator", "manager")) is Role.OPERATOR
    assert role_of(user_in("admin", "operator")) is Role.ADMIN
    assert role_of(user_in("manager")) is Role.MANAGER


def test_no_group_no_role():
    assert role_of(user_in()) is None
    assert role_of(AnonymousUser()) is None
    assert role_of(user_in("admin", is_active=False)) is None


def test_a_superuser_is_an_admin():
    assert role_of(user_in(is_superuser=True)) is Role.ADMIN


@pytest.mark.parametrize(
    ("group", "may_do"),
    [
        ("admin", {"read", "command", "report", "metrics"}),
        ("operator", {"read", "command", "report", "metrics"}),
        ("manager", {"read", "metrics"}),
        ("others", set()),
    ],
)
def test_what_a_role_may(group: str, may_do: set[str]):
    user = user_in(group)
    assert {action for action in tokens.SCOPES if may(user, action)} == may_do


def test_whom_to_ask_are_the_active_admins():
    user_in("admin")
    user_in("operator")
    User.objects.create(username="gone", is_superuser=True, is_active=False)
    User.objects.create(username="root", is_superuser=True)
    assert list(whom_to_ask()) == ["admin", "root"]


def test_demo_users_are_made_once(tmp_path: Path):
    logins = users.ensure_demo_users(tmp_path)
    file = tmp_path / users.DEMO_LOGINS
    assert json.loads(file.read_text()) == logins
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    for name, password in logins.items():
        user = User.objects.get(username=name)
        assert user.check_password(password)
        assert role_of(user) == name
    assert users.ensure_demo_users(tmp_path) == logins


def test_a_demo_user_keeps_a_changed_password(tmp_path: Path):
    users.ensure_demo_users(tmp_path)
    operator = User.objects.get(username="operator")
    operator.set_password("my own")
    operator.save()
    users.ensure_demo_users(tmp_path)
    operator.refresh_from_db()
    assert operator.check_password("my own")


def test_a_lost_login_file_gives_new_passwords_that_work(tmp_path: Path):
    first = users.ensure_demo_users(tmp_path)
    (tmp_path / users.DEMO_LOGINS).unlink()
    second = users.ensure_demo_users(tmp_path)
    assert second["admin"] != first["admin"]
    assert User.objects.get(username="admin").check_password(second["admin"])


def test_a_demo_password_that_is_none_is_refused(tmp_path: Path):
    (tmp_path / users.DEMO_LOGINS).write_text(json.dumps({"admin": "short"}))
    with pytest.raises(ValueError, match=rf"{users.DEMO_LOGINS}: admin: .* at least 12 characters"):
        users.ensure_demo_users(tmp_path)
    assert not User.objects.filter(username="admin").exists()


@pytest.mark.parametrize(
    ("password", "message"),
    [
        ("short-7-xyz", "at least 12 characters"),
        ("111222333444", "entirely numeric"),
        ("alice.anderson", "too similar to the username"),
        ("1q2w3e4r5t6y", "too common"),
        ("password2024!", "too common"),
        ("!!Football1234", "too common"),
        ("dragondragon", "too common"),
        ("qwertyqwertyqwerty", "too common"),
    ],
)
def test_a_password_is_long_and_not_common(password: str, message: str):
    with pytest.raises(ValidationError) as refused:
        validate_password(password, User(username="alice-anderson"))
    assert message in " ".join(refused.value.messages)


@pytest.mark.parametrize("password", ["horse-battery-7", "x9 Kf2 Lm4 Q", "correcthorsebattery"])
def test_other_passwords_will_do(password: str):
    validate_password(password, User(username="alice"))


def test_passwords_that_the_product_makes_will_do():
    for _ in range(100):
        validate_password(users.one_time_password(), User(username="alice"))
        validate_password(secrets.token_urlsafe(9), User(username="admin"))


def test_a_token_is_kept_only_as_a_hash():
    user = user_in("operator")
    token = tokens.issue(user, NOW, "probe")
    row = ApiToken.objects.get()
    assert token.split("_")[2] not in json.dumps(
        [row.prefix, row.digest, row.label, str(row.created_at)]
    )
    assert (row.prefix, row.label) == (token.split("_")[1], "probe")
    assert len(row.digest) == 64


def test_a_token_finds_its_user_and_notes_its_use():
    user = user_in("operator")
    token = tokens.issue(user, NOW)
    assert holder(token, NOW + timedelta(hours=1)) == user
    assert ApiToken.objects.get().last_used_at == NOW + timedelta(hours=1)


@pytest.mark.parametrize(
    "change", [str.upper, lambda t: t[:-1] + "x", lambda t: t + "_", str.title]
)
def test_a_token_changed_anywhere_finds_nobody(change):
    token = tokens.issue(user_in("operator"), NOW)
    assert holder(change(token), NOW) is None


def test_a_revoked_token_finds_nobody():
    user = user_in("operator")
    token = tokens.issue(user, NOW)
    other = tokens.issue(user, NOW)
    assert user.api_tokens.revoke(token.split("_")[1], NOW)
    assert holder(token, NOW) is None
    assert holder(other, NOW) == user
    assert not user.api_tokens.revoke(token.split("_")[1], NOW)


def test_a_token_of_an_inactive_user_finds_nobody():
    user = user_in("operator")
    token = tokens.issue(user, NOW)
    User.objects.update(is_active=False)
    assert holder(token, NOW) is None


def run(*arguments: str) -> str:
    out = io.StringIO()
    call_command("token", *arguments, stdout=out)
    return out.getvalue()


def test_the_token_command_issues_lists_and_revokes():
    user = user_in("operator")
    token = run("operator", "--label", "for the probe").strip()
    assert holder(token, NOW) == user
    prefix = token.split("_")[1]
    listed = run("operator", "--list")
    assert prefix in listed
    assert "for the probe" in listed
    assert token not in listed
    run("operator", "--revoke", prefix)
    assert holder(token, NOW) is None
    assert "revoked" in run("operator", "--list")


def test_the_token_command_names_what_is_wrong():
    with pytest.raises(CommandError, match="no user 'nobody'"):
        run("nobody")
    user_in("operator")
    with pytest.raises(CommandError, match="no token 'beef' in force"):
        run("operator", "--revoke", "beef")


@pytest.mark.parametrize("path", ["/account/password/reset/", "/account/email/"])
def test_what_needs_mail_is_not_offered(path):
    client = Client()
    client.force_login(User.objects.create_user("olga"))
    assert client.get(path).status_code == 404


@pytest.mark.parametrize(("steps", "taken"), [(-2, False), (-1, True), (0, True), (1, True)])
def test_a_code_may_be_of_the_half_minute_before_or_after(
    monkeypatch: pytest.MonkeyPatch, steps: int, taken: bool
):
    monkeypatch.setattr(auth.time, "time", lambda: 1_790_000_010.0)
    secret = auth.generate_totp_secret()
    code = auth.format_hotp_value(auth.hotp_value(secret, 1_790_000_010 // 30 + steps))
    assert auth.validate_totp_code(secret, code) is taken


# ---- the demo is off --------------------------------------------------------------------------


def test_without_the_demo_its_users_are_let_go(tmp_path: Path):
    logins = users.ensure_demo_users(tmp_path)
    admin = User.objects.get(username="admin")
    token = tokens.issue(admin, NOW)
    client = Client()
    client.force_login(admin)
    assert users.retire_demo_users(tmp_path, NOW) == ["admin", "manager", "operator"]
    for name, password in logins.items():
        user = User.objects.get(username=name)
        assert (user.is_active, user.check_password(password)) == (False, False)
    assert client.get("/").status_code == 302
    assert holder(token, NOW) is None
    assert ApiToken.objects.get().revoked_at == NOW
    noted = AuditEntry.objects.filter(action="user.deactivated").order_by("target")
    assert [(row.target, row.source, row.name) for row in noted] == [
        (name, "system", "start") for name in ("admin", "manager", "operator")
    ]
    assert json.loads(noted[0].facts) == {"demo": "off", "sessions": 1, "tokens": 1}
    assert json.loads((tmp_path / users.DEMO_LOGINS).read_text()) == {}
    assert users.retire_demo_users(tmp_path, NOW) == []


def test_who_has_a_password_of_the_own_stays_whether_the_demo_is_on_or_off(tmp_path: Path):
    users.ensure_demo_users(tmp_path)
    admin = User.objects.get(username="admin")
    admin.set_password("my own")
    admin.save()
    assert users.retire_demo_users(tmp_path, NOW) == ["manager", "operator"]
    again = users.ensure_demo_users(tmp_path)
    assert set(again) == {"manager", "operator"}
    assert users.retire_demo_users(tmp_path, NOW) == ["manager", "operator"]
    admin.refresh_from_db()
    assert admin.is_active
    assert admin.check_password("my own")


def test_with_the_demo_again_they_are_back_with_new_passwords(tmp_path: Path):
    first = users.ensure_demo_users(tmp_path)
    deactivated = User.objects.get(username="manager")
    deactivated.is_active = False
    deactivated.save()
    users.ensure_demo_users(tmp_path)
    deactivated.refresh_from_db()
    assert not deactivated.is_active  # an admin did that
    users.retire_demo_users(tmp_path, NOW)
    second = users.ensure_demo_users(tmp_path)
    operator = User.objects.get(username="operator")
    assert operator.is_active
    assert operator.check_password(second["operator"])
    assert second["operator"] != first["operator"]
    assert role_of(operator) is Role.OPERATOR


def test_a_lost_login_file_keeps_no_demo_user(tmp_path: Path):
    users.ensure_demo_users(tmp_path)
    users.reset_password(User(pk=0), User.objects.get(username="operator"), NOW)
    (tmp_path / users.DEMO_LOGINS).unlink()
    assert users.retire_demo_users(tmp_path, NOW) == ["admin", "manager"]
    assert User.objects.get(username="operator").is_active


def test_users_of_older_data_are_known_by_the_file(tmp_path: Path):
    users.ensure_demo_users(tmp_path)
    Group.objects.get(name=users.DEMO).delete()
    assert users.retire_demo_users(tmp_path, NOW) == ["admin", "manager", "operator"]


def test_the_start_lets_them_go(tmp_path: Path, settings: Any):
    settings.DATA_DIR, settings.TALLYBOARD = tmp_path, Settings(demo=True)
    call_command("prepare", stdout=io.StringIO())
    assert User.objects.filter(is_active=True).count() == 3
    settings.TALLYBOARD = Settings(demo=False)
    out = io.StringIO()
    call_command("prepare", stdout=out)
    assert User.objects.filter(is_active=True).count() == 0
    assert "deactivated admin, manager, operator" in out.getvalue()
    assert "createsuperuser" in out.getvalue()
