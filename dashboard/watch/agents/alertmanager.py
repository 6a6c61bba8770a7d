"""Prometheus Alertmanager's webhook: its alerts become reports.

An alert says that an asset (named by a label) is in a state (given by another label's value), in
the name of an agent. A resolved alert says that all is well again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from ninja import Query, Schema, Status
from pydantic import Field

from dashboard.core.api.problems import invalid
from dashboard.core.api.router import ApiRequest, OperationRouter, known_scenario
from dashboard.core.api.schemas import read_json
from dashboard.core.common.access import REPORTS
from dashboard.core.common.times import now_ms
from dashboard.watch.agents.firing_alerts import (
    MAX_FINGERPRINT,
    Alert,
    AlertSource,
    FiringAlert,
    worst_of,
)
from dashboard.watch.agents.reporting import (
    MAX_BODY,
    MAX_REPORTS,
    REPORT,
    ReportAnswer,
    ReportItem,
    ReportsOut,
    answered,
    check,
    deliver,
    refused,
)
from domain.names import MAX_NAME, MAX_STATE, name_ok
from domain.scenario import Scenario
from wire.source import MAX_DETAIL

# The version of the webhook's format that is supported.
VERSION = "4"

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

router = OperationRouter()

MAX_MAPPINGS = 100
# How often what fires is sent once more because other requests have changed it meanwhile.
MOST_AGAIN = 5
# Longest text from an alert that goes into a report's detail, characters.
MAX_TEXT = 200

Label = Annotated[str, Field(min_length=1, max_length=MAX_NAME)]
Pair = Annotated[str, Field(pattern=r"^.+:.+$", max_length=MAX_NAME)]


class AlertOptions(Schema):
    """How alerts become reports; each has a default, so that none need be given."""

    asset: list[Label] = Field(
        ["asset", "instance"],
        min_length=1,
        max_length=10,
        description="Labels that may name the asset; the first that an alert has counts.",
    )
    severity: Label = Field("severity", description="The label that gives the state.")
    map: list[Pair] = Field(
        [],
        max_length=MAX_MAPPINGS,
        description="VALUE:STATE, what a value of that label means. Without: a state's own name, "
        "and in a closed vocabulary critical (the most severe state) and warning (the next).",
    )
    resolved: str = Field(
        "",
        max_length=MAX_STATE,
        description="The state that a resolved alert reports; the least severe if not given.",
    )
    agent: Label = Field("alertmanager", description="The name of the agent, or how it begins.")
    agent_label: str = Field(
        "alertname",
        max_length=MAX_NAME,
        description="The label whose value ends the agent's name, after a slash; empty for none.",
    )
    time: Literal["alert", "received"] = Field(
        "received",
        description="What becomes reported_at: the time of arrival, or startsAt and endsAt: an "
        "alert that began longer ago than a vote lives then comes as a silent vote.",
    )


_TEXTS = {"type": "object", "additionalProperties": {"type": "string"}}
_ALERT = {
    "type": "object",
    "required": ["status", "labels"],
    "properties": {
        "status": {"type": "string", "enum": ["firing", "resolved"]},
        "labels": _TEXTS,
        "annotations": _TEXTS,
        "startsAt": {"type": "string", "format": "date-time"},
        "endsAt": {"type": "string", "format": "date-time"},
        "fingerprint": {"type": "string"},
    },
}

EXAMPLE: dict[str, Any] = {
    "version": "4",
    "groupKey": '{}:{alertname="HighRequestRate"}',
    "truncatedAlerts": 0,
    "status": "firing",
    "receiver": "tallyboard",
    "groupLabels": {"alertname": "HighRequestRate"},
    "commonLabels": {"alertname": "HighRequestRate", "severity": "critical"},
    "commonAnnotations": {},
    "externalURL": "http://alertmanager.example:9093",
    "alerts": [
        {
            "status": "firing",
            "labels": {
                "alertname": "HighRequestRate",
                "severity": "critical",
                "instance": "shop.example",
            },
            "annotations": {"summary": "Twenty times the usual requests"},
            "startsAt": "2025-10-09T08:53:20.123456789Z",
            "endsAt": "0001-01-01T00:00:00Z",
            "generatorURL": "http://prometheus.example:9090/graph",
            "fingerprint": "b6a1b5c3c8b5d1a2",
        },
        {
            "status": "resolved",
            "labels": {
                "alertname": "HighRequestRate",
                "severity": "critical",
                "instance": "mail.example",
            },
            "annotations": {},
            "startsAt": "2025-10-09T08:53:20Z",
            "endsAt": "2025-10-09T09:10:00+02:00",
            "generatorURL": "http://prometheus.example:9090/graph",
            "fingerprint": "0f7c2d4e9a8b1c3d",
        },
    ],
}

# The body in OpenAPI's terms; it is read here, so that each alert gets its own answer.
ALERTS_BODY: dict[str, Any] = {
    "required": True,
    "content": {
        "application/json": {
            "schema": {
                "type": "object",
                "required": ["version", "alerts"],
                "properties": {
                    "version": {"type": "string", "enum": [VERSION]},
                    "alerts": {
                        "type": "array",
                        "items": _ALERT,
                        "minItems": 1,
                        "maxItems": MAX_REPORTS,
                    },
                },
            },
            "examples": {
                "group": {"summary": "One fires, one is resolved", "value": EXAMPLE},
            },
        }
    },
}


class AlertClaim(NamedTuple):
    """An alert that was understood, with its own report: as an item, and as fields."""

    item: ReportItem
    report: dict[str, Any]
    alert: Alert


@dataclass(frozen=True, slots=True)
class AlertReading:
    """How to read the alerts of one request. states: by the severity label's value."""

    scenario: Scenario
    options: AlertOptions
    states: dict[str, str]
    resolved: str

    def claim(self, alert: Any, now: int) -> AlertClaim | ReportItem:
        """Return what an alert says, or its report, if that is refused."""
        if not _readable(alert):
            return refused("bad-alert", "expected status firing or resolved, and labels as texts")
        labels = alert["labels"]
        asset = next((labels[name] for name in self.options.asset if labels.get(name)), None)
        if asset is None:
            return refused("unknown-label", f"labels: expected {' or '.join(self.options.asset)}")
        severity = labels.get(self.options.severity, "")
        report = {
            "asset": asset,
            "agent": self._agent(labels),
            "detail": _detail(alert, severity),
        }
        state = self._state(severity)
        if state is None:
            return self._unknown(report, severity, alert, now)
        report["state"] = self.resolved if alert["status"] == "resolved" else state
        try:
            report["reported_at"] = self._time(alert)
        except (ValueError, OverflowError):
            return self._untimely(report, alert, now)
        item = check(self.scenario, report, now)
        return (
            item if item.refused else AlertClaim(item, report, _received(alert, report, state, now))
        )

    def item(self, claims: Sequence[AlertClaim], known: Sequence[Alert], now: int) -> ReportItem:
        """Return the report of one source, of which claims were received and alerts are known."""
        newest = max(claims, key=lambda claim: claim.alert.at)
        worst = worst_of(self.scenario, known)
        report = {**newest.report, "state": self.resolved}
        if worst is not None:
            report |= {"state": worst.state, "detail": msgspec.json.decode(worst.detail)}
        if self.options.time == "alert":
            report["reported_at"] = max([newest.alert.at, *(alert.at for alert in known)])
        return check(self.scenario, report, now)

    def _unknown(
        self, report: dict[str, Any], severity: str, alert: dict[str, Any], now: int
    ) -> ReportItem:
        """Return an alert whose severity is unknown; one that is firing is recorded."""
        expected = self._expected(severity)
        if alert["status"] == "resolved":
            return refused("unknown-severity", expected)
        item = check(self.scenario, {**report, "state": severity}, now)
        return replace(item, refused="unknown-severity", detail=expected)

    def _untimely(self, report: dict[str, Any], alert: dict[str, Any], now: int) -> ReportItem:
        """Return an alert whose time cannot be read, as it is recorded."""
        given = str(self._own_time(alert) or "")
        item = check(self.scenario, {**report, "reported_at": given}, now)
        expected = "startsAt, endsAt: expected times as in RFC 3339"
        return replace(item, refused="bad-time", detail=expected)

    def _state(self, severity: str) -> str | None:
        """Return the state that a firing alert reports, or None if its severity gives none."""
        known = self.states.get(severity)
        return severity if known is None and self.scenario.knows(severity) else known

    def _expected(self, severity: str) -> str:
        names = ", ".join([*self.states, *(spec.name for spec in self.scenario.states)])
        return f"label {self.options.severity}: expected one of {names}, got {severity[:64]!r}"

    def _agent(self, labels: dict[str, str]) -> str:
        ending = labels.get(self.options.agent_label, "")
        return f"{self.options.agent}/{ending}" if ending else self.options.agent

    def _time(self, alert: dict[str, Any]) -> int | None:
        if self.options.time == "received":
            return None
        return _milliseconds(self._own_time(alert))

    def _own_time(self, alert: dict[str, Any]) -> Any:
        return alert.get("endsAt" if alert["status"] == "resolved" else "startsAt")


def reading(scenario: Scenario, options: AlertOptions) -> AlertReading:
    """Return how to read the alerts.

    Raises Problem 422 for a state that the scenario does not know.
    """
    states = _usual(scenario)
    for pair in options.map:
        value, _, state = pair.rpartition(":")
        states[value] = _known(scenario, state, "map")
    least = scenario.states[-1].name
    return AlertReading(
        scenario, options, states, _known(scenario, options.resolved or least, "resolved")
    )


def alerts_of(data: Any) -> list[Any]:
    """Return the alerts in a webhook's body. Raises Problem 422."""
    if not isinstance(data, dict) or data.get("version") != VERSION:
        raise invalid(
            "version", f'expected a table with version "{VERSION}", as Alertmanager sends'
        )
    alerts = data.get("alerts")
    if not isinstance(alerts, list) or not 1 <= len(alerts) <= MAX_REPORTS:
        raise invalid("alerts", f"expected a list of 1 to {MAX_REPORTS} alerts")
    return alerts


def _usual(scenario: Scenario) -> dict[str, str]:
    """Return the states for Prometheus' usual severities, if the vocabulary is closed."""
    if scenario.open_vocabulary:
        return {}
    names = [spec.name for spec in scenario.states]
    usual = {"critical": names[0], "warning": names[min(1, len(names) - 1)]}
    return {value: state for value, state in usual.items() if value not in names}


def _known(scenario: Scenario, state: str, field: str) -> str:
    if not scenario.knows(state):
        names = ", ".join(spec.name for spec in scenario.states)
        raise invalid(field, f"unknown state {state!r}; expected one of: {names}")
    return state


def _readable(alert: Any) -> bool:
    if not isinstance(alert, dict) or alert.get("status") not in ("firing", "resolved"):
        return False
    labels = alert.get("labels")
    return isinstance(labels, dict) and all(isinstance(value, str) for value in labels.values())


def _milliseconds(text: Any) -> int:
    """Return an RFC 3339 time as Unix ms. Raises ValueError or OverflowError."""
    if not isinstance(text, str):
        raise ValueError("expected a text")  # noqa: TRY004 - what the alert says is wrong
    at = datetime.fromisoformat(text)
    if at.tzinfo is None:
        raise ValueError("expected a time zone")
    return (at - EPOCH) // timedelta(milliseconds=1)


def _received(alert: dict[str, Any], report: dict[str, Any], state: str, now: int) -> Alert:
    """Return what an alert says, as it was received at `now` (Unix ms)."""
    resolved = alert["status"] == "resolved"
    return Alert(
        AlertSource(report["asset"], report["agent"]),
        _fingerprint(alert),
        state,
        msgspec.json.encode(report["detail"]).decode(),
        _time_or_none(alert.get("startsAt")),
        (_time_or_none(alert.get("endsAt")) or now) if resolved else None,
    )


def _time_or_none(text: Any) -> int | None:
    """Return an RFC 3339 time as Unix ms, or None for none of this era."""
    try:
        at = _milliseconds(text)
    except (ValueError, OverflowError):
        return None
    return at if at > 0 else None


def _fingerprint(alert: dict[str, Any]) -> str:
    """Return what identifies an alert: its fingerprint, or without one a hash of its labels."""
    given = alert.get("fingerprint")
    if isinstance(given, str) and 0 < len(given) <= MAX_FINGERPRINT and name_ok(given):
        return given
    return hashlib.sha256(msgspec.json.encode(alert["labels"], order="sorted")).hexdigest()


def _detail(alert: dict[str, Any], severity: str) -> dict[str, str]:
    """Return facts about the alert that people may want, as many as a report can carry."""
    annotations = alert.get("annotations")
    summary = annotations.get("summary") if isinstance(annotations, dict) else None
    facts = {
        "alertname": alert["labels"].get("alertname"),
        "severity": severity,
        "summary": summary,
        "fingerprint": alert.get("fingerprint"),
    }
    detail = {name: text[:MAX_TEXT] for name, text in facts.items() if isinstance(text, str)}
    while len(msgspec.json.encode(detail)) > MAX_DETAIL:
        detail.popitem()
    return detail


# ---- operation -----------------------------------------------------------------------------------


@router.operation(
    "POST scenarios/{scenario}/alertmanager",
    {202: ReportsOut},
    "report",
    *REPORT,
    body=ALERTS_BODY,
)
def post_alerts(request: ApiRequest, scenario: str, options: Query[AlertOptions]) -> Any:
    """What Prometheus Alertmanager's webhook sends: the worst alert that fires becomes a report.

    Answered alert by alert, as reports are; alerts of one agent and asset share a report.
    """
    known, now = known_scenario(scenario), now_ms()
    alert_reading = reading(known, options)
    alerts = alerts_of(read_json(request, MAX_BODY))
    REPORTS.take(request.auth.pk, now, len(alerts))
    claims = [alert_reading.claim(alert, now) for alert in alerts]
    return Status(202, answered(_deliver(alert_reading, claims, now)))


def _deliver(
    alert_reading: AlertReading, claims: Sequence[AlertClaim | ReportItem], now: int
) -> list[ReportAnswer]:
    """Store what alerts say, and send for each source the worst that fires; return an answer each.

    If another request has changed what fires meanwhile, its report and this one may lie in either
    order, so what fires now is sent once more.
    """
    scenario = alert_reading.scenario
    if scenario.life_cycle:  # no state is worse than another: each alert is a report of its own
        alone = [each.item if isinstance(each, AlertClaim) else each for each in claims]
        return deliver(scenario, alone, "alertmanager")
    sources: dict[AlertSource, list[AlertClaim]] = {}
    for claim in claims:
        if isinstance(claim, AlertClaim):
            sources.setdefault(claim.alert.source, []).append(claim)
    understood = (claim.alert for same in sources.values() for claim in same)
    FiringAlert.objects.record(scenario.name, understood, now)
    known = FiringAlert.objects.by_source(scenario, sources, now)
    items = {
        source: alert_reading.item(same, known[source], now) for source, same in sources.items()
    }
    sent = [
        items[claim.alert.source] if isinstance(claim, AlertClaim) else claim for claim in claims
    ]
    answers = deliver(scenario, sent, "alertmanager")
    for _ in range(MOST_AGAIN):
        later = FiringAlert.objects.by_source(scenario, sources, now)
        changed = [source for source in sources if later[source] != known[source]]
        if not changed:
            break
        again = [alert_reading.item(sources[each], later[each], now) for each in changed]
        deliver(scenario, again, "alertmanager")
        known = later
    return answers
