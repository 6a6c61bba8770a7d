"""Alertmanager's webhook: what each alert becomes, and why one is refused."""

from __future__ import annotations

import copy
import json
from typing import Any
from urllib.parse import urlencode

import pytest
from django.test import Client
from prometheus_client import REGISTRY

from dashboard.core.common import access
from dashboard.core.common.scenarios import scenarios
from dashboard.watch.agents import alertmanager
from dashboard.watch.agents.alertmanager import EXAMPLE
from dashboard.watch.agents.reporting import DOUBTED
from domain.records import RefusedReport, Report
from support.web.web_fixtures import bearer, make_user, sent

pytestmark = pytest.mark.django_db

STARTS = "2026-11-21T10:00:00.125Z"
STARTS_MS = 1_795_255_200_125
ENDS = "2026-11-21T13:00:01+02:00"
ENDS_MS = 1_795_258_801_000


@pytest.fixture
def headers() -> dict[str, str]:
    """A token for reports alone, as an Alertmanager is to be given."""
    return bearer(make_user("operator"), "report")


def alert(labels: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    named = {"alertname": "Flood", "instance": "shop.example", "severity": "critical"}
    return {
        "status": "firing",
        "labels": {name: value for name, value in (named | (labels or {})).items() if value},
        "annotations": {"summary": "many requests"},
        "startsAt": STARTS,
        "endsAt": "0001-01-01T00:00:00Z",
        "fingerprint": "b6a1",
        **more,
    }


def post(
    headers: dict[str, str],
    *alerts: Any,
    scenario: str = "attack",
    version: Any = "4",
    **query: Any,
) -> Any:
    return Client().post(
        f"/api/v1/scenarios/{scenario}/alertmanager?{urlencode(query, doseq=True)}",
        json.dumps({"version": version, "alerts": list(alerts)}),
        content_type="application/json",
        headers=headers,
    )


def reports(bus: Any, scenario: str = "attack") -> list[Report]:
    return [record for _, record in sent(bus, scenario) if isinstance(record, Report)]


def test_a_firing_alert_is_a_report_under_its_own_agent(bus, headers):
    response = post(headers, alert())
    assert response.status_code == 202
    assert response.json()["items"][0]["offset"] == 0
    (report,) = reports(bus)
    assert (report.asset, report.agent) == ("shop.example", "alertmanager/Flood")
    assert (report.state, report.reported_at) == ("under-attack", None), "as of its arrival"
    assert json.loads(report.detail or "") == {
        "alertname": "Flood", "severity": "critical", "summary": "many requests",
        "fingerprint": "b6a1",
    }  # fmt: skip


def test_a_resolved_alert_reports_the_least_severe_state(bus, headers):
    assert post(headers, alert(status="resolved", endsAt=ENDS)).status_code == 202
    (report,) = reports(bus)
    assert (report.state, report.reported_at) == ("clear", None)


def test_an_alerts_own_times_are_told_where_they_are_asked_for(bus, headers):
    post(headers, alert(), time="alert")
    post(headers, alert(status="resolved", endsAt=ENDS), time="alert")
    states = [(report.state, report.reported_at) for report in reports(bus)]
    assert states == [("under-attack", STARTS_MS), ("clear", ENDS_MS)]


@pytest.mark.parametrize(
    ("scenario", "severity", "state"),
    [
        ("attack", "critical", "under-attack"),
        ("attack", "warning", "suspicious"),
        ("attack", "suspicious", "suspicious"),
        ("connectivity", "critical", "down"),
        ("connectivity", "warning", "degraded"),
        ("orders", "picking", "picking"),
        ("orders", "critical", "critical"),
    ],
)
def test_a_severity_says_which_state(bus, headers, scenario: str, severity: str, state: str):
    assert post(headers, alert({"severity": severity}), scenario=scenario).status_code == 202
    assert [report.state for report in reports(bus, scenario)] == [state]


def test_a_state_called_critical_is_itself(bus, headers):
    from domain.scenario import Latest, Scenario, StateSpec

    states = tuple(StateSpec(name, name, "red", "ring") for name in ("down", "critical", "ok"))
    scenario = Scenario("net", "Net", "host", states, Latest())
    reading = alertmanager.reading(scenario, alertmanager.AlertOptions.model_validate({}))
    claim = reading.claim(alert(), STARTS_MS)
    assert isinstance(claim, alertmanager.AlertClaim)
    assert json.loads(claim.item.value)["state"] == "critical"


def test_the_query_says_how_alerts_are_read(bus, headers):
    response = post(
        headers,
        alert({"site": "a", "level": "page:now"}),
        alert({"level": "page:now"}),
        alert({"site": "a", "level": "page:now"}, status="resolved", endsAt=ENDS),
        asset=["site", "instance"], severity="level", map=["page:now:suspicious"],
        resolved="suspicious", agent="prom", agent_label="",
    )  # fmt: skip
    assert response.status_code == 202, response.content
    read = {(r.asset, r.agent, r.state, r.reported_at) for r in reports(bus)}
    assert read == {
        ("a", "prom", "suspicious", None),
        ("shop.example", "prom", "suspicious", None),
    }
    assert len(reports(bus)) == 2, "alerts of one agent and asset share a report"


def test_what_a_mapping_says_goes_before_what_is_usual(bus, headers):
    post(headers, alert(), map="critical:suspicious")
    assert [report.state for report in reports(bus)] == ["suspicious"]


@pytest.mark.parametrize(
    ("wrong", "reason", "expected"),
    [
        (alert({"instance": None}), "unknown-label", "asset or instance"),
        (alert({"severity": None}), "unknown-severity", "severity"),
        (alert({"severity": "info"}), "unknown-severity", "critical, warning, under-attack"),
        (alert({"severity": "info"}, status="resolved", endsAt=ENDS), "unknown-severity", "info"),
        (alert({"instance": "a\nb"}), "bad-asset", "asset"),
        (alert({"alertname": "x" * 300}), "bad-agent", "agent"),
        (alert(startsAt="yesterday"), "bad-time", "RFC 3339"),
        (alert(startsAt="2026-11-21T10:00:00"), "bad-time", "RFC 3339"),
        (alert(startsAt=7), "bad-time", "RFC 3339"),
        (alert(startsAt=None), "bad-time", "RFC 3339"),
        (alert(status="resolved"), "bad-time", "Unix ms"),
        (alert(status="pending"), "bad-alert", "firing or resolved"),
        (alert(labels={"instance": 7}), "bad-alert", "labels"),
        ({"status": "firing"}, "bad-alert", "labels"),
        (7, "bad-alert", "status"),
    ],
)
def test_an_alert_that_cannot_be_read_is_refused_by_name(
    bus, headers, wrong: Any, reason: str, expected: str
):
    name = "tallyboard_api_reports_total"
    labels = {"way": "alertmanager", "outcome": reason}
    before = REGISTRY.get_sample_value(name, labels) or 0
    response = post(headers, alert(), wrong, alert({"instance": "b"}), time="alert")
    assert response.status_code == 202
    body = response.json()
    assert [item["reason"] for item in body["items"]] == [None, reason, None]
    assert expected in body["items"][1]["detail"]
    assert (body["accepted"], body["refused"]) == (2, 1)
    assert {"shop.example", "b"} <= {report.asset for report in reports(bus)}
    assert REGISTRY.get_sample_value(name, labels) == before + 1


def test_alerts_of_which_none_is_good_are_422_with_each_reason(bus, headers):
    response = post(headers, alert({"severity": "info"}), alert({"instance": None}))
    assert response.status_code == 422
    errors = response.json()["errors"]
    assert [error["reason"] for error in errors] == ["unknown-severity", "unknown-label"]
    assert [error.get("note") for error in errors] == [DOUBTED, None]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (alert({"severity": "info"}), "info"),
        (alert({"severity": None}), None),
        (alert({"severity": "x" * 65}), None),
        (alert(startsAt="yesterday"), "under-attack"),
        (alert(startsAt=None), "under-attack"),
        (alert(status="resolved"), "clear"),
    ],
)
def test_an_alert_that_cannot_be_taken_is_recorded_so_that_its_agent_is_doubted(
    bus, headers, wrong: Any, said: str | None
):
    assert post(headers, wrong, time="alert").status_code == 422
    ((asset, record),) = sent(bus, "attack")
    assert (asset, record.agent) == ("shop.example", "alertmanager/Flood")
    assert (record.state if isinstance(record, Report) else record.said) == said
    assert isinstance(record, RefusedReport) or not scenarios()["attack"].knows(record.state)


@pytest.mark.parametrize(
    "wrong",
    [
        alert({"severity": "info"}, status="resolved", endsAt=ENDS),
        alert({"instance": None}),
        alert({"alertname": "x" * 300}),
        7,
    ],
)
def test_an_all_clear_of_unknown_severity_and_what_names_nobody_are_not_recorded(
    bus, headers, wrong: Any
):
    assert post(headers, wrong).status_code == 422
    assert sent(bus, "attack") == []


def test_an_alert_ahead_of_the_brokers_clock_is_taken_with_a_warning(bus, headers):
    response = post(headers, alert(startsAt="9026-11-21T10:00:00Z"), time="alert")
    assert response.status_code == 202
    (item,) = response.json()["items"]
    assert [warning["reason"] for warning in item["warnings"]] == ["clock-ahead"]


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"resolved": "on-fire"}, "resolved"),
        ({"map": "page:on-fire"}, "map"),
        ({"map": "page"}, "map.0"),
        ({"time": "now"}, "time"),
        ({"asset": ""}, "asset.0"),
        ({"asset": ["a"] * 11}, "asset"),
        ({"map": ["a:clear"] * 101}, "map"),
        ({"agent": "x" * 256}, "agent"),
    ],
)
def test_a_wrong_way_of_reading_is_422_by_field(bus, headers, query: dict[str, Any], field: str):
    response = post(headers, alert(), **query)
    assert response.status_code == 422
    assert [error["field"] for error in response.json()["errors"]] == [field]
    assert sent(bus, "attack") == []


@pytest.mark.parametrize("version", ["3", "5", 4, None])
def test_another_version_is_422(bus, headers, version: Any):
    response = post(headers, alert(), version=version)
    assert response.status_code == 422
    assert response.json()["errors"][0]["field"] == "version"


@pytest.mark.parametrize("number", [0, 10_001])
def test_alerts_are_bounded(bus, headers, number: int):
    response = post(headers, *[alert()] * number)
    assert response.status_code == 422
    assert response.json()["errors"][0]["field"] == "alerts"
    assert sent(bus, "attack") == []


def test_a_limit_counts_alerts_as_reports(bus, headers, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(alertmanager, "REPORTS", access.Limit("reports", 2, window=86_400))
    assert post(headers, alert(), alert(), alert()).status_code == 429
    assert post(headers, alert(), alert()).status_code == 202


def test_a_long_alert_is_cut_to_what_a_report_may_carry(bus, headers):
    long = {"summary": "\u0001" * 5_000}
    response = post(headers, alert(annotations=long, fingerprint="\u0001" * 5_000))
    assert response.status_code == 202
    (report,) = reports(bus)
    assert len((report.detail or "").encode()) <= 2_048
    assert json.loads(report.detail or "")["alertname"] == "Flood"


def test_what_alertmanager_sends_besides_is_no_fault(bus, headers):
    payload = copy.deepcopy(EXAMPLE)
    response = Client().post(
        "/api/v1/scenarios/attack/alertmanager",
        json.dumps(payload),
        content_type="application/json",
        headers=headers,
    )
    assert response.json()["accepted"] == len(payload["alerts"])


def test_a_repeated_alert_is_the_same_vote_again(bus, headers):
    for _ in range(2):
        post(headers, alert())
    first, second = reports(bus)
    assert first == second
