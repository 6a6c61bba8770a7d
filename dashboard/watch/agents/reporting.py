"""Reports over HTTP, each checked, produced and answered on its own.

A report whose state or time is refused, but whose asset and agent can be read, also goes into the
log: the job refuses it there, and doubts its agent instead of continuing to believe its last vote.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
from ninja import Schema, Status

from bus.base import Delivered, Unavailable, no_answer
from dashboard.core.api.problems import MAX_ERRORS, Problem, invalid
from dashboard.core.api.router import ApiRequest, OperationRouter, known_scenario
from dashboard.core.api.schemas import read_json
from dashboard.core.common.access import REPORTS
from dashboard.core.common.kafka import REACH_S, Result, addressed, deliver_all, gateway
from dashboard.core.common.metrics import API_REPORTS
from dashboard.core.common.times import duration, now_ms
from domain.fold import Bucket
from domain.records import MAX_AHEAD, DeadLetter, Record, RefusedReport, Report, Unreadable
from domain.scenario import Scenario
from wire.source import MAX_DETAIL, MAX_RECORD, decode_source

# Most reports in one request.
MAX_REPORTS = 10_000

# Largest body of a request with reports, bytes.
MAX_BODY = 16 * 1024 * 1024

# How reports arrived, for the metrics.
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
    "ahead": {
        "summary": "One of an agent whose clock is wrong: taken in doubt, with a warning",
        "value": {**_ONE, "reported_at": 4_102_444_800_000},
    },
}

# The body in OpenAPI's terms; it is read here, so that each report gets its own answer.
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
    "bad-field": "expected asset, agent and state as texts",
    "bad-time": "reported_at: expected Unix ms as an integer, up to the year 9999",
    "too-large": f"expected a report of at most {MAX_RECORD} bytes",
    "unknown-state": "state: expected one of the scenario's",
    "not-utf8": "expected UTF-8",
}

# Why a report's detail is left out, by reason.
LEFT_OUT = {
    "bad-field": "detail: expected a table; it is left out",
    "too-large": f"detail: expected at most {MAX_DETAIL} bytes of JSON; it is left out",
}

CLOCK_AHEAD = "clock-ahead"
"""The reason of a warning that the agent's clock is ahead of the broker's."""

DOUBTED = "It is in the log: where the board has this asset, it doubts this agent there."
KEPT = "It is in the log, as a dead letter."
"""The note on a report that was refused and recorded."""


router = OperationRouter()

REPORT = (400, 404, 413, 415, 422, 503)
"""Problem statuses of an operation that reports."""


class ReportWarning(Schema):
    """What is wrong with a report that was taken all the same: a name, and words."""

    reason: str
    detail: str


class ReportAnswer(Schema):
    """What became of one report: its place in the log, or why it was not taken.

    `recorded`: whether it is in the log, where `partition` and `offset` say. One that was refused
    for its state or time is recorded too, so that the board doubts its agent; `note` says so.
    """

    accepted: bool
    recorded: bool = False
    partition: int | None = None
    offset: int | None = None
    reason: str | None = None
    detail: str | None = None
    note: str | None = None
    warnings: list[ReportWarning] = []


class ReportsOut(Schema):
    """One answer per report, in their order."""

    accepted: int
    refused: int
    items: list[ReportAnswer]


@dataclass(slots=True)
class ReportItem:
    """A report being processed. `outcome`: its place in the log, or why it is not there.

    key, value: as sent; empty if nothing is sent. refused: why it is not taken, as a name; detail:
    what was expected instead; reported_at: its agent's own time, ms, if it is taken; detail_fault:
    why its detail is left out, as a name.
    """

    key: bytes = b""
    value: bytes = b""
    outcome: Result = None
    refused: str = ""
    detail: str = ""
    reported_at: int | None = None
    detail_fault: str | None = None


def as_list(data: Any) -> list[Any]:
    """Return the reports in a body: one, or a list of them. Raises Problem 422."""
    if not isinstance(data, list):
        return [data]
    if not 1 <= len(data) <= MAX_REPORTS:
        raise invalid("body", f"expected 1 to {MAX_REPORTS} reports, got {len(data)}")
    return data


def check(scenario: Scenario, data: Any, now: int) -> ReportItem:
    """Return a report ready to send, or why it is refused, by the same rules as the job."""
    asset = data.get("asset") if isinstance(data, dict) else None
    if not isinstance(asset, str):
        return refused("bad-asset" if isinstance(data, dict) else "bad-field")
    key = asset.encode(errors="surrogatepass")
    value, record, left_out = _read(key, data, now)
    if not isinstance(record, Report | RefusedReport):
        return refused(record.reason if isinstance(record, Unreadable) else "bad-field")
    if reason := _refusal(scenario, record, now):
        return ReportItem(key, value, refused=reason, detail=EXPECTED[reason])
    assert isinstance(record, Report)  # the fold takes nothing else
    detail_fault = left_out or record.detail_fault
    return ReportItem(key, value, reported_at=record.reported_at, detail_fault=detail_fault)


def _read(key: bytes, data: dict[str, Any], now: int) -> tuple[bytes, Record, str | None]:
    """Return a report as sent, as the job reads it, and why its detail is not sent, or None.

    A detail that makes the record too large does not invalidate the claim.
    """
    value = _value(data)
    record = decode_source(key, value, now)
    sunk = record.sunk if isinstance(record, Report | RefusedReport) else None
    too_large = sunk == "too-large" or record == Unreadable("too-large")
    if not too_large or data.get("detail") is None:
        return value, record, None
    value = _value({**data, "detail": None})
    return value, decode_source(key, value, now), "too-large"


def _value(data: dict[str, Any]) -> bytes:
    """Return a report as the value of a record, with the fields that were given."""
    fields = {name: data.get(name) for name in ("agent", "state", "reported_at", "detail")}
    given = {name: field for name, field in fields.items() if field is not None}
    return msgspec.json.encode({"type": "report", **given})


def _refusal(scenario: Scenario, record: Report | RefusedReport, now: int) -> str:
    """Return why the fold would refuse a report, on any asset; empty if it takes it."""
    whole = scenario.lenient and record.sunk is None
    if whole and isinstance(record, Report) and scenario.knows(record.state):
        return ""
    emitted = Bucket(scenario, 0, 1).apply(record, 0, now)
    return next((each.reason for each in emitted if isinstance(each, DeadLetter)), "")


def refused(reason: str, detail: str = "") -> ReportItem:
    """Return a report of which nothing is sent, with the reason."""
    return ReportItem(refused=reason, detail=detail or EXPECTED.get(reason, ""))


def deliver(scenario: Scenario, items: list[ReportItem], way: Way) -> list[ReportAnswer]:
    """Send what can be sent. Returns one answer each, once each has its place or has failed.

    An item that is there several times is sent once.

    Raises Problem 503 if no broker answers and there is a report that would be taken.
    """
    sendable = [item for item in items if item.value]
    if sendable:
        _send(scenario, sendable)
    answers = [_answer(scenario, item) for item in items]
    for outcome, number in Counter(answer.reason or "accepted" for answer in answers).items():
        API_REPORTS.labels(way, outcome).inc(number)
    return answers


def _send(scenario: Scenario, items: list[ReportItem]) -> None:
    to = gateway()
    try:
        to.bus.wait(REACH_S)
    except Unavailable as error:
        if all(item.refused for item in items):
            return
        raise Problem(503, "unsent", no_answer(error)) from error
    topic = to.topics.reports(scenario.name)
    once = list({id(item): item for item in items}.values())
    results = deliver_all(addressed(topic, item.key, item.value) for item in once)
    for item, result in zip(once, results, strict=True):
        item.outcome = result


def answered(answers: list[ReportAnswer]) -> dict[str, Any]:
    """Return the response as a whole.

    Raises Problem 422 if all were refused, and 503 if none arrived.
    """
    accepted = sum(answer.accepted for answer in answers)
    if not accepted:
        raise _none_taken(answers)
    return {"accepted": accepted, "refused": len(answers) - accepted, "items": answers}


def _none_taken(answers: list[ReportAnswer]) -> Problem:
    unsent = any(answer.reason in ("unknown", "unsent") for answer in answers)
    errors = [_error(at, answer) for at, answer in enumerate(answers[:MAX_ERRORS])]
    status, reason = (503, "unsent") if unsent else (422, "invalid")
    detail = ". ".join(errors[0][name] for name in ("expected", "note") if name in errors[0])
    return Problem(status, reason, detail, errors=errors)


def _error(at: int, answer: ReportAnswer) -> dict[str, str]:
    """Return the error for the report at this index."""
    expected = answer.detail or str(answer.reason)
    error = {"field": str(at), "reason": str(answer.reason), "expected": expected}
    return {**error, "note": answer.note} if answer.note else error


def _answer(scenario: Scenario, item: ReportItem) -> ReportAnswer:
    outcome = item.outcome
    place = outcome if isinstance(outcome, Delivered) else None
    if item.refused:
        return _refused_answer(scenario, item, place)
    if place is not None:
        warnings = list(_warnings(scenario, item, place.timestamp))
        return ReportAnswer(accepted=True, warnings=warnings, **_where(place))
    reason = "unknown" if outcome is None or isinstance(outcome, Unavailable) else "unsent"
    return ReportAnswer(
        accepted=False, reason=reason, detail=str(outcome or "not confirmed in time")
    )


def _refused_answer(scenario: Scenario, item: ReportItem, place: Delivered | None) -> ReportAnswer:
    answer = ReportAnswer(accepted=False, reason=item.refused, detail=item.detail or None)
    if place is None:
        return answer
    note = DOUBTED if scenario.doubting else KEPT
    return answer.model_copy(update={"note": note, **_where(place)})


def _where(place: Delivered) -> dict[str, Any]:
    return {"recorded": True, "partition": place.partition, "offset": place.offset}


def _warnings(scenario: Scenario, item: ReportItem, appended: int) -> Iterator[ReportWarning]:
    """Yield warnings about an accepted report that was appended at `appended` (Unix ms)."""
    ahead = 0 if item.reported_at is None else item.reported_at - appended
    if ahead > MAX_AHEAD:
        became = "the vote is in doubt" if scenario.doubting else "the time of arrival counts"
        text = f"reported_at: {duration(ahead)} ahead of the broker's clock; {became}"
        yield ReportWarning(reason=CLOCK_AHEAD, detail=text)
    if item.detail_fault is not None:
        yield ReportWarning(reason=item.detail_fault, detail=LEFT_OUT[item.detail_fault])


# ---- operation -----------------------------------------------------------------------------------


@router.operation(
    "POST scenarios/{scenario}/reports",
    {202: ReportsOut},
    "report",
    *REPORT,
    body=REPORTS_BODY,
)
def post_reports(request: ApiRequest, scenario: str) -> Any:
    """Send one report or a list of at most 10,000; each is answered by itself.

    202 where at least one was taken, 422 where none could be, 503 where Kafka took none. `warnings`
    say what is wrong with one that was taken: a clock far ahead, a detail that was left out. One
    that is refused for its state or time is recorded all the same, so that the board doubts its
    agent there.
    """
    known, now = known_scenario(scenario), now_ms()
    reports = as_list(read_json(request, MAX_BODY))
    REPORTS.take(request.auth.pk, now, len(reports))
    items = [check(known, report, now) for report in reports]
    return Status(202, answered(deliver(known, items, "reports")))
