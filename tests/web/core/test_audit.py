"""The audit: what an entry holds, that nothing changes it, and what its page shows."""

from __future__ import annotations

import ast
import csv
import fnmatch
import json
import re
import time
import uuid
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from allauth.mfa.totp.internal.auth import format_hotp_value, hotp_value
from django.contrib.auth.models import User
from django.core.cache import cache
from django.core.management import CommandError, call_command
from django.db import DatabaseError, IntegrityError, connection, transaction
from django.db.models import CharField
from django.test import Client, RequestFactory

from dashboard.core.accounts.models import ApiToken
from dashboard.core.audit import hash_chain, log
from dashboard.core.audit.actions import ACTIONS
from dashboard.core.audit.log import Actor, prune, record
from dashboard.core.audit.models import KEPT_DAYS, AuditEntry
from dashboard.core.common.metrics import AUDITED
from dashboard.core.common.times import now_ms
from dashboard.core.job.models import JobProgress
from dashboard.operate.administration import audit
from support.histories.hostile import calm, text
from support.web.web_fixtures import (
    bearer,
    confirmed,
    error_of,
    logged_in,
    make_user,
    pages_of,
    show,
)

pytestmark = pytest.mark.django_db

ROOT = Path(__file__).resolve().parents[3]
OLD_MS = (KEPT_DAYS + 1) * 86_400_000


def write(*targets: str) -> None:
    """An entry for each."""
    for target in targets:
        record(Actor.system("worker"), "command.set", scenario="attack", target=target)


# ---- what an entry holds ------------------------------------------------------------------


def test_an_entry_says_who_did_what_when_from_where_and_how_it_ended():
    request = RequestFactory().post("/", REMOTE_ADDR="192.0.2.7")
    request.user = make_user("operator")
    before = int(time.time() * 1000)
    record(
        Actor.of(request), "command.set", scenario="attack", target="shop", outcome="sent",
        state="clear", reason="a drill",
    )  # fmt: skip
    entry = AuditEntry.objects.get()
    assert before <= entry.at <= int(time.time() * 1000)
    assert (entry.user_id, entry.name, entry.role) == (request.user.pk, "operator", "operator")
    assert (entry.source, entry.address, entry.token) == ("page", "192.0.2.7", "")
    assert (entry.action, entry.scenario, entry.target) == ("command.set", "attack", "shop")
    assert (entry.outcome, json.loads(entry.facts)) == (
        "sent",
        {"state": "clear", "reason": "a drill"},
    )


def test_an_address_that_a_proxy_tells_counts_only_where_proxies_are_trusted(settings):
    request = RequestFactory().get("/", REMOTE_ADDR="192.0.2.7", HTTP_X_FORWARDED_FOR="203.0.113.9")
    assert log.address_of(request) == "192.0.2.7"
    settings.ALLAUTH_TRUSTED_PROXY_COUNT = 1
    assert log.address_of(request) == "203.0.113.9"
    settings.ALLAUTH_TRUSTED_PROXY_COUNT = 2  # of which one says nothing
    assert log.address_of(request) == "192.0.2.7"
    both = RequestFactory().get("/", REMOTE_ADDR="::ffff:203.0.113.9")
    assert log.address_of(both) == "203.0.113.9"
    assert log.address_of(RequestFactory().get("/", REMOTE_ADDR="")) == ""


def test_every_length_is_bounded_and_every_text_can_be_kept():
    long, odd = "x" * 10_000, "a\0b\ud800"
    record(Actor(1, long, long, "page", long, long), "command.set", scenario=long, target=long,
         outcome=long, text=long, odd=odd, many=list(range(1_000)), nan=float("nan"))  # fmt: skip
    entry = AuditEntry.objects.get()
    for field in ("name", "role", "token", "address", "scenario", "target", "outcome"):
        column = AuditEntry._meta.get_field(field)
        assert isinstance(column, CharField)
        most = column.max_length
        assert len(getattr(entry, field)) == most, field
    facts = json.loads(entry.facts)
    assert (len(facts["text"]), len(facts["many"])) == (log.MAX_TEXT, log.MAX_ITEMS)
    assert (facts["odd"], facts["nan"]) == ("a\ufffdb?", "nan")


def test_facts_that_are_too_many_leave_their_names():
    facts = {f"fact{n}": "x" * log.MAX_TEXT for n in range(100)}
    bounded = json.loads(log.bounded_facts(facts))
    assert bounded == {"too_long": [f"fact{n}" for n in range(log.MAX_ITEMS)]}


def test_what_cannot_be_written_is_counted_and_hinders_nobody(monkeypatch):
    def fail(_fields):
        raise DatabaseError("the disk is full")

    monkeypatch.setattr(log, "append", fail)
    lost = AUDITED.labels("lost")._value.get()
    write("shop")
    assert AUDITED.labels("lost")._value.get() == lost + 1
    assert not AuditEntry.objects.exists()


# ---- nothing changes an entry -------------------------------------------------------------


@pytest.fixture
def guarded():
    """The triggers, which tests' databases do without."""
    hash_chain.install(connection)


@pytest.mark.parametrize(
    "change",
    [
        lambda rows: rows.update(outcome="another"),
        lambda rows: rows.delete(),
        lambda rows: rows.filter(number=2).delete(),
        lambda rows: rows.first().delete(),
    ],
)
def test_the_database_refuses_to_change_or_delete_an_entry(guarded, change):
    write("a", "b", "c")
    with pytest.raises(IntegrityError, match="append-only"), transaction.atomic():
        change(AuditEntry.objects.all())
    assert AuditEntry.objects.count() == 3
    assert hash_chain.verify().fault == ""


def test_entries_past_their_time_may_go(guarded):
    now = int(time.time() * 1000)
    hash_chain.append(fields(at=now - OLD_MS))
    hash_chain.append(fields(at=now))
    AuditEntry.objects.filter(number=1).delete()
    assert AuditEntry.objects.get().number == 2


def fields(**given):
    return {
        "at": 1, "user_id": None, "name": "worker", "role": "", "source": "system", "token": "",
        "address": "", "action": "command.set", "scenario": "", "target": "", "outcome": "done",
        "facts": "{}",
    } | given  # fmt: skip


# ---- the chain ----------------------------------------------------------------------------


def test_each_entry_follows_from_the_one_before():
    write("a", "b", "c")
    first, second, third = AuditEntry.objects.order_by("number")
    assert (first.number, first.previous) == (1, hash_chain.START)
    assert (second.previous, third.previous) == (first.digest, second.digest)
    assert hash_chain.verify() == hash_chain.ChainCheck(3, 1, 3, third.digest)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda rows: rows.filter(number=2).update(outcome="x"), "entry 2 was changed"),
        (lambda rows: rows.filter(number=2).update(facts='{"a":1}'), "entry 2 was changed"),
        (lambda rows: rows.filter(number=2).update(digest="0" * 64), "entry 2 was changed"),
        (lambda rows: rows.filter(number=2).delete(), "entry 2 is missing"),
        (lambda rows: rows.filter(number=1).delete(), "entries before 2 are missing"),
        (lambda rows: rows.filter(number=3).update(number=2**40), "entry 3 is missing"),
    ],
)
def test_a_change_shows(change, fault):
    write("a", "b", "c")
    change(AuditEntry.objects.all())
    assert fault in hash_chain.verify().fault
    with pytest.raises(CommandError, match="broken"):
        call_command("audit_verify")


def test_an_entry_that_was_rewritten_with_its_digest_shows_in_the_next():
    write("a", "b", "c")
    second = AuditEntry.objects.get(number=2)
    second.outcome = "x"
    second.digest = hash_chain.digest(getattr(second, name) for name in hash_chain.FIELDS)
    second.save()
    assert hash_chain.verify().fault == "entry 3 does not follow from the one before"


def test_the_command_says_how_far_the_chain_goes():
    write("a", "b")
    output = StringIO()
    call_command("audit_verify", stdout=output)
    assert output.getvalue().startswith("Whole: 2 entries, 1 to 2, digest ")


def test_the_newest_entries_can_be_looked_at_alone():
    write("a", "b", "c")
    AuditEntry.objects.filter(number=1).update(outcome="x")
    assert (hash_chain.verify(2).fault, hash_chain.verify(2).entries) == ("", 2)
    assert hash_chain.verify().fault


# ---- retention ----------------------------------------------------------------------------


def test_entries_past_their_time_are_dropped_and_the_chain_stays_whole(guarded):
    now = int(time.time() * 1000)
    for age in (OLD_MS, OLD_MS, 0, 0):
        hash_chain.append(fields(at=now - age))
    assert prune(now) == 2
    assert prune(now) == 0
    check = hash_chain.verify()
    assert (check.fault, check.first, check.last, check.dropped) == ("", 3, 5, True)
    entry = AuditEntry.objects.get(action="audit.pruned")
    assert json.loads(entry.facts)["last"] == 2
    call_command("audit_verify", stdout=StringIO())


# ---- what is audited ----------------------------------------------------------------------

PASSWORD = "horse-battery-7"


def client_of(role: str) -> Client:
    return logged_in(make_user(role, PASSWORD))


def entries(action: str) -> list[tuple[str, str, str]]:
    """Who did it to what, with which outcome, in order."""
    rows = AuditEntry.objects.filter(action=action).order_by("number")
    return list(rows.values_list("name", "target", "outcome"))


def facts_of(action: str) -> dict[str, Any]:
    return dict(json.loads(AuditEntry.objects.get(action=action).facts))


def test_a_login_and_a_logout(bus):
    client_of("operator")
    client = Client()
    for password in ("wrong", PASSWORD):
        client.post("/account/login/", {"login": "operator", "password": password})
    client.post("/account/logout/")
    assert entries("login.failed") == [("", "operator", "refused")]
    assert entries("login.ok") == [("operator", "operator", "done")]
    assert entries("logout") == [("operator", "operator", "done")]


def test_too_many_logins_are_noted_once_a_minute(bus):
    client_of("operator")
    client = Client()
    for _ in range(9):
        client.post("/account/login/", {"login": "operator", "password": "wrong"})
    assert len(entries("login.failed")) == 5
    assert entries("login.limited") == [("", "operator", "refused")]


def test_somebody_who_was_deactivated_does_not_come_in(bus):
    client_of("operator")
    User.objects.update(is_active=False)
    Client().post("/account/login/", {"login": "operator", "password": PASSWORD})
    assert entries("login.failed") == [("", "operator", "refused")]
    assert facts_of("login.failed") == {"what": "deactivated"}


def test_a_password_and_a_second_factor(bus, django_capture_on_commit_callbacks):
    client = client_of("operator")
    new = "staple-correct-8"
    form = {"oldpassword": PASSWORD, "password1": new, "password2": new}
    assert client.post("/account/password/change/", form).status_code == 302
    client.post("/account/reauthenticate/", {"password": new, "next": "/account/2fa/"})
    client.get("/account/2fa/totp/activate/")
    secret = client.session["mfa.totp.secret"]
    code = format_hotp_value(hotp_value(secret, int(time.time()) // 30))
    with django_capture_on_commit_callbacks(execute=True):
        assert client.post("/account/2fa/totp/activate/", {"code": code}).status_code == 302
    client.post("/account/2fa/totp/deactivate/")
    assert entries("password.changed") == [("operator", "operator", "done")]
    assert entries("factor.added") == [("operator", "operator", "done")] * 2
    assert entries("factor.removed") == [("operator", "operator", "done")] * 2


def test_tokens_of_a_page_and_of_the_command_line(bus):
    client = client_of("operator")
    form = {"label": "cron", "scopes": ["read"], "days": "30"}
    confirmed(client).post("/account/tokens/", form)
    row = ApiToken.objects.get()
    client.post("/account/tokens/", {"revoke": row.prefix})
    client.post("/account/tokens/", {"revoke": row.prefix})
    assert entries("token.revoked") == [("operator", "operator", "done")]
    facts = facts_of("token.issued")
    assert (facts["token"], facts["label"], facts["scopes"]) == (row.prefix, "cron", "read")
    call_command("token", "operator", stdout=StringIO())
    assert AuditEntry.objects.filter(source="command line", action="token.issued").count() == 1


def test_commands_of_a_page_and_of_a_token(bus):
    show("attack", "shop", "clear")
    client = client_of("operator")
    form = {"id": str(uuid.uuid4()), "state": "clear", "reason": "a drill"}
    assert client.post("/s/attack/command/set/shop/", form).status_code == 302
    headers = bearer(User.objects.get())
    body = json.dumps({"state": "clear", "reason": "a drill"})
    path = "/api/v1/scenarios/attack/assets/shop"
    kind = "application/json"
    assert client.put(path, body, content_type=kind, headers=headers).status_code == 202
    first, second = AuditEntry.objects.filter(action="command.set").order_by("number")
    assert (first.source, first.scenario, first.outcome) == ("page", "attack", "sent")
    assert (second.source, second.outcome) == ("token", "sent")
    assert second.token == headers["Authorization"].split("_")[1]
    assert json.loads(first.facts) == {
        "state": "clear",
        "reason": "a drill",
        "command": form["id"],
    }


def test_a_command_that_is_refused(bus):
    show("attack", "shop", "clear")
    headers = bearer(make_user("operator"))
    body = json.dumps({"state": "clear", "reason": "a drill", "until": 1})
    path = "/api/v1/scenarios/attack/assets/shop"
    client = Client()
    assert (
        client.put(path, body, content_type="application/json", headers=headers).status_code == 422
    )
    assert entries("command.set") == [("operator", "shop", "refused: " + PAST)]


PAST = "This time is past; expected a future one."


def test_an_ask_of_the_job(bus):
    JobProgress.objects.create(query="kernel", at=now_ms(), status="running", epoch=1)
    client = client_of("admin")
    form = {"id": str(uuid.uuid4()), "action": "stop", "reason": "a drill", "confirm": "on"}
    assert client.post("/job/kernel/ask/", form).status_code == 302
    assert entries("job.stop") == [("admin", "kernel", "sent")]
    assert facts_of("job.stop") == {"reason": "a drill"}


def test_files_that_are_taken_out(bus):
    client = client_of("admin")
    for path in ("/events/events.csv?q=shop", "/dead-letters/export/ndjson/", "/audit/audit.csv"):
        assert client.get(path).status_code == 200
    assert facts_of("export.events") == {"form": "csv", "filter": "q=shop"}
    assert entries("export.letters") == [("admin", "dead-letters.ndjson", "done")]
    assert entries("export.audit") == [("admin", "audit.csv", "done")]


def test_every_action_that_the_code_names_is_listed():
    """One whose name is put together must fit at least one that is listed."""
    unknown = [
        f"{file}: {pattern}"
        for file, pattern in named_actions()
        if not fnmatch.filter(ACTIONS, pattern)
    ]
    assert unknown == []
    assert ("log.py", "login.ok") in set(named_actions())


NAMED = ("record", "audit")
"""What `audit.log.record` is called where it is imported."""


def named_actions() -> Iterator[tuple[str, str]]:
    """The actions that stand in calls of `record`, each with its file; `*` for what varies."""
    for path in sorted((ROOT / "dashboard").rglob("*.py")):
        for call in ast.walk(ast.parse(path.read_text(), str(path))):
            if isinstance(call, ast.Call) and getattr(call.func, "id", "") in NAMED:
                for pattern in patterns(call.args[1]) if len(call.args) == 2 else ():
                    yield path.name, pattern


def patterns(node: ast.expr) -> list[str]:
    """What an expression of an action's name may come to; nothing of a variable."""
    if isinstance(node, ast.Constant):
        return [str(node.value)]
    if isinstance(node, ast.IfExp):
        return patterns(node.body) + patterns(node.orelse)
    if isinstance(node, ast.JoinedStr):
        parts = [part.value if isinstance(part, ast.Constant) else "*" for part in node.values]
        return ["".join(map(str, parts))]
    return []


# ---- its page -----------------------------------------------------------------------------


@pytest.fixture
def admin() -> Client:
    cache.clear()
    return client_of("admin")


def shown(client: Client, query: str = "") -> list[str]:
    """The targets of the entries on a page, from the top."""
    page = client.get(f"/audit/{query}").content.decode()
    return re.findall(r'class="target">(?:<small>[^<]*</small> )?<bdi[^>]*>([^<]*)</bdi>', page)


def test_the_newest_are_on_top_with_their_facts(admin):
    write("a", "b")
    record(Actor.system("worker"), "job.stop", target="kernel", outcome="unsent", why="<b>no</b>")
    assert shown(admin) == ["kernel", "b", "a"]
    page = admin.get("/audit/").content.decode()
    assert "&lt;b&gt;no&lt;/b&gt;" in page
    assert "Chain unbroken over the newest 3 entries" in page


@pytest.mark.parametrize(
    ("query", "targets"),
    [
        ("?user=worker", ["c", "a"]),
        ("?user=nobody", []),
        ("?action=job.stop", ["c"]),
        ("?action=command.", ["b", "a"]),
        ("?scenario=attack", ["b", "a"]),
        ("?q=B", ["b"]),
        ("?outcome=ref", ["b"]),
        ("?start=2001-01-01T00:00", ["c", "b", "a"]),
        ("?end=2001-01-01T00:00", []),
    ],
)
def test_the_filter_narrows(admin, query: str, targets: list[str]):
    record(Actor.system("worker"), "command.set", scenario="attack", target="a")
    record(
        Actor.system("olga"), "command.vote", scenario="attack", target="b", outcome="refused: x"
    )
    record(Actor.system("worker"), "job.stop", target="c")
    assert shown(admin, query) == targets


@pytest.mark.parametrize(
    ("query", "field", "message"),
    [
        ("?action=nope", "q", "action: expected"),
        ("?scenario=nope", "q", "scenario: expected attack"),
        ("?q=a%00b", "q", ""),
        ("?start=yesterday", "q", "at: expected a duration such as 1h30m, or a time"),
        ("?before=-1", "before", ""),
        ("?before=99999999999999999999", "before", ""),
        ("?user=" + "x" * 1001, "q", "at most 1000 characters"),
    ],
)
def test_what_is_no_filter_is_refused_by_its_field(admin, query: str, field: str, message: str):
    response = admin.get(f"/audit/{query}")
    assert response.status_code == 422
    error = error_of(response, field)
    assert error
    assert message in error
    assert admin.get(f"/audit/audit.csv{query}").status_code == 422
    assert admin.get("/audit/audit.xml").status_code == 404


@text
@pytest.mark.spread(4)
def test_hostile_texts_in_the_filter_and_in_an_entry(admin, text: str):
    if len(text) > 10_000:  # the web server's own limit of an address is shorter
        text = text[:10_000]
    record(Actor.system(text), "command.set", scenario=text, target=text, outcome=text, fact=text)
    encodable = text.encode(errors="replace").decode()
    for name in ("user", "q", "outcome", "action", "start", "before"):
        calm(admin.get("/audit/", {name: encodable}), text)
    calm(admin.get("/audit/"), text)
    assert hash_chain.verify().fault == ""


def test_pages_meet_every_entry_once(admin, monkeypatch):
    monkeypatch.setattr(audit.AuditList, "page_size", 2)
    write(*"abcde")
    assert pages_of(admin, "/audit/", shown) == ["e", "d", "c", "b", "a"]


def test_only_so_many_entries_are_looked_at_for_a_page(admin, monkeypatch):
    write("wanted", "x", "y", "z")
    monkeypatch.setattr(audit.AuditList, "looked_at", 2)
    assert shown(admin, "?q=wanted") == []
    older = re.search(r"before=(\d+)", admin.get("/audit/?q=wanted").content.decode())
    assert older
    assert shown(admin, f"?q=wanted&before={older[1]}") == ["wanted"]


def test_files_hold_what_the_filter_finds(admin, monkeypatch):
    monkeypatch.setattr(audit.AuditList, "portion_size", 1)
    write("=cmd()", "b")
    lines = file(admin, "csv").decode().splitlines()
    rows = list(csv.DictReader(lines))
    assert [line["target"] for line in rows] == ["audit.csv", "b", "'=cmd()"]
    objects = [json.loads(line) for line in file(admin, "ndjson", "?q=cmd").splitlines()]
    assert [(one["target"], one["facts"]) for one in objects] == [("=cmd()", {})]


def file(client: Client, form: str, query: str = "") -> bytes:
    """The whole of a file."""
    response = client.get(f"/audit/audit.{form}{query}")
    return b"".join(response.streaming_content)  # type: ignore[attr-defined]


def test_a_script_gets_the_part_that_renews_itself(admin):
    write("a")
    part = admin.get("/audit/", headers={"HX-Request": "true"}).content.decode()
    assert part.startswith('<div id="events" data-refresh="/audit/"')
    assert "data-refresh" not in admin.get("/audit/?before=1").content.decode()


def test_a_chain_that_is_not_whole_is_said_on_top(admin):
    write("a", "b")
    AuditEntry.objects.filter(number=2).update(outcome="x")
    assert "The chain is broken: entry 2 was changed" in admin.get("/audit/").content.decode()


def test_an_admin_is_led_from_an_asset_to_what_was_done_to_it(bus, admin):
    show("attack", "a b", "clear")
    link = "/audit/?scenario=attack&amp;word=a%20b"
    assert link in admin.get("/s/attack/a/a b/").content.decode()
    record(Actor.system("worker"), "command.set", scenario="attack", target="a b")
    assert shown(admin, "?scenario=attack&word=a%20b") == ["a b"]
    operator = client_of("operator")
    assert "/audit/" not in operator.get("/s/attack/a/a b/").content.decode()
