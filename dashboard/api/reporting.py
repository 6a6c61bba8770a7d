"""Reports that come in over HTTP, each checked, produced and answered by itself."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import msgspec
from django.http import HttpRequest

from bus.base import BusError, Delivered, Producer, QueueFull, Unavailable
from dashboard.api.problems import Problem, invalid
from dashboard.api.schemas import ReportAnswer
from dashboard.commands.gateway import REACH_S, SEND_TIMEOUT_S, gateway
from domain.records import Report, Unreadable
from domain.scenario import Scenario
from wire.source import decode_source, encode_report

MAX_REPORTS = 10_000
"""Most reports in one request."""

MAX_BODY = 16 * 1024 * 1024
"""Largest body of a request with reports, bytes."""

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
class _Item:
    """One report on its way. `outcome`: its place in the log, or why it is not there."""

    key: bytes = b""
    value: bytes = b""
    outcome: Delivered | BusError | None = None
    refused: str = ""


REPORTS_BODY: dict[str, Any] = {
    "required": True,
    "content": {"application/json": {"schema": {"oneOf": [_REPORT, _REPORTS]}}},
}
"""The body in OpenAPI's terms; it is read here, so that each report is answered by itself."""


def bounded_body(request: HttpRequest, limit: int) -> bytes:
    """The request's body. Raises Problem 413 for more than `limit` bytes."""
    body = request.read(limit + 1)
    if len(body) > limit:
        raise Problem(413, "too-large", f"Expected at most {limit} bytes.")
    return body


def parse(body: bytes) -> list[Any]:
    """The reports in a body: one, or a list of them. Raises Problem 400 or 422."""
    try:
        data = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Problem(400, "bad-request", f"Expected JSON: {error}") from error
    if not isinstance(data, list):
        return [data]
    if not 1 <= len(data) <= MAX_REPORTS:
        raise invalid("body", f"expected 1 to {MAX_REPORTS} reports, got {len(data)}")
    return data


def deliver(scenario: Scenario, reports: list[Any], now: int) -> list[ReportAnswer]:
    """Check and send reports; returns one answer each, once each has its place or has failed.

    Raises Problem 503 when no broker answers at all.
    """
    items = [_check(scenario, report, now) for report in reports]
    good = [item for item in items if not item.refused]
    if good:
        _send(scenario, good)
    return [_answer(item) for item in items]


def _check(scenario: Scenario, data: Any, now: int) -> _Item:
    asset = data.get("asset") if isinstance(data, dict) else None
    if not isinstance(asset, str):
        return _Item(refused="bad-asset" if isinstance(data, dict) else "bad-field")
    fields = {name: data.get(name) for name in ("agent", "state", "reported_at", "detail")}
    key = asset.encode(errors="surrogatepass")
    record = decode_source(key, msgspec.json.encode({"type": "report", **fields}), now)
    if isinstance(record, Unreadable):
        return _Item(refused=record.reason)
    if not isinstance(record, Report) or not scenario.knows(record.state):
        return _Item(refused="unknown-state")
    return _Item(key, encode_report(record))


def _send(scenario: Scenario, items: list[_Item]) -> None:
    to = gateway()
    try:
        to.bus.wait(REACH_S)
    except Unavailable as error:
        raise Problem(503, "unsent", f"Kafka does not answer: {error}") from error
    producer, topic = to.producer(), to.topics.reports(scenario.name)
    end = time.monotonic() + SEND_TIMEOUT_S + 1
    for item in items:
        _enqueue(producer, topic, item, end)
    while any(item.outcome is None for item in items) and time.monotonic() < end:
        producer.poll(0.02)


def _enqueue(producer: Producer, topic: str, item: _Item, end: float) -> None:
    def note(outcome: Delivered | BusError) -> None:
        item.outcome = outcome

    while True:
        try:
            producer.send(topic, item.key, item.value, on_delivery=note)
            return
        except QueueFull as full:
            if time.monotonic() > end:
                item.outcome = full
                return
            producer.poll(0.02)
        except BusError as error:
            item.outcome = error
            return


def answered(items: list[ReportAnswer]) -> dict[str, Any]:
    """The answer as a whole. Raises Problem 422 where all were refused, 503 where none arrived."""
    accepted = sum(item.accepted for item in items)
    if not accepted:
        unsent = any(item.reason in ("unknown", "unsent") for item in items)
        first = items[0].detail or str(items[0].reason)
        errors = [
            {"field": str(at), "expected": item.detail or str(item.reason)}
            for at, item in enumerate(items[:100])
        ]
        raise Problem(
            503 if unsent else 422, "unsent" if unsent else "invalid", first, errors=errors
        )
    return {"accepted": accepted, "refused": len(items) - accepted, "items": items}


def _answer(item: _Item) -> ReportAnswer:
    outcome = item.outcome
    if item.refused:
        detail = EXPECTED.get(item.refused)
        return ReportAnswer(accepted=False, reason=item.refused, detail=detail)
    if isinstance(outcome, Delivered):
        return ReportAnswer(accepted=True, partition=outcome.partition, offset=outcome.offset)
    reason = "unknown" if outcome is None or isinstance(outcome, Unavailable) else "unsent"
    return ReportAnswer(
        accepted=False, reason=reason, detail=str(outcome or "not confirmed in time")
    )
