"""Sessions and second factors in the database: of no use to who has a copy; when sessions end."""

from __future__ import annotations

import base64
import re
import time
import zlib
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from allauth.mfa.totp.internal.auth import TOTP, format_hotp_value, hotp_value
from allauth.usersessions.models import UserSession
from django.apps import apps
from django.conf import settings as configured
from django.contrib.sessions.models import Session
from django.core.cache import cache
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client
from django.utils import timezone
from pydantic import SecretStr

from dashboard.board.live.admission import access_of
from dashboard.core.accounts import sessions
from dashboard.core.accounts.encryption import NoKey, seal, unseal
from dashboard.core.accounts.sessions import BEGUN, SessionStore, filed_under, forget_ended, places
from dashboard.core.audit.models import AuditEntry
from support.web.web_fixtures import make_user

pytestmark = pytest.mark.django_db

PASSWORD = "horse-battery-7"
COOKIE = configured.SESSION_COOKIE_NAME


@pytest.fixture
def client() -> Client:
    """A manager who has logged in by the form."""
    cache.clear()
    make_user("manager", PASSWORD)
    client = Client()
    client.post("/account/login/", {"login": "manager", "password": PASSWORD})
    assert client.get("/").status_code == 200
    return client


def key_of(client: Client) -> str:
    return str(client.cookies[COOKIE].value)


def logged_in(client: Client) -> bool:
    return client.get("/").status_code == 200


def code(secret: str) -> str:
    return str(format_hotp_value(hotp_value(secret, int(time.time()) // 30)))


def copied() -> str:
    """Every value in the database; what was only encoded or compressed is also shown plainly."""
    with connection.cursor() as cursor:
        values = []
        for table in connection.introspection.table_names(cursor):
            cursor.execute(f'SELECT * FROM "{table}"')
            values += [str(value) for row in cursor.fetchall() for value in row]
    return "\n".join([*values, *(plain for value in values for plain in decoded(value))])


def decoded(value: str) -> list[str]:
    """What stands in a text in base 64, which may be compressed, as Django's sessions are."""
    texts = []
    for part in re.findall(r"[\w-]{20,}", value):
        raw = base64.urlsafe_b64decode(part[: len(part) // 4 * 4])
        texts.append(raw.decode("latin1"))
        try:
            texts.append(zlib.decompressobj().decompress(raw).decode("latin1"))
        except zlib.error:
            continue
    return texts


# ---- a copy of the database -----------------------------------------------------------------


def test_a_copy_of_the_database_yields_no_session(client: Client):
    copy = copied()
    assert filed_under(key_of(client)) in copy, "it is looked at the right place"
    assert "_auth_user_id" not in copy
    assert key_of(client) not in copy
    for word in set(re.findall(r"[a-z0-9]{20,64}", copy)):
        thief = Client()
        thief.cookies[COOKIE] = word
        assert not logged_in(thief)
        assert access_of(word) == "anonymous"


def test_a_copy_of_the_database_yields_no_code(client: Client):
    client.post("/account/reauthenticate/", {"password": PASSWORD, "next": "/"})
    page = client.get("/account/2fa/totp/activate/").content.decode()
    secret = re.search(r'id="secret"[^>]* value="([A-Z2-7]+)"', page)[1]  # type: ignore[index]
    assert secret not in copied(), "while it is being set up"
    done = client.post("/account/2fa/totp/activate/", {"code": code(secret)})
    assert done.status_code == 302
    page = client.get("/account/2fa/recovery-codes/").content.decode()
    recovery = re.findall(r"<li>(?:<code>)?(\d{8})", page)
    assert len(recovery) == 10
    copy = copied()
    assert secret not in copy
    for factor in Authenticator.objects.all():
        for sealed in (factor.data.get("secret"), factor.data.get("seed")):
            assert sealed is None or sealed.startswith("gAAAA")
    assert not [each for each in recovery if each in copy]

    cache.clear()
    other = Client()
    other.post("/account/login/", {"login": "manager", "password": PASSWORD})
    assert not logged_in(other), "the second factor is asked for"
    other.post("/account/2fa/authenticate/", {"code": recovery[0]})
    assert logged_in(other)


def test_without_its_key_a_second_factor_lets_nobody_in_and_says_so(client: Client, settings):
    user = apps.get_model("auth", "User").objects.get()
    factor = TOTP.activate(user, "A" * 32)
    assert factor.validate_code(code("A" * 32))
    client.post("/account/logout/")
    client.post("/account/login/", {"login": "manager", "password": PASSWORD})
    lose_the_key(settings)
    client.post("/account/login/", {"login": "manager", "password": PASSWORD})
    page = client.post("/account/2fa/authenticate/", {"code": code("A" * 32)})
    assert "its key is missing" in page.content.decode()
    assert not logged_in(client)


def lose_the_key(settings: Any, *kept: str) -> None:
    """Other keys than those that sealed."""
    keys = SecretStr(",".join(("0123456789abcdef" * 2 + "-new", *kept)))
    settings.TALLYBOARD = settings.TALLYBOARD.model_copy(update={"data_keys": keys})


def test_who_has_another_key_reads_no_session(client: Client, settings):
    lose_the_key(settings)
    assert not logged_in(client)


# ---- keys that change -----------------------------------------------------------------------


def test_keys_are_changed_without_anybody_noticing(client: Client, settings):
    old = settings.TALLYBOARD.sealing_keys()
    user = apps.get_model("auth", "User").objects.get()
    TOTP.activate(user, "A" * 32)
    RecoveryCodes.activate(user)
    lose_the_key(settings, *old)
    assert logged_in(client)
    out = StringIO()
    call_command("reseal", stdout=out)
    assert out.getvalue() == "Encrypted again: 2; removed: 0.\n"
    lose_the_key(settings)
    assert TOTP(Authenticator.objects.get(type="totp")).validate_code(code("A" * 32))


def test_factors_that_no_key_opens_are_named_and_can_be_taken_away(client: Client, settings):
    user = apps.get_model("auth", "User").objects.get()
    TOTP.activate(user, "A" * 32)
    lose_the_key(settings)
    with pytest.raises(CommandError, match=r"No key opens second factors of manager: "):
        call_command("reseal")
    call_command("reseal", "--forget", stdout=StringIO())
    assert not Authenticator.objects.exists()
    assert AuditEntry.objects.get(action="factor.removed").target == "manager"


def test_plain_secrets_work_and_are_sealed_with_all_others(client: Client):
    user = apps.get_model("auth", "User").objects.get()
    plain = {"secret": "A" * 32}
    factor = Authenticator.objects.create(user=user, type="totp", data=plain)
    assert TOTP(factor).validate_code(code("A" * 32))
    coded = {"seed": "ab" * 40, "used_mask": 5}
    Authenticator.objects.create(user=user, type="recovery_codes", data=coded)
    before = RecoveryCodes(Authenticator.objects.get(type="recovery_codes")).get_unused_codes()
    call_command("reseal", stdout=StringIO())
    assert "A" * 32 not in copied()
    assert "ab" * 40 not in copied()
    factor = Authenticator.objects.get(type="totp")
    assert unseal(factor.data["secret"]) == "A" * 32
    codes = RecoveryCodes(Authenticator.objects.get(type="recovery_codes"))
    assert codes.get_unused_codes() == before
    assert len(before) == 8


def test_what_is_sealed_is_opened_by_its_own_key_alone(settings):
    sealed = seal("text")
    assert "text" not in sealed
    assert unseal(sealed) == "text"
    assert seal("text") != sealed
    lose_the_key(settings)
    with pytest.raises(NoKey):
        unseal(sealed)


# ---- when they end --------------------------------------------------------------------------


def row_of(client: Client) -> Session:
    return Session.objects.get(session_key=filed_under(key_of(client)))


def left(client: Client) -> float:
    """How long a session has, seconds."""
    return (row_of(client).expire_date - timezone.now()).total_seconds()


def rest(client: Client, seconds: float) -> None:
    """Let time pass in which a session is not used."""
    row = row_of(client)
    row.expire_date -= timedelta(seconds=seconds)
    row.save()


def begun(client: Client, ago_s: float) -> None:
    """Have a session begun so long ago."""
    session = SessionStore(key_of(client))
    session[BEGUN] = time.time() - ago_s
    session.save()


@pytest.fixture
def each_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each use is noted, where otherwise one in a while is."""
    monkeypatch.setattr(sessions.SessionUses, "due", lambda _seen, _key: True)


def test_a_session_that_rests_ends(client: Client):
    assert 3590 < left(client) <= 3600
    rest(client, 3601)
    assert access_of(key_of(client)) == "anonymous", "its sockets are closed then"
    assert not logged_in(client)


def test_a_session_that_is_used_goes_on(each_use, client: Client):
    rest(client, 3000)
    assert logged_in(client)
    assert left(client) > 3590


def test_an_open_board_is_use(client: Client):
    rest(client, 3000)
    assert access_of(key_of(client)) == "reader"
    assert left(client) > 3590
    rest(client, 800)
    assert access_of(key_of(client)) == "reader"
    assert left(client) < 2900, "and is noted now and then"
    rest(client, 200)
    assert access_of(key_of(client)) == "reader"
    assert left(client) > 3590


def test_no_use_keeps_a_session_longer_than_its_length(each_use, client: Client):
    begun(client, 43_200 - 100)
    assert logged_in(client)
    assert access_of(key_of(client)) == "reader"
    assert 0 < left(client) <= 100
    begun(client, 43_201)
    assert not logged_in(client)


def test_a_session_that_has_ended_does_not_come_back(client: Client):
    session = SessionStore(key_of(client))
    assert session.get(BEGUN)
    rest(client, 3601)
    session.record_use()
    assert not logged_in(client)


def test_the_length_counts_from_the_login(client: Client):
    again = Client()
    again.get("/account/login/")
    session = SessionStore()
    session[BEGUN] = time.time() - 40_000
    session.save()
    again.cookies[COOKIE] = session.session_key or ""
    cache.clear()
    again.post("/account/login/", {"login": "manager", "password": PASSWORD})
    assert logged_in(again)
    assert left(again) > 3590


def test_both_are_settings(each_use, client: Client, settings):
    changed = {"session_s": 7200, "session_idle_s": 600}
    settings.TALLYBOARD = settings.TALLYBOARD.model_copy(update=changed)
    assert logged_in(client)
    assert 590 < left(client) <= 600
    begun(client, 7201)
    assert not logged_in(client)


def test_use_is_noted_often_enough_for_a_short_rest(settings, monkeypatch: pytest.MonkeyPatch):
    settings.TALLYBOARD = settings.TALLYBOARD.model_copy(update={"session_idle_s": 60})
    now = [1000.0]
    monkeypatch.setattr(sessions.time, "monotonic", lambda: now[0])
    seen = sessions.SessionUses()
    assert seen.due("key")
    assert not seen.due("key")
    now[0] += 15
    assert seen.due("key")


def test_what_has_ended_is_forgotten(client: Client):
    other = Client()
    cache.clear()
    other.post("/account/login/", {"login": "manager", "password": PASSWORD})
    assert logged_in(other)
    assert UserSession.objects.count() == 2
    rest(client, 3601)
    assert len(places(apps.get_model("auth", "User").objects.get())) == 1
    forget_ended(0)
    assert Session.objects.count() == UserSession.objects.count() == 1
    assert logged_in(other)
