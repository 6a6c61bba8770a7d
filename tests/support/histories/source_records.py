"""The records of a generated history as they lie in a source topic."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from domain.records import (
    Command,
    Leave,
    Mute,
    Record,
    Refusal,
    RefusedReport,
    Report,
    ScenarioChange,
    Tick,
    Unmute,
    Unreadable,
)
from wire.source import (
    MAX_DETAIL,
    MAX_REASON,
    encode_command,
    encode_leave,
    encode_mute,
    encode_report,
    encode_scenario,
    encode_tick,
)


def encoded(scenario: str, record: Record) -> tuple[bytes | None, bytes]:
    """Key and value of a record of this scenario's log; what cannot be read becomes other bytes
    that cannot be read."""
    match record:
        case Report() | RefusedReport() | Leave() | Command() | Refusal():
            return record.asset.encode(), _keyed(record)
        case ScenarioChange():
            return None, encode_scenario(replace(record.scenario, name=scenario))
        case Mute() | Unmute():
            return None, encode_mute(record)
        case Tick():
            return None, encode_tick()
        case Unreadable():
            return None, b"{"
    raise AssertionError(record)


def _keyed(record: Report | RefusedReport | Leave | Command | Refusal) -> bytes:
    match record:
        case Report():
            return _reported(record)
        case RefusedReport():
            return _refused(record)
        case Leave():
            return encode_leave(record)
        case Command():
            return encode_command(record)
    spoilt = "x" * (MAX_REASON + 1)
    return encode_command(Command("release", record.asset, record.id, record.user, reason=spoilt))


UNUSABLE = {"too-large": {"n": "x" * MAX_DETAIL}, "bad-field": "no object"}
"""Details that are left out, by why."""


def _reported(report: Report) -> bytes:
    """A report, with a detail that is left out where its fault says so."""
    value = encode_report(report)
    if report.detail_fault is not None:
        plain = msgspec.json.decode(value)
        value = msgspec.json.encode({**plain, "detail": UNUSABLE[report.detail_fault]})
    return value if report.sunk is None else value[:-1] + b',"later":NaN}'


def _refused(refused: RefusedReport) -> bytes:
    """A report that is refused for this reason, and says this."""
    said = refused.said or 5
    state = {"bad-field": 5, "unknown-state": ""}.get(refused.reason, said)
    fields: dict[str, object] = {"type": "report", "agent": refused.agent, "state": state}
    if refused.reason == "bad-time":
        fields["reported_at"] = "noon"
    if refused.detail_fault is not None:
        fields["detail"] = UNUSABLE[refused.detail_fault]
    value = msgspec.json.encode(fields)
    return value if refused.sunk is None else value[:-1] + b',"later":{"n":'
