"""Alerts of one agent and asset: the worst that fires speaks, until each of them is resolved."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from itertools import permutations
from typing import Any

import pytest
from django.core.cache import cache
from django.test import Client
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dashboard.core.common.scenarios import scenarios
from dashboard.watch.agents import alertmanager
from dashboard.watch.agents.firing_alerts import FiringAlert
from dashboard.watch.agents.reporting import deliver
from domain.records import Report
from support.web.web_fixtures import bearer, make_user, sent

pytestmark = pytest.mark.django_db

BEGUN = 1_795_255_200_000
MINUTE = 60_000
STATES = {"critical": "under-attack", "warning": "suspicious"}


def alert(severity: str, *, since: int = 0, ended: int | None = None, device: str = "") -> Any:
    """An alert since a minute, as Alertmanager sends it; ended: the minute at which it was."""
    return {
        "status": "firing" if ended is None else "resolved",
        "labels": {"alertname": "DiskFull", "instance": "shop", "severity": severity} | (
            {"device": device} if device else {}
        ),
        "startsAt": iso(since),
        "endsAt": "0001-01-01T00:00:00Z" if ended is None else iso(ended),
        "fingerprint": f"{severity}{device}",
    }  # fmt: skip


def iso(minute: int) -> str:
    return datetime.fromtimestamp((BEGUN + minute * MINUTE) / 1000, UTC).isoformat()


@pytest.fixture
def post(bus: Any) -> Any:
    """Sends alerts as an Alertmanager does; returns the reports that were made of them."""
    headers = bearer(make_user("operator"), "report")

    def send(*alerts: Any, query: str = "") -> list[Report]:
        before = len(sent(bus, "attack"))
        answer = Client().post(
            f"/api/v1/scenarios/attack/alertmanager{query}",
            json.dumps({"version": "4", "alerts": alerts}),
            content_type="application/json",
            headers=headers,
        )
        assert answer.status_code == 202, answer.content
        assert answer.json()["accepted"] == len(alerts)
        return [record for _, record in sent(bus, "attack")[before:]]

    return send


def states(reports: list[Report]) -> list[str]:
    assert {(each.asset, each.agent) for each in reports} == {("shop", "alertmanager/DiskFull")}
    return [each.state for each in reports]


@pytest.mark.parametrize("order", permutations(range(2)))
def test_one_that_is_resolved_does_not_speak_for_one_that_fires(post: Any, order: Any) -> None:
    payload = [alert("warning"), alert("critical", ended=5)]
    assert states(post(*(payload[at] for at in order))) == ["suspicious"]


@pytest.mark.parametrize("order", permutations(range(2)))
def test_the_worst_that_fires_is_reported_with_its_detail(post: Any, order: Any) -> None:
    payload = [alert("warning"), alert("critical")]
    (report,) = post(*(payload[at] for at in order))
    assert report.state == "under-attack"
    assert json.loads(report.detail or "")["severity"] == "critical"


def test_it_is_remembered_from_post_to_post(post: Any) -> None:
    assert states(post(alert("critical", device="sda"))) == ["under-attack"]
    assert states(post(alert("critical", device="sdb"))) == ["under-attack"]
    assert states(post(alert("critical", device="sda", ended=5))) == ["under-attack"]
    assert states(post(alert("warning"))) == ["under-attack"]
    assert states(post(alert("critical", device="sdb", ended=6))) == ["suspicious"]
    assert states(post(alert("warning", ended=7))) == ["clear"]


def test_the_end_of_an_earlier_alert_ends_no_later_one(post: Any) -> None:
    post(alert("critical", since=0))
    post(alert("critical", since=0, ended=3))
    assert states(post(alert("critical", since=5))) == ["under-attack"]
    assert states(post(alert("critical", since=0, ended=3))) == ["under-attack"]
    assert states(post(alert("critical", since=5, ended=8))) == ["clear"]


def test_of_one_that_comes_twice_the_newer_word_counts(post: Any) -> None:
    assert states(post(alert("critical", ended=5), alert("critical"))) == ["clear"]
    assert states(post(alert("critical", ended=5), alert("critical", since=6))) == ["under-attack"]


def test_without_a_fingerprint_its_labels_identify_an_alert(post: Any) -> None:
    first, second = alert("critical", device="sda"), alert("critical", device="sdb")
    for each in (first, second):
        del each["fingerprint"]
    post(first, second)
    assert states(post(first | {"status": "resolved", "endsAt": iso(5)})) == ["under-attack"]


def test_its_own_time_is_that_of_the_last_change(post: Any) -> None:
    own = "?time=alert"
    post(alert("warning", since=0), alert("critical", since=10), query=own)
    (report,) = post(alert("critical", since=10, ended=30), query=own)
    assert (report.state, report.reported_at) == ("suspicious", BEGUN + 30 * MINUTE)


@pytest.mark.parametrize("query", ["", "?time=alert"])
def test_an_end_of_which_no_begin_is_known_is_reported(post: Any, query: str) -> None:
    (report,) = post(alert("critical", ended=5), query=query)
    assert (report.state, report.reported_at) == (
        "clear", BEGUN + 5 * MINUTE if query else None,
    )  # fmt: skip


def test_one_that_is_not_seen_for_as_long_as_the_board_remembers_is_over(post: Any) -> None:
    rule = scenarios()["attack"]
    post(alert("critical", device="sda"))
    memory = (rule.lifetime or 0) + (rule.forget_delay or 0)
    FiringAlert.objects.update(seen_at=unix_ms_now() - memory - 1)
    assert states(post(alert("warning"))) == ["suspicious"]


def unix_ms_now() -> int:
    return int(datetime.now(UTC).timestamp() * 1000)


def test_what_another_request_changes_meanwhile_is_reported_in_the_end(
    post: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two Alertmanagers the second posts while the first one's report is on its way."""
    turns = iter([[alert("critical")]])

    def overtaken(*arguments: Any) -> Any:
        for other in turns:
            post(*other)
        return deliver(*arguments)

    monkeypatch.setattr(alertmanager, "deliver", overtaken)
    assert states(post(alert("warning"))) == ["under-attack", "suspicious", "under-attack"]


ACTS = st.lists(
    st.lists(
        st.tuples(st.sampled_from(["critical", "warning"]), st.sampled_from("ab"), st.booleans()),
        min_size=1,
        max_size=4,
        unique_by=lambda act: act[:2],
    ),
    min_size=1,
    max_size=8,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(acts=ACTS)
def test_after_any_posts_the_worst_that_fires_is_what_was_reported_last(
    post: Any, acts: Any
) -> None:
    cache.clear()
    FiringAlert.objects.all().delete()
    since: dict[tuple[str, str], int] = {}
    for minute, payload in enumerate(acts):
        alerts = []
        for severity, device, fires in payload:
            known = since.get((severity, device))
            if fires:
                begun = since.setdefault((severity, device), minute)
                alerts.append(alert(severity, since=begun, device=device))
            else:
                since.pop((severity, device), None)
                ended = alert(severity, since=known or minute, device=device, ended=minute)
                alerts.append(ended)
        severities = {severity for severity, _ in since}
        worst = next((STATES[each] for each in STATES if each in severities), "clear")
        assert states(post(*alerts)) == [worst]
