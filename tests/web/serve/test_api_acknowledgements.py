"""Acknowledgements by REST: as the forms give them, with the same refusals, audited the same."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from django.core.cache import cache
from django.test import Client

from dashboard.core.audit.models import AuditEntry
from dashboard.core.common.access import Limit
from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.times import now_ms
from dashboard.watch.agents import mutes
from dashboard.watch.annotations import acknowledgements
from dashboard.watch.annotations.models import Acknowledgement, Mark
from support.web.web_fixtures import bearer, make_user, memory_bus, show

pytestmark = pytest.mark.django_db

PATH = "/api/v1/scenarios/attack/acknowledgements/"
DAY_MS = 86_400_000


class Caller:
    """An operator's program."""

    def __init__(self, user: str = "operator") -> None:
        self.headers = bearer(make_user(user))

    def __call__(self, method: str, asset: str, body: Any = None) -> Any:
        return Client().generic(
            method, f"{PATH}{asset}", b"" if body is None else json(body),
            content_type="application/json", headers=self.headers,
        )  # fmt: skip


def json(body: Any) -> bytes:
    return msgspec.json.encode(body)


@pytest.fixture
def call() -> Caller:
    cache.clear()
    show("attack", "shop", "suspicious")
    show("attack", "mail", "clear")
    return Caller()


def entries(action: str) -> list[tuple[str, str, str]]:
    rows = AuditEntry.objects.filter(action=action).order_by("number")
    return list(rows.values_list("name", "target", "source"))


def test_taken_in_hand_and_given_back(call: Caller):
    assert call("GET", "shop").json() == {"asset": "shop", "in_force": None, "items": []}
    until = now_ms() + 2 * DAY_MS
    answer = call("POST", "shop", {"reason": "on it", "until": until}).json()
    held = answer["in_force"]
    assert (held["by"], held["reason"], held["until"]) == ("operator", "on it", until)
    assert (held["state"], held["ended_at"]) == ("suspicious", None)
    assert answer["items"] == [held]
    assert call("GET", "shop").json() == answer
    assert Mark.objects.get(asset="shop").ack_by == "operator", "the board's rows show it"
    assert entries("asset.acknowledged") == [("operator", "shop", "token")]

    answer = call("DELETE", "shop").json()
    assert answer["in_force"] is None
    (ended,) = answer["items"]
    assert (ended["ended_why"], ended["ended_by"]) == ("taken back", "operator")
    assert entries("asset.unacknowledged") == [("operator", "shop", "token")]
    assert call("DELETE", "shop").status_code == 200
    assert len(entries("asset.unacknowledged")) == 1, "nothing was taken back any more"


def test_without_an_end_it_lasts_an_hour(call: Caller):
    begun = now_ms()
    until = call("POST", "shop", {}).json()["in_force"]["until"]
    assert begun + 3_600_000 <= until <= now_ms() + 3_600_000


def test_the_newest_takes_the_place_of_the_one_before(call: Caller):
    call("POST", "shop", {"reason": "first"})
    answer = call("POST", "shop", {"reason": "second"}).json()
    assert answer["in_force"]["reason"] == "second"
    assert [one["reason"] for one in answer["items"]] == ["second", "first"]
    assert answer["items"][1]["ended_why"] == "acknowledged anew"
    for _ in range(25):
        answer = call("POST", "shop", {}).json()
    assert len(answer["items"]) == 20
    assert answer["in_force"] == answer["items"][0]


@pytest.mark.parametrize(
    ("asset", "body", "status", "reason"),
    [
        ("mail", {}, 409, "calm"), ("nothing", {}, 404, "unknown-asset"),
        ("a%00b", {}, 422, "invalid"), ("shop", {"until": 5}, 422, "invalid"),
        ("shop", {"until": 4_102_444_800_000}, 422, "invalid"), ("shop", [], 422, "invalid"),
        ("shop", {"reason": "x" * 501}, 422, "invalid"), ("shop", {"end": "1h"}, 422, "invalid"),
    ],
)  # fmt: skip
def test_what_is_refused(call: Caller, asset: str, body: Any, status: int, reason: str):
    response = call("POST", asset, body)
    assert (response.status_code, response.json()["reason"]) == (status, reason)
    assert not Acknowledgement.objects.exists()
    assert entries("asset.acknowledged") == []


def test_an_unknown_scenario_is_named(call: Caller):
    response = Client().get("/api/v1/scenarios/nothing/acknowledgements/shop", headers=call.headers)
    assert (response.status_code, response.json()["reason"]) == (404, "unknown-scenario")


def test_they_are_counted(call: Caller, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(acknowledgements, "LIMIT", Limit("acknowledgements", 2))
    assert [call("POST", "shop", {}).status_code for _ in range(2)] == [200, 200]
    for method in ("POST", "DELETE"):
        response = call(method, "shop", {})
        assert (response.status_code, response.json()["reason"]) == (429, "too-many")
        assert int(response["Retry-After"]) > 0
    assert call("GET", "shop").status_code == 200


def test_one_mute_too_many_is_a_problem_and_no_fault(monkeypatch: pytest.MonkeyPatch):
    cache.clear()
    monkeypatch.setattr("dashboard.watch.agents.api.MAX_MUTED", 0)
    assert mutes.mutes(scenarios()["attack"], now_ms()) == {}
    with memory_bus(scenarios()):
        response = Client().post(
            "/api/v1/scenarios/attack/mute/waf-1", {"reason": "wild"},
            content_type="application/json", headers=bearer(make_user("operator")),
        )  # fmt: skip
    assert (response.status_code, response.json()["reason"]) == (409, "too-many-mutes")
