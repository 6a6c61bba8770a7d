"""API tokens: their scopes, their end, their page, and the limits on logins."""

from __future__ import annotations

import io
import json
import re
from datetime import UTC, datetime, timedelta

import pytest
from django.contrib.auth.models import User
from django.core.cache import cache
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone
from prometheus_client import REGISTRY

from dashboard.core.accounts import tokens
from dashboard.core.accounts.models import ApiToken
from dashboard.core.audit.models import AuditEntry
from support.web.web_fixtures import confirmed, make_user

pytestmark = pytest.mark.django_db

NOW = datetime(2030, 1, 1, tzinfo=UTC)
PAGE = "/account/tokens/"
PASSWORD = "horse-battery-7"


def make(client: Client, **form: object) -> tuple[int, str]:
    """The status, and the token that the page shows, if it does, to who gave the password again."""
    response = confirmed(client).post(
        PAGE, {"label": "cron", "scopes": ["read"], "days": "30"} | form
    )
    matches = re.findall(r"tb_[0-9a-f]{8}_[0-9a-f]{64}", response.content.decode())
    return response.status_code, matches[0] if matches else ""


def counted(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0


# ---- in force or not ----------------------------------------------------------------------------


def test_a_token_has_the_scopes_it_was_made_with():
    user = make_user("operator")
    token = tokens.issue(user, NOW, scopes=("metrics", "read"))
    row = tokens.find(token, NOW)
    assert row is not None
    assert row.scopes == "read metrics"
    assert [scope for scope in tokens.SCOPES if row.allows(scope)] == ["read", "metrics"]
    assert not row.allows("read metrics")
    assert not row.allows("")


def test_a_token_ends_when_its_time_is_over():
    end = NOW + timedelta(days=1)
    token = tokens.issue(make_user("operator"), NOW, expires_at=end)
    assert tokens.find(token, end - timedelta(seconds=1))
    assert tokens.find(token, end) is None
    assert ApiToken.objects.get().expired(end)


def test_a_user_has_a_bounded_number_of_tokens(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tokens, "MAX_TOKENS", 2)
    user, other = make_user("operator"), make_user("admin")
    first = tokens.issue(user, NOW, expires_at=NOW + timedelta(days=1))
    tokens.issue(user, NOW)
    with pytest.raises(tokens.TooManyTokens, match="At most 2"):
        tokens.issue(user, NOW)
    tokens.issue(other, NOW)
    tokens.issue(user, NOW + timedelta(days=1))
    assert tokens.find(first, NOW + timedelta(days=1)) is None


def test_a_role_that_is_taken_away_takes_its_tokens_with_it(client):
    _, token = make(client, scopes=["command"])
    User.objects.get().groups.clear()
    response = Client().delete(
        "/api/v1/scenarios/attack/assets/a", headers={"Authorization": f"Bearer {token}"}
    )
    assert (response.status_code, response.json()["reason"]) == (403, "role-required")


# ---- the page -----------------------------------------------------------------------------------


def test_a_token_is_made_for_what_was_chosen_and_shown_once(client):
    status, token = make(client, scopes=["report", "metrics"], days="90")
    assert status == 200
    row = ApiToken.objects.get()
    assert (row.scopes, row.label) == ("report metrics", "cron")
    assert row.expires_at == row.created_at + timedelta(days=90)
    assert tokens.find(token, row.created_at)
    page = client.get(PAGE).content.decode()
    assert token not in page
    assert token.split("_")[2] not in json.dumps(list(ApiToken.objects.values()), default=str)
    assert row.prefix in page
    assert "report metrics" in page


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ({"scopes": []}, "at least one"),
        ({"scopes": ["read", "root"]}, "root"),
        ({"days": "7"}, "7"),
        ({"label": "x" * 101}, "100"),
        ({"label": "pay\u202egnp.exe"}, "printable"),
    ],
)
def test_a_token_that_cannot_be_made_says_why(client, form: dict[str, object], said: str):
    form = {"label": "cron", "scopes": ["read"], "days": "30"} | form
    response = confirmed(client).post(PAGE, form)
    assert response.status_code == 422
    assert said in response.content.decode()
    assert not ApiToken.objects.exists()


def test_a_token_without_a_chosen_end_ends_all_the_same(client):
    make(client, days="")
    row = ApiToken.objects.get()
    assert row.expires_at == row.created_at + timedelta(days=90)


def test_a_token_may_have_no_end(client):
    make(client, days="never")
    assert ApiToken.objects.get().expires_at is None


def test_a_session_alone_makes_no_token(client, user: User):
    user.set_password(PASSWORD)
    user.save()
    client.force_login(user)
    asked = client.post(PAGE, {"label": "cron", "scopes": ["read"], "days": "never"})
    assert asked["Location"].startswith("/account/reauthenticate/")
    assert not ApiToken.objects.exists()
    wrong = client.post("/account/reauthenticate/", {"password": "wrong", "next": PAGE})
    assert wrong.status_code == 200
    assert not ApiToken.objects.exists()
    done = client.post("/account/reauthenticate/", {"password": PASSWORD, "next": PAGE})
    row = ApiToken.objects.get()
    assert f"tb_{row.prefix}_" in done.content.decode()


def test_a_session_alone_revokes(client, user: User):
    token = tokens.issue(user, NOW)
    client.post(PAGE, {"revoke": token.split("_")[1]})
    assert tokens.find(token, NOW) is None


def test_an_end_is_suggested(client):
    assert '<option value="90" selected>' in client.get(PAGE).content.decode()


def test_a_change_of_the_password_revokes_ones_own_tokens_alone(client, user: User):
    user.set_password(PASSWORD)
    user.save()
    client.force_login(user)
    now = timezone.now()
    own, others = tokens.issue(user, now), tokens.issue(make_user("manager"), now)
    form = {"oldpassword": "wrong", "password1": PASSWORD + "-x", "password2": PASSWORD + "-x"}
    client.post("/account/password/change/", form)
    assert tokens.find(own, now)
    changed = client.post("/account/password/change/", form | {"oldpassword": PASSWORD})
    assert changed.status_code == 302
    assert "API tokens that were revoked: 1." in client.get(PAGE).content.decode()
    assert tokens.find(own, now) is None
    assert tokens.find(others, now)
    entry = AuditEntry.objects.get(action="token.revoked")
    assert (entry.name, entry.target) == ("operator", "operator")
    assert json.loads(entry.facts) == {"by": "the change of the password", "tokens": 1}


def test_nobody_makes_a_token_for_what_the_role_does_not_allow():
    client = Client()
    client.force_login(make_user("manager"))
    page = client.get(PAGE).content.decode()
    assert re.findall(r'name="scopes" value="(\w+)"', page) == ["read", "metrics"]
    assert make(client, scopes=["command"])[0] == 422
    assert not ApiToken.objects.exists()


def test_one_token_too_many_is_refused_on_the_page(client, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tokens, "MAX_TOKENS", 1)
    before = counted("tallyboard_limited_total", limit="tokens")
    make(client)
    status, token = make(client)
    assert (status, token) == (422, "")
    assert ApiToken.objects.count() == 1
    assert counted("tallyboard_limited_total", limit="tokens") == before + 1


def test_the_page_lists_and_revokes(client):
    _, token = make(client)
    _, other = make(client)
    prefix = token.split("_")[1]
    assert client.post(PAGE, {"revoke": prefix}).status_code == 302
    page = client.get(PAGE).content.decode()
    assert prefix not in page
    assert other.split("_")[1] in page
    headers = {"Authorization": f"Bearer {token}"}
    assert Client().get("/api/v1/scenarios", headers=headers).status_code == 401


def test_the_page_says_which_have_expired_and_when_each_was_used(client):
    _, token = make(client)
    Client().get("/api/v1/scenarios", headers={"Authorization": f"Bearer {token}"})
    row = ApiToken.objects.get()
    assert row.last_used_at is not None
    assert "expired" not in client.get(PAGE).content.decode()
    ApiToken.objects.update(expires_at=row.created_at, last_used_at=NOW)
    page = client.get(PAGE).content.decode()
    assert "<strong>expired</strong>" in page
    assert "2030-01-01 00:00" in page


# ---- manage.py token ----------------------------------------------------------------------------


def run(*arguments: str) -> str:
    out = io.StringIO()
    call_command("token", *arguments, stdout=out)
    return out.getvalue()


def test_the_command_makes_scoped_tokens_that_end():
    make_user("operator")
    run("operator", "--scope", "read", "--scope", "metrics", "--days", "7")
    row = ApiToken.objects.get()
    assert row.scopes == "read metrics"
    assert row.expires_at == row.created_at + timedelta(days=7)
    listed = run("operator", "--list")
    assert "[read metrics]" in listed
    assert f"ends {row.expires_at:%Y-%m-%d %H:%M} UTC" in listed
    ApiToken.objects.update(expires_at=row.created_at)
    assert "expired" in run("operator", "--list")


def test_the_command_makes_a_token_for_everything_when_nothing_is_chosen():
    make_user("operator")
    run("operator")
    row = ApiToken.objects.get()
    assert (row.scopes.split(), row.expires_at) == (list(tokens.SCOPES), None)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--days", "0"), "--days is 0: expected 1 to"),
        (("--days", "4000"), "--days is 4000"),
        (("--label", "x" * 101), "--label: expected"),
        (("--label", "a\nb"), "--label: expected"),
        (("--scope", "root"), "invalid choice: 'root'"),
    ],
)
def test_the_command_names_what_is_wrong(arguments: tuple[str, ...], said: str):
    make_user("operator")
    with pytest.raises(CommandError, match=said):
        run("operator", *arguments)
    assert not ApiToken.objects.exists()


# ---- logins -------------------------------------------------------------------------------------


@pytest.fixture
def olga() -> User:
    cache.clear()
    return User.objects.create_user("olga", password="long-enough-7")


def log_in(password: str, login: str = "olga", address: str = "192.0.2.1") -> int:
    form = {"login": login, "password": password}
    return Client(REMOTE_ADDR=address).post("/account/login/", form).status_code


def test_after_five_wrong_passwords_the_right_one_waits_too(olga):
    before = {kind: counted("tallyboard_logins_total", outcome=kind) for kind in ("ok", "failed")}
    limited = counted("tallyboard_limited_total", limit="logins")
    assert [log_in("wrong") for _ in range(5)] == [200] * 5
    assert log_in("long-enough-7") == 200
    assert counted("tallyboard_logins_total", outcome="failed") == before["failed"] + 5
    assert counted("tallyboard_logins_total", outcome="ok") == before["ok"]
    assert counted("tallyboard_limited_total", limit="logins") == limited + 1


def test_a_login_is_counted(olga):
    before = counted("tallyboard_logins_total", outcome="ok")
    assert log_in("long-enough-7") == 302
    assert counted("tallyboard_logins_total", outcome="ok") == before + 1


def test_an_address_that_asks_too_often_waits(olga):
    before = counted("tallyboard_limited_total", limit="account")
    statuses = [log_in("wrong", login=f"user-{n}") for n in range(31)]
    assert statuses[-1] == 429
    assert log_in("long-enough-7", address="192.0.2.2") == 302
    assert counted("tallyboard_limited_total", limit="account") == before + 1
