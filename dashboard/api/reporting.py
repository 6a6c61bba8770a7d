"""Reports that come in over HTTP, each checked, produced and answered by itself."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from bus.base import Delivered, Unavailable
from dashboard.api.problems import MAX_ERRORS, Problem, invalid
from dashboard.api.schemas import ReportAnswer
from dashboard.core.kafka_delivery import Outgoing, Result, deliver_all
from dashboard.core.kafka_gateway import REACH_S, gateway
from dashboard.core.metrics import API_REPORTS
from domain.records import Report, Unreadable
from domain.scenario import Scenario
from wire.source import decode_source, encode_report

# Most reports in one request.
MAX_REPORTS = 10_000

# Largest body of a request with reports, bytes.
MAX_BODY = 16 * 1024 * 1024

# How reports came, as it is counted.
Way = Literal["reports", "alertmanager"]

_REPORT: dict[str, Any] = {
    "type": "object",
    "required": ["asset", "agent", "state"],
    "properties": {
        "asset": {"type": "string", "minLength": 1, "maxLength": 255},
        "agent": {"type": "string", "minLength": 1, "maxLength": 255},
        "state": {"type": "string", "minLength": 1, "maxLength": 64},
        "reported_at": {"type": ["integer", "null"], "minimum": 0},
        "detail": {"type": ["object", "null"]},
    },
}
_REPORTS = {"type": "array", "items": _REPORT, "minItems": 1, "maxItems": MAX_REPORTS}

_ONE = {"asset": "shop.example", "agent": "waf-7", "state": "under-attack"}
_EXAMPLES: dict[str, Any] = {
    "one": {"summary": "One report", "value": {**_ONE, "detail": {"rps": 1200}}},
    "list": {
        "summary": "Several, each with its agent's own time",
        "value": [
            {**_ONE, "reported_at": 1_760_000_000_000},
            {**_ONE, "agent": "scrubber-1", "state": "clear"},
        ],
    },
}

# The body in OpenAPI's terms; it is read here, so that each report is answered by itself.
REPORTS_BODY: dict[str, Any] = {
    "required": True,
    "content": {
        "application/json": {"schema": {"oneOf": [_REPORT, _REPORTS]}, "examples": _EXAMPLES}
    },
}

# What was expected, by the reason for which a report is refused.
EXPECTED = {
    "bad-asset": "asset: expected a name of 1-255 characters without control characters",
    "bad-agent": "agent: expected a name of 1-255 characters, not beginning with user:",
    "bad-field": "expected asset, agent, state as texts, detail as a table",
    "bad-time": "reported_at: expected Unix ms, at most five minutes ahead",
    "too-large": "detail: expected at most 2048 bytes of JSON",
    "unknown-state": "state: expected one of the scenario's",
    "not-utf8": "expected UTF-8",
}


@dataclass(slots=True)
class Item:
    """A report on its way. `outcome`: its place in the log, or why it is not there.

    refused: why it was not sent, as a name; detail: what was expected in its place.
    """

    key: bytes = b""
    value: bytes = b""
    outcome: Result = None
    refused: str = ""
    detail: str = ""


def as_list(data: Any) -> list[Any]:
    """Return the reports in a body: one, or a list of them. Raises Problem 422."""
    if not isinstance(data, list):
        return [data]
    if not 1 <= len(data) <= MAX_REPORTS:
        raise invalid("body", f"expected 1 to {MAX_REPORTS} reports, got {len(data)}")
    return data


def check(scenario: Scenario, data: Any, now: int) -> Item:
    """Return a report as it can be sent, or why it is refused; by the rules that the job has."""
    asset = data.get("asset") if isinstance(data, dict) else None
    if not isinstance(asset, str):
        return refused("bad-asset" if isinstance(data, dict) else "bad-field")
    fields = {name: data.get(name) for name in ("agent", "state", "reported_at", "detail")}
    key = asset.encode(errors="surrogatepass")
    record = decode_source(key, msgspec.json.encode({"type": "report", **fields}), now)
    if isinstance(record, Unreadable):
        return refused(record.reason)
    if not isinstance(record, Report) or not scenario.knows(record.state):
        return refused("unknown-state")
    return Item(key, encode_report(record))


def refused(reason: str, detail: str = "") -> Item:
    """Return a report that is not sent, and why."""
    return Item(refused=reason, detail=detail or EXPECTED.get(reason, ""))


def deliver(scenario: Scenario, items: list[Item], way: Way) -> list[ReportAnswer]:
    """Send what can be sent. Returns one answer each, once each has its place or has failed.

    Raises Problem 503 when no broker answers at all.
    """
    good = [item for item in items if not item.refused]
    if good:
        _send(scenario, good)
    answers = [_answer(item) for item in items]
    for outcome, number in Counter(answer.reason or "accepted" for answer in answers).items():
        API_REPORTS.labels(way, outcome).inc(number)
    return answers


def _send(scenario: Scenario, items: list[Item]) -> None:
    to = gateway()
    try:
        to.bus.wait(REACH_S)
    except Unavailable as error:
        raise Problem(503, "unsent", f"Kafka does not answer: {error}") from error
    topic = to.topics.reports(scenario.name)
    results = deliver_all(Outgoing(topic, item.key, item.value) for item in items)
    for item, result in zip(items, results, strict=True):
        item.outcome = result


def answered(answers: list[ReportAnswer]) -> dict[str, Any]:
    """Return the answer as a whole.

    Raises Problem 422 where all were refused, 503 where none arrived.
    """
    accepted = sum(answer.accepted for answer in answers)
    if not accepted:
        raise _none_taken(answers)
    return {"accepted": accepted, "refused": len(answers) - accepted, "items": answers}


def _none_taken(answers: list[ReportAnswer]) -> Problem:
    unsent = any(answer.reason in ("unknown", "unsent") for answer in answers)
    errors = [
        {
            "field": str(at),
            "reason": str(answer.reason),
            "expected": answer.detail or str(answer.reason),
        }
        for at, answer in enumerate(answers[:MAX_ERRORS])
    ]
    status, reason = (503, "unsent") if unsent else (422, "invalid")
    return Problem(status, reason, errors[0]["expected"], errors=errors)


def _answer(item: Item) -> ReportAnswer:
    outcome = item.outcome
    if item.refused:
        return ReportAnswer(accepted=False, reason=item.refused, detail=item.detail or None)
    if isinstance(outcome, Delivered):
        return ReportAnswer(accepted=True, partition=outcome.partition, offset=outcome.offset)
    reason = "unknown" if outcome is None or isinstance(outcome, Unavailable) else "unsent"
    return ReportAnswer(
        accepted=False, reason=reason, detail=str(outcome or "not confirmed in time")
    )
