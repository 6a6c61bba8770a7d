"""Hostile input, in every field of every operation and form: refused by name, never a fault."""

from __future__ import annotations

import json
import uuid
from typing import Any
from urllib.parse import quote

import pytest
from django.test import Client

from dashboard.core.accounts.models import ApiToken
from dashboard.watch.commands.models import Command as Row
from domain.names import name_ok
from domain.records import RefusedReport, Report
from support.histories.hostile import TEXTS, calm, text
from support.web.web_fixtures import (
    commands_sent,
    confirmed,
    make_user,
    sent,
)

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("shop")]

V1 = "/api/v1/scenarios/attack"
MAX_LINE = 16_384
"""Longest first line of a request that the server reads, characters."""


def send(method: str, path: str, body: Any, headers: dict[str, str]) -> Any:
    raw = body if isinstance(body, bytes) else json.dumps(body)
    return Client().generic(method, path, raw, content_type="application/json", headers=headers)


def tame(response: Any) -> None:
    """Answered without a fault, in bounds, and nothing of it became a header."""
    assert response.status_code < 500, response.content[:500]
    assert len(response.content) < 200_000
    assert "X-Injected" not in response
    if response.status_code >= 400:
        assert response["Content-Type"] == "application/problem+json"


# ---- operations ---------------------------------------------------------------------------------


@text
@pytest.mark.parametrize("field", ["state", "mode", "reason", "until", "if_version", "more"])
@pytest.mark.spread(8)
def test_a_field_of_a_command(bus, headers, field: str, text: str):
    body = {"state": "clear", "reason": "a drill"} | {field: text}
    response = send("PUT", f"{V1}/assets/shop", body, headers)
    tame(response)
    for command in commands_sent(bus, "attack"):
        assert "\0" not in command.reason
        assert (command.state, len(command.reason) <= 500) == ("clear", True)


@text
@pytest.mark.parametrize(
    "query", ["state", "q", "after", "limit", "wait", "reason", "if_version", "unknown"]
)
@pytest.mark.spread(10)
def test_a_field_of_a_query(bus, headers, query: str, text: str):
    value = quote(text.encode(errors="surrogatepass"))
    tame(send("GET", f"{V1}/assets?{query}={value}", b"", headers))
    tame(send("DELETE", f"{V1}/assets/shop?{query}={value}", b"", headers))
    tame(send("POST", f"{V1}/release/shop?{query}={value}", b"", headers))


@text
@pytest.mark.spread(2)
def test_a_name_in_a_path(bus, headers, text: str):
    name = quote(text.encode(errors="surrogatepass"), safe="")
    for method, path in (
        ("GET", f"{V1}/assets/{name}"),
        ("PUT", f"{V1}/assets/{name}"),
        ("DELETE", f"{V1}/assets/{name}"),
        ("POST", f"{V1}/release/{name}"),
        ("GET", f"/api/v1/scenarios/{name}/assets"),
        ("GET", f"/api/v1/commands/{name}"),
    ):
        tame(send(method, path, {"state": "clear", "reason": "a drill"}, headers))
    for command in commands_sent(bus, "attack"):
        assert len(command.asset) <= 255
        assert command.asset.isprintable() or "\u202e" in command.asset or text == "\U0010ffff"


@text
@pytest.mark.parametrize("field", ["asset", "agent", "state", "reported_at", "detail", "more"])
@pytest.mark.spread(8)
def test_a_field_of_a_report(bus, headers, field: str, text: str):
    body = {"asset": "shop", "agent": "waf-1", "state": "clear"} | {field: text}
    tame(send("POST", f"{V1}/reports", body, headers))
    tame(send("POST", f"{V1}/reports", [body], headers))
    for asset, record in sent(bus, "attack"):  # one that is refused names its agent all the same
        assert isinstance(record, Report | RefusedReport)
        assert name_ok(asset)
        assert name_ok(record.agent)


@text
@pytest.mark.parametrize("field", ["instance", "severity", "alertname", "summary", "startsAt"])
@pytest.mark.spread(8)
def test_a_field_of_an_alert(bus, headers, field: str, text: str):
    labels = {"instance": "shop", "severity": "critical", "alertname": "Flood"}
    one: dict[str, Any] = {
        "status": "firing", "labels": labels, "annotations": {}, "startsAt": "2025-10-09T08:53:20Z",
    }  # fmt: skip
    if field in labels:
        labels[field] = text
    elif field == "summary":
        one["annotations"] = {field: text}
    else:
        one[field] = text
    tame(send("POST", f"{V1}/alertmanager", {"version": "4", "alerts": [one]}, headers))
    for asset, record in sent(bus, "attack"):  # one that is refused names its agent all the same
        assert isinstance(record, Report | RefusedReport)
        assert name_ok(asset)
        assert name_ok(record.agent)


@text
@pytest.mark.parametrize("query", ["asset", "severity", "map", "resolved", "agent", "agent_label"])
@pytest.mark.spread(8)
def test_a_field_of_a_query_of_alerts(bus, headers, query: str, text: str):
    one = {"status": "firing", "labels": {"instance": "shop"}, "startsAt": "2025-10-09T08:53:20Z"}
    value = quote(text.encode(errors="surrogatepass"))
    path = f"{V1}/alertmanager?{query}={value}"
    tame(send("POST", path, {"version": "4", "alerts": [one]}, headers))


DEEP = 50_000
BODIES = {
    "deep lists": b"[" * DEEP + b"]" * DEEP,
    "deep tables": b'{"a":' * DEEP + b"1" + b"}" * DEEP,
    "deep field": b'{"state": ' + b"[" * DEEP + b"]" * DEEP + b"}",
    "open": b"[" * DEEP,
    "nan": b'{"state": NaN}',
    "huge number": b'{"until": 1e999999}',
    "long number": b'{"until": ' + b"9" * 100_000 + b"}",
    "not utf-8": b'{"state": "\xff\xfe"}',
    "utf-16": '{"state": "clear"}'.encode("utf-16"),
    "bom": b'\xef\xbb\xbf{"state": "clear"}',
    "half": b'{"state": "cle',
    "two": b'{"state": "clear"} {"state": "clear"}',
    "nothing": b"null",
    "text": b'"clear"',
    "number": b"7",
    "no body": b"",
    "half a pair": b'{"state": "clear", "reason": "\\ud800"}',
    "many": b"[" + b"[]," * 20_000 + b"[]]",
}


@pytest.mark.parametrize("body", BODIES.values(), ids=list(BODIES))
@pytest.mark.parametrize(
    ("method", "path"), [("PUT", "assets/shop"), ("POST", "reports"), ("POST", "alertmanager")]
)
@pytest.mark.spread(10)
def test_a_body_that_is_none(bus, headers, method: str, path: str, body: bytes):
    response = send(method, f"{V1}/{path}", body, headers)
    tame(response)
    assert response.status_code in (400, 415, 422)  # 415: without a body it has no type
    assert sent(bus, "attack") == []


def test_of_a_repeated_key_the_last_counts_where_it_is_checked_and_where_it_is_sent(bus, headers):
    body = b'{"state": "on-fire", "reason": "a", "state": "clear", "reason": "b"}'
    assert send("PUT", f"{V1}/assets/shop", body, headers).status_code == 202
    body = b'{"asset":"x","agent":"user:root","agent":"waf-1","state":"clear","asset":"shop"}'
    assert send("POST", f"{V1}/reports", body, headers).status_code == 202
    body = b'{"asset":"shop","agent":"waf-1","agent":"user:root","state":"clear"}'
    assert send("POST", f"{V1}/reports", body, headers).status_code == 422
    (asset, command), (_, report) = sent(bus, "attack")
    assert (asset, command.state, command.reason) == ("shop", "clear", "b")
    assert (report.asset, report.agent) == ("shop", "waf-1")


@pytest.mark.parametrize(
    "given",
    ["", "Bearer", "Bearer ", "bearer tb_", "Basic b3A6cHc=", "Bearer " + "x" * 100_000,
     "Bearer tb_\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9_0", "Bearer tb_'; --_00",
     "Bearer tb_00000000_" + "0" * 64, "Digest x"],
)  # fmt: skip
def test_a_token_that_is_none(bus, given: str):
    response = Client().get("/api/v1/scenarios", headers={"Authorization": given})
    tame(response)
    assert response.status_code == 401


@pytest.mark.parametrize("key", ["x", "0" * 10_000, "\u00e9", "6f1d7a9e"])
def test_a_key_that_is_none(bus, headers, key: str):
    path = f"{V1}/assets/shop"
    body = {"state": "clear", "reason": "a drill"}
    response = send("PUT", path, body, headers | {"Idempotency-Key": key})
    tame(response)
    assert response.status_code == 422


# ---- pages and forms ----------------------------------------------------------------------------


@pytest.fixture
def operator() -> Client:
    client = Client()
    client.force_login(make_user("operator"))
    return client


@text
@pytest.mark.parametrize(
    "path", ["/?q=", "/?state=", "/?asset=", "/?scenario=", "/s/attack/?after=", "/?q=a&state="]
)
@pytest.mark.spread(8)
def test_a_field_of_the_board(bus, operator, path: str, text: str):
    calm(operator.get(path + quote(text[:MAX_LINE].encode(errors="surrogatepass"))), text)


@text
@pytest.mark.parametrize("script", [True, False])
@pytest.mark.parametrize("query", ["scenario=attack&asset=", "asset=shop&scenario="])
@pytest.mark.spread(7)
def test_a_field_of_the_look_up(bus, operator, query: str, script: bool, text: str):
    headers = {"HX-Request": "true"} if script else {}
    value = quote(text[:MAX_LINE].encode(errors="surrogatepass"))
    response = operator.get(f"/partitions/?{query}{value}", headers=headers)
    calm(response, text)
    assert response.status_code in (200, 422)


@text
@pytest.mark.parametrize("path", ["/s/{}/", "/s/attack/a/{}/", "/commands/{}/"])
@pytest.mark.spread(7)
def test_a_part_of_a_page(bus, operator, path: str, text: str):
    name = quote(text[:MAX_LINE].encode(errors="surrogatepass"), safe="")
    calm(operator.get(path.format(name)), text)


@text
@pytest.mark.parametrize("kind", ["set", "vote", "release", "purge"])
@pytest.mark.parametrize("field", ["id", "state", "reason", "until_at", "zone", "end", "seen"])
@pytest.mark.spread(20)
def test_a_field_of_a_command_form(bus, operator, kind: str, field: str, text: str):
    form = {"id": str(uuid.uuid4()), "state": "clear", "reason": "a drill", "confirm": "yes"}
    if text == TEXTS["surrogate"]:
        text = "\ufffd"  # what a browser sends in its place
    if field == "until_at":
        form["end"] = "at"
    calm(operator.post(f"/s/attack/command/{kind}/shop/", form | {field: text}), text)
    assert all("\0" not in row.reason for row in Row.objects.all())
    assert all(len(command.reason) <= 500 for command in commands_sent(bus, "attack"))


@text
@pytest.mark.parametrize("field", ["label", "scopes", "days", "revoke"])
@pytest.mark.spread(7)
def test_a_field_of_the_token_form(bus, operator, field: str, text: str):
    if text == TEXTS["surrogate"]:
        text = "\ufffd"
    form = {"label": "cron", "scopes": "read", "days": "30"} | {field: text}
    calm(confirmed(operator).post("/account/tokens/", form), text)
    for token in ApiToken.objects.all():
        assert token.scopes == "read"
        assert token.label.isprintable()
        assert len(token.label) <= 100


@text
@pytest.mark.parametrize("field", ["login", "password", "next"])
@pytest.mark.spread(7)
def test_a_field_of_the_login(bus, field: str, text: str):
    if text == TEXTS["surrogate"]:
        text = "\ufffd"
    form = {"login": "olga", "password": "secret"} | {field: text}
    response = Client().post("/account/login/", form)
    calm(response, text)
    assert response.status_code == (413 if text == TEXTS["long"] else 200)


def test_a_form_that_is_too_large_is_refused(bus, operator):
    response = operator.post("/account/tokens/", {"label": "x" * 3_000_000})
    assert response.status_code in (400, 413)
    assert len(response.content) < 50_000


def test_more_fields_than_any_form_has_are_refused(bus, operator):
    many = "&".join(f"f{n}=" for n in range(2_000))
    kind = "application/x-www-form-urlencoded"
    assert operator.post("/account/tokens/", many, content_type=kind).status_code == 400


@pytest.mark.parametrize(
    "target", ["https://evil.example/", "//evil.example/", "javascript:alert(1)"]
)
def test_a_login_leads_to_no_other_site(bus, target: str):
    make_user("operator", "long-enough-7")
    form = {"login": "operator", "password": "long-enough-7", "next": target}
    response = Client().post(f"/account/login/?next={quote(target)}", form)
    assert response.status_code == 302
    assert response["Location"] == "/"
