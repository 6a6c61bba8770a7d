"""The REST interface: what it gives, what it sends, and how it refuses."""

from __future__ import annotations

import json
import threading
import time
import uuid
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import pytest
from django.test import Client

from dashboard.core.common import access, kafka, times
from dashboard.core.common.scenarios import scenarios
from dashboard.watch.agents import reporting
from dashboard.watch.commands import submission
from dashboard.watch.commands import views as command_views
from dashboard.watch.commands.models import Command as Row
from domain.fold import Bucket
from domain.records import MAX_AHEAD, DeadLetter, Doubt, Flap, Report, StateRecord, Vote
from support.web.web_fixtures import answer, bearer, commands_sent, make_user, sent, show

pytestmark = pytest.mark.django_db

ASSETS = "/api/v1/scenarios/attack/assets"
SHOP = f"{ASSETS}/shop.example"
REPORTS = "/api/v1/scenarios/attack/reports"


@pytest.fixture
def api() -> Api:
    return Api(bearer(make_user("operator")))


class Api:
    """The test client with a token, speaking JSON."""

    def __init__(self, headers: dict[str, str]) -> None:
        self.headers = headers

    def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        return Client().generic(
            method.upper(),
            path,
            b"" if body is None else body if isinstance(body, bytes) else json.dumps(body),
            content_type="application/json",
            headers=self.headers | headers,
        )


def set_body(**more: Any) -> dict[str, Any]:
    return {"state": "clear", "reason": "a drill"} | more


def problem(response: Any, status: int, reason: str) -> dict[str, Any]:
    """The problem in the response, once status, type and reason are as expected."""
    assert response.status_code == status, response.content
    assert response["Content-Type"] == "application/problem+json"
    body: dict[str, Any] = response.json()
    assert (body["status"], body["reason"]) == (status, reason)
    return body


def test_scenarios_with_their_counts(api, bus):
    show("attack", "a", "clear")
    show("attack", "b", "clear")
    by_name = {item["name"]: item for item in api("get", "/api/v1/scenarios").json()}
    assert list(by_name) == list(scenarios())
    assert by_name["attack"]["counts"]["clear"] == 2
    assert by_name["attack"]["states"][0] == {
        "name": "under-attack", "label": "Under attack", "colour": "red", "icon": "octagon",
    }  # fmt: skip
    assert by_name["orders"]["vocabulary"] == "open"
    severities = {name: each["severity"] for name, each in by_name.items()}
    assert severities == {
        "attack": "order",
        "connectivity": "order",
        "orders": "none",
        "clients": "none",
        "customers": "none",
    }


VOTE = Vote("waf-1", "under-attack", 900, 1_000, 1, 2_000, 1)


def test_what_is_doubted_is_told_counted_and_asked_for(api, bus):
    reason: Any = {"unconfirmed": True, "unconfirmed_reason": "1 of 2 voters"}
    show("attack", "a", "clear", disputed="under-attack", votes=(replace(VOTE, silent=2_000),))
    show("attack", "b", "clear", votes=(VOTE,), **reason)
    show("attack", "c", "clear")
    doubt = Doubt("waf-2", "contradiction", "under-attack", 1_000, 2, 2_000, 1)
    ahead = replace(
        VOTE,
        doubt="clock-ahead",
        detail_fault="too-large",
        flap=Flap("under-attack", 5, 9, again=True),
    )
    show("attack", "d", "clear", votes=(ahead,), doubts=(doubt,))
    doubts = {item["name"]: item["doubts"] for item in api("get", "/api/v1/scenarios").json()}
    assert doubts["attack"] == {"disputed": 1, "unconfirmed": 1, "silent": 1, "doubt": 1}
    assert set(doubts["orders"].values()) == {0}
    doubted = api("get", f"{ASSETS}/d").json()
    (doubted_vote,) = doubted["votes"]
    assert (doubted_vote["doubt"], doubted_vote["detail_fault"]) == ("clock-ahead", "too-large")
    assert doubted_vote["flapping"] == {"state": "under-attack", "time": 5, "until": 9}
    assert doubted["doubts"] == [
        {"agent": "waf-2", "reason": "contradiction", "said": "under-attack", "time": 1_000,
         "offset": 2, "until": 2_000, "weight": 1}
    ]  # fmt: skip
    one, other = (api("get", f"{ASSETS}/{name}").json() for name in "ab")
    assert (one["disputed"], one["unconfirmed_reason"]) == ("under-attack", None)
    assert (other["disputed"], other["unconfirmed_reason"]) == (None, "1 of 2 voters")
    assert [vote["silent"] for vote in (*one["votes"], *other["votes"])] == [2_000, None]

    def names(query: str) -> list[str]:
        return [item["asset"] for item in api("get", f"{ASSETS}?{query}").json()["items"]]

    assert names("doubt=disputed") == names("q=is:disputed") == ["a"]
    assert names("doubt=disputed&doubt=silent") == names("q=is:disputed+has:silent") == ["a"]
    assert names("doubt=disputed&doubt=unconfirmed") == []
    assert names("doubt=doubt") == names("q=has:doubt") == ["d"]
    assert names("q=is:disputed,unconfirmed") == ["a", "b"]
    assert names("doubt=unconfirmed&state=clear&q=b") == ["b"]
    problem(api("get", f"{ASSETS}?doubt=odd"), 422, "invalid")


def test_pages_of_assets_go_on_where_the_last_ended(api, bus):
    names = [f"site-{n:02d}" for n in range(7)]
    for name in names:
        show("attack", name, "clear")
    seen, after = [], ""
    while after is not None:
        page = api("get", f"{ASSETS}?limit=3&after={after}").json()
        assert len(page["items"]) <= 3
        seen += [item["asset"] for item in page["items"]]
        after = page["next"]
    assert seen == names


def test_assets_by_state_and_text(api, bus):
    show("attack", "a-1", "clear")
    show("attack", "a-2", "under-attack")
    show("attack", "b-1", "suspicious")
    show("connectivity", "a-3", "up")

    def names(query: str) -> list[str]:
        return [item["asset"] for item in api("get", f"{ASSETS}?{query}").json()["items"]]

    assert names("") == ["a-1", "a-2", "b-1"]
    assert names("state=clear&state=suspicious") == ["a-1", "b-1"]
    assert names("q=A-") == ["a-1", "a-2"]


@pytest.mark.parametrize(
    ("query", "field"), [("limit=0", "limit"), ("limit=1001", "limit"), ("limit=x", "limit")]
)
def test_a_wrong_page_is_refused_by_field(api, bus, query: str, field: str):
    body = problem(api("get", f"{ASSETS}?{query}"), 422, "invalid")
    assert [error["field"] for error in body["errors"]] == [field]


def test_one_asset(api, bus):
    row = show("attack", "shop.example", "clear", offset=42)
    asset = api("get", SHOP).json()
    assert asset["version"] == "1.42.0"
    assert {key: asset[key] for key in json.loads(row.record)} == json.loads(row.record)


def test_what_is_not_there_is_404(api, bus):
    problem(api("get", SHOP), 404, "unknown-asset")
    problem(api("delete", SHOP), 404, "unknown-asset")
    problem(api("post", "/api/v1/scenarios/attack/release/shop.example"), 404, "unknown-asset")
    for method, rest in (
        ("get", "assets"), ("get", "assets/x"), ("delete", "assets/x"), ("post", "release/x"),
    ):  # fmt: skip
        body = problem(api(method, f"/api/v1/scenarios/weather/{rest}"), 404, "unknown-scenario")
        assert "attack" in body["detail"]
    problem(api("put", "/api/v1/scenarios/weather/assets/x", set_body()), 404, "unknown-scenario")
    problem(api("get", f"/api/v1/commands/{uuid.uuid4()}"), 404, "unknown-command")
    assert commands_sent(bus, "attack") == []


def test_a_purged_asset_is_gone(api, bus):
    show("attack", "shop.example", "clear")
    from dashboard.core.states.models import AssetState

    AssetState.objects.update(purged=True)
    problem(api("get", SHOP), 404, "unknown-asset")
    assert api("get", ASSETS).json()["items"] == []


def test_a_set_answers_202_and_where_to_follow_it(api, bus):
    until = times.now_ms() + 60_000
    response = api("put", SHOP, set_body(until=until, if_version="1.42.0"))
    assert response.status_code == 202
    (command,) = commands_sent(bus, "attack")
    assert (command.kind, command.asset, command.state) == ("set", "shop.example", "clear")
    assert (command.until, str(command.if_version)) == (until, "1.42.0")
    body = response.json()
    assert (body["id"], body["phase"], body["outcome"]) == (command.id, "sent", None)
    assert (body["user"], body["source"]) == ("operator", "api")
    assert response["Location"] == f"/api/v1/commands/{command.id}"
    answer(command.id, "refused: the state has moved on")
    followed = api("get", response["Location"]).json()
    assert (followed["phase"], followed["outcome"]) == (
        "refused",
        "refused: the state has moved on",
    )
    assert followed["version"] == "1.7.0"


@pytest.mark.parametrize(
    ("method", "path", "body", "kind"),
    [
        ("put", SHOP, set_body(mode="vote"), "vote"),
        ("put", SHOP, {"state": "clear", "mode": "vote"}, "vote"),
        ("delete", f"{SHOP}?reason=gone", None, "purge"),
        ("post", "/api/v1/scenarios/attack/release/shop.example?reason=over", None, "release"),
    ],
)
def test_the_other_commands(api, bus, method: str, path: str, body: Any, kind: str):
    show("attack", "shop.example", "clear")
    assert api(method, path, body).status_code == 202
    (command,) = commands_sent(bus, "attack")
    assert command.kind == kind
    assert command.reason == {"purge": "gone", "release": "over"}.get(kind, command.reason)


@pytest.mark.django_db(transaction=True)
def test_waiting_gives_the_outcome(api, bus, monkeypatch: pytest.MonkeyPatch):
    real = submission._deliver

    def answered_later(row: Row, command: Any) -> None:
        real(row, command)
        answer(row.pk)

    monkeypatch.setattr(submission, "_deliver", answered_later)
    response = api("put", f"{SHOP}?wait=5", set_body())
    assert response.status_code == 200
    assert response.json()["outcome"] == "applied"


def test_waiting_in_vain_is_202(api, bus, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(command_views, "POLL_S", 0.01)
    start = time.monotonic()
    response = api("put", f"{SHOP}?wait=0.2", set_body())
    assert (response.status_code, response.json()["outcome"]) == (202, None)
    assert time.monotonic() - start >= 0.2


def test_a_wait_ends_with_the_answer(api, bus, monkeypatch: pytest.MonkeyPatch):
    """Not before it, and long before the time given."""
    looked: list[int] = []
    real = Row.refresh_from_db

    def refresh(row: Row, *args: Any, **kwargs: Any) -> None:
        looked.append(1)
        if len(looked) == 3:
            answer(row.pk)
        real(row, *args, **kwargs)

    monkeypatch.setattr(Row, "refresh_from_db", refresh)
    response = api("put", f"{SHOP}?wait=30", set_body())
    assert response.status_code == 200
    assert len(looked) == 3


@pytest.mark.parametrize(
    ("body", "field", "expected"),
    [
        ({"reason": "x"}, "state", "required"),
        (set_body(state="on-fire"), "state", "under-attack, suspicious, clear"),
        (set_body(state=7), "state", "string"),
        (set_body(state=""), "state", "at least 1"),
        (set_body(reason=""), "reason", "Expected a reason"),
        (set_body(reason="x" * 501), "reason", "at most 500"),
        (set_body(mode="purge"), "mode", "'set' or 'vote'"),
        (set_body(until="tomorrow"), "until", "integer"),
        (set_body(until=1), "until", "past"),
        (set_body(until=True), "until", "integer"),
        (set_body(if_version="7"), "if_version", "epoch.offset.step"),
        (set_body(colour="red"), "colour", "Extra"),
        ([], "body", "dict"),
        ("clear", "body", "dict"),
    ],
)
def test_wrong_input_names_the_field_and_what_was_expected(
    api, bus, body: Any, field: str, expected: str
):
    problem_body = problem(api("put", SHOP, body), 422, "invalid")
    assert [error["field"] for error in problem_body["errors"]] == [field]
    assert expected in problem_body["errors"][0]["expected"]
    assert commands_sent(bus, "attack") == []


@pytest.mark.parametrize("body", [b"{", b"\xff", b'{"state": NaN'])
def test_what_is_not_json_is_400(api, bus, body: bytes):
    problem(api("put", SHOP, body), 400, "bad-request")
    problem(api("post", REPORTS, body), 400, "bad-request")


def test_a_missing_body_is_422(api, bus):
    problem(api("put", SHOP), 422, "invalid")


@pytest.mark.parametrize("query", ["wait=31", "wait=-1", "wait=x"])
def test_a_wait_has_bounds(api, bus, query: str):
    body = problem(api("put", f"{SHOP}?{query}", set_body()), 422, "invalid")
    assert [error["field"] for error in body["errors"]] == ["wait"]
    show("attack", "shop.example", "clear")
    body = problem(api("delete", f"{SHOP}?{query}"), 422, "invalid")
    assert [error["field"] for error in body["errors"]] == ["wait"]


@pytest.mark.parametrize(
    "asset", ["a\nb", "\x00", "x" * 256, "\x7f"], ids=["newline", "nul", "long", "delete"]
)
def test_a_bad_asset_name_is_refused(api, bus, asset: str):
    response = api("put", f"{ASSETS}/{quote(asset, safe='')}", set_body())
    assert response.status_code in (404, 422)
    assert response["Content-Type"] == "application/problem+json"
    assert sent(bus, "attack") == []


@pytest.mark.parametrize(
    "asset", ["10.0.0.0/8", "100%", "%2F", "a b", "Zürich · 東京", "..", "a/", "release/x", "x?y#z"]
)
def test_any_asset_name_goes_through(api, bus, asset: str):
    path = f"{ASSETS}/{quote(asset, safe='')}"
    api("put", path, set_body())
    (command,) = commands_sent(bus, "attack")
    assert command.asset == asset
    show("attack", asset, "clear")
    assert api("get", path).json()["asset"] == asset
    api("post", f"/api/v1/scenarios/attack/release/{quote(asset, safe='')}")
    assert {command.asset for command in commands_sent(bus, "attack")} == {asset}


def test_the_same_key_is_one_command(api, bus):
    show("attack", "shop.example", "clear")
    key = {"Idempotency-Key": str(uuid.uuid4())}
    first = api("delete", SHOP, **key)
    Row.objects.update(status="answered", outcome="applied")
    from dashboard.core.states.models import AssetState

    AssetState.objects.all().delete()
    again = api("delete", SHOP, **key)
    assert (first.status_code, again.status_code) == (202, 202)
    assert first.json()["id"] == again.json()["id"] == key["Idempotency-Key"]
    assert again.json()["outcome"] == "applied"
    assert len(commands_sent(bus, "attack")) == 1


def test_a_key_of_another_command_is_409(api, bus):
    key = {"Idempotency-Key": str(uuid.uuid4())}
    assert api("put", SHOP, set_body(), **key).status_code == 202
    problem(api("put", f"{ASSETS}/other", set_body(), **key), 409, "id-taken")
    problem(api("put", SHOP, set_body(state="suspicious"), **key), 409, "id-taken")
    admin = Api(bearer(make_user("admin")))
    problem(admin("put", SHOP, set_body(), **key), 409, "id-taken")
    problem(api("put", SHOP, set_body(), **{"Idempotency-Key": "7"}), 422, "invalid")


def test_without_a_broker_it_is_503(api, bus, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(kafka, "REACH_S", 0)
    bus.bus.stop()
    body = problem(api("put", SHOP, set_body()), 503, "unsent")
    assert "Kafka does not answer" in body["detail"]
    assert Row.objects.get().status == "unsent"


def test_too_many_commands_are_429(api, bus, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(submission, "COMMANDS", access.Limit("commands", 1, window=86_400))
    assert api("put", SHOP, set_body()).status_code == 202
    response = api("put", SHOP, set_body())
    problem(response, 429, "too-many")
    assert 0 < int(response["Retry-After"]) <= 86_400
    assert len(commands_sent(bus, "attack")) == 1


def test_a_large_body_is_413(api, bus):
    problem(api("put", SHOP, b" " * 3_000_000), 413, "too-large")
    problem(api("post", REPORTS, b" " * (16 * 1024 * 1024 + 1)), 413, "too-large")


# ---- reports ------------------------------------------------------------------------------


def report(**more: Any) -> dict[str, Any]:
    return {"asset": "shop.example", "agent": "waf-1", "state": "clear"} | more


def test_one_report(api, bus):
    response = api("post", REPORTS, report(reported_at=1_000, detail={"rps": 12}))
    assert response.status_code == 202
    assert response.json()["items"][0]["offset"] == 0
    ((asset, record),) = sent(bus, "attack")
    assert record == Report(asset, "waf-1", "clear", 1_000, '{"rps":12}')


def test_a_list_is_answered_one_by_one(api, bus):
    response = api("post", REPORTS, [report(), report(state="on-fire"), 7, report(asset="b")])
    assert response.status_code == 202
    body = response.json()
    assert (body["accepted"], body["refused"]) == (2, 2)
    assert [item["accepted"] for item in body["items"]] == [True, False, False, True]
    assert body["items"][1]["reason"] == "unknown-state"
    assert [asset for asset, _ in sent(bus, "attack")].count("b") == 1


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"asset": ""}, "bad-asset"),
        ({"asset": 7}, "bad-asset"),
        ({"asset": "a\nb"}, "bad-asset"),
        ({"agent": "user:operator"}, "bad-agent"),
        ({"agent": None}, "bad-agent"),
        ({"agent": 7, "state": "on-fire"}, "bad-agent"),
        ({"agent": "w" * 70_000}, "too-large"),
    ],
)
def test_a_report_whose_asset_or_agent_cannot_be_read_is_not_sent(
    api, bus, wrong: dict[str, Any], reason: str
):
    body = problem(api("post", REPORTS, report(**wrong)), 422, "invalid")
    assert body["errors"][0].keys() == {"field", "reason", "expected"}
    listed = api("post", REPORTS, [report(), report(**wrong)]).json()
    assert [item["reason"] for item in listed["items"]] == [None, reason]
    assert [item["recorded"] for item in listed["items"]] == [True, False]
    assert len(sent(bus, "attack")) == 1


REFUSED = [
    ({"state": "on-fire"}, "unknown-state", "on-fire"),
    ({"state": ""}, "unknown-state", None),
    ({"state": "x" * 65}, "unknown-state", None),
    ({"state": None}, "bad-field", None),
    ({"state": 7}, "bad-field", None),
    ({"reported_at": -1}, "bad-time", "clear"),
    ({"reported_at": 1.5}, "bad-time", "clear"),
    ({"reported_at": "now"}, "bad-time", "clear"),
    ({"reported_at": 10**30}, "bad-time", "clear"),
    ({"reported_at": -1, "detail": []}, "bad-time", "clear"),
    ({"state": "on-fire", "detail": {"x": "y" * 70_000}}, "unknown-state", "on-fire"),
]


@pytest.mark.parametrize(("wrong", "reason", "said"), REFUSED)
def test_a_report_refused_for_its_state_or_time_is_recorded_so_that_its_agent_is_doubted(
    api, bus, wrong: dict[str, Any], reason: str, said: str | None
):
    body = problem(api("post", REPORTS, report(**wrong)), 422, "invalid")
    assert body["errors"] == [
        {"field": "0", "reason": reason, "expected": reporting.EXPECTED[reason],
         "note": reporting.DOUBTED},
    ]  # fmt: skip
    assert reporting.DOUBTED in body["detail"]
    ((asset, record),) = sent(bus, "attack")
    assert (asset, record.agent) == ("shop.example", "waf-1")
    state = record.state if isinstance(record, Report) else record.said
    assert state == said
    listed = api("post", REPORTS, [report(asset="b"), report(**wrong)]).json()["items"]
    assert [item["accepted"] for item in listed] == [True, False]
    assert [item["recorded"] for item in listed] == [True, True]
    assert (listed[1]["reason"], listed[1]["offset"]) == (reason, 1)
    assert listed[1]["note"] == reporting.DOUBTED


def test_a_refused_report_makes_the_board_doubt_its_agent(api, bus):
    """As the job folds what is in the log: the last all-clear is believed no longer."""
    bodies = [report(), report(agent="waf-2"), report(state="crtical", reported_at=None)]
    api("post", REPORTS, bodies)
    bucket = Bucket(scenarios()["attack"], 0, 1)
    for offset, (_, record) in enumerate(sent(bus, "attack")):
        emitted = bucket.apply(record, offset, 1_000 + offset)
    dead, state = emitted
    assert dead == DeadLetter("unknown-state")
    assert isinstance(state, StateRecord)
    assert (state.disputed, [doubt.said for doubt in state.doubts]) == ("crtical", ["crtical"])


def test_in_a_life_cycle_a_refused_report_is_a_dead_letter_alone(api, bus):
    path = "/api/v1/scenarios/orders/reports"
    body = problem(api("post", path, report(state="\n")), 422, "invalid")
    assert body["errors"][0]["note"] == reporting.KEPT
    assert len(sent(bus, "orders")) == 1


def test_a_refusal_is_answered_where_it_cannot_be_recorded(
    api, bus, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(reporting, "REACH_S", 0)
    bus.bus.stop()
    body = problem(api("post", REPORTS, report(state="on-fire")), 422, "invalid")
    assert "note" not in body["errors"][0]
    problem(api("post", REPORTS, [report(), report(state="on-fire")]), 503, "unsent")
    monkeypatch.setattr(kafka, "SEND_TIMEOUT_S", -0.9)
    monkeypatch.setattr(bus.bus, "wait", lambda _timeout: None)
    body = problem(api("post", REPORTS, report(state="on-fire")), 422, "invalid")
    assert "note" not in body["errors"][0]
    bus.bus.start()


def test_a_refused_report_counts_towards_the_limit(api, bus, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(reporting, "REPORTS", access.Limit("reports", 1, window=86_400))
    problem(api("post", REPORTS, report(state="on-fire")), 422, "invalid")
    problem(api("post", REPORTS, report(state="on-fire")), 429, "too-many")
    assert len(sent(bus, "attack")) == 1


def test_who_may_not_report_records_nothing(bus):
    wrong = report(state="on-fire")
    problem(Api({})("post", REPORTS, wrong), 401, "not-authenticated")
    scoped = Api(bearer(make_user("operator"), "read", "command"))
    problem(scoped("post", REPORTS, wrong), 403, "scope-required")
    viewer = Api(bearer(make_user("manager")))
    problem(viewer("post", REPORTS, wrong), 403, "role-required")
    assert sent(bus, "attack") == []


WARNED = [
    ({"reported_at": 99_999_999_999_999}, ["clock-ahead"]),
    ({"detail": []}, ["bad-field"]),
    ({"detail": "x"}, ["bad-field"]),
    ({"detail": {"x": "y" * 3000}}, ["too-large"]),
    ({"detail": {"x": "y" * 70_000}}, ["too-large"]),
    ({"detail": {"x": [[]] * 400}}, ["too-large"]),
    ({"detail": 7, "reported_at": 99_999_999_999_999}, ["clock-ahead", "bad-field"]),
]


@pytest.mark.parametrize(("odd", "reasons"), WARNED)
def test_a_report_with_a_wrong_clock_or_detail_is_taken_with_a_warning(
    api, bus, odd: dict[str, Any], reasons: list[str]
):
    response = api("post", REPORTS, report(**odd))
    assert response.status_code == 202
    (item,) = response.json()["items"]
    assert (item["accepted"], item["recorded"], item["reason"]) == (True, True, None)
    assert [warning["reason"] for warning in item["warnings"]] == reasons
    assert all(warning["detail"] for warning in item["warnings"])
    ((_, record),) = sent(bus, "attack")
    assert (record.state, record.detail) == ("clear", None)


def test_the_log_knows_that_a_detail_was_left_out(api, bus):
    """But where the whole record would be too large, it goes without: the claim counts."""
    details: list[Any] = [[], {"x": "y" * 3000}, {"x": "y" * 70_000}]
    for detail in details:
        api("post", REPORTS, report(detail=detail))
    faults = [record.detail_fault for _, record in sent(bus, "attack")]
    assert faults == ["bad-field", "too-large", None]


@pytest.mark.parametrize(("ahead", "warned"), [(MAX_AHEAD, False), (MAX_AHEAD + 1, True)])
def test_it_is_the_brokers_clock_that_a_time_is_ahead_of(
    api, bus, monkeypatch: pytest.MonkeyPatch, ahead: int, warned: bool
):
    monkeypatch.setattr(bus.bus, "_clock", lambda: 1_000)
    (item,) = api("post", REPORTS, report(reported_at=1_000 + ahead)).json()["items"]
    assert bool(item["warnings"]) is warned


def test_in_a_life_cycle_nothing_is_in_doubt(api, bus):
    path = "/api/v1/scenarios/orders/reports"
    body = report(state="picking", reported_at=99_999_999_999_999)
    (item,) = api("post", path, body).json()["items"]
    assert "the time of arrival counts" in item["warnings"][0]["detail"]


@pytest.mark.parametrize(
    ("odd", "reason"),
    [
        ({"reported_at": 99_999_999_999_999}, "bad-time"),
        ({"detail": []}, "bad-field"),
        ({"detail": {"x": "y" * 3000}}, "too-large"),
    ],
)
def test_a_rule_of_an_earlier_fold_refuses_what_it_always_did(odd: dict[str, Any], reason: str):
    former = replace(scenarios()["attack"], fold=4)
    assert reporting.check(former, report(**odd), 1_000).refused == reason
    assert reporting.check(former, report(), 1_000).refused == ""


@pytest.mark.parametrize("size", [0, 10_001])
def test_a_list_has_bounds(api, bus, size: int):
    problem(api("post", REPORTS, [report()] * size), 422, "invalid")
    assert sent(bus, "attack") == []


@pytest.mark.extensive(guard="tests/unit/serve/test_api.py::test_a_list_is_answered_one_by_one")
def test_ten_thousand_reports(api, bus):
    response = api("post", REPORTS, [report(asset=f"site-{n}") for n in range(10_000)])
    assert response.json()["accepted"] == 10_000
    assert len(sent(bus, "attack")) == 10_000


def test_reports_without_a_broker_are_503(api, bus, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(reporting, "REACH_S", 0)
    bus.bus.stop()
    problem(api("post", REPORTS, report()), 503, "unsent")


def test_reports_that_are_not_confirmed_say_so(api, bus, monkeypatch: pytest.MonkeyPatch):

    kafka.gateway().producer()  # it gives up in its own time, as before
    monkeypatch.setattr(kafka, "SEND_TIMEOUT_S", -0.9)
    monkeypatch.setattr(bus.bus, "wait", lambda _timeout: None)
    bus.bus.stop()
    body = problem(api("post", REPORTS, report()), 503, "unsent")
    assert "not confirmed in time" in body["detail"]
    bus.bus.start()


def test_too_many_reports_are_429(api, bus, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(reporting, "REPORTS", access.Limit("reports", 3, window=86_400))
    assert api("post", REPORTS, [report()] * 2).status_code == 202
    problem(api("post", REPORTS, [report()] * 2), 429, "too-many")
    assert api("post", REPORTS, report()).status_code == 202
    assert len(sent(bus, "attack")) == 3


def test_one_producer_for_all_threads(bus):
    made: list[Any] = []
    threads = [threading.Thread(target=lambda: made.append(bus.producer())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(producer) for producer in made}) == 1
    assert kafka.gateway() is bus
