"""Records of the source topics as bytes: reports, leaves, commands, ticks, scenarios, mutes.

Reading never raises. An unreadable record becomes Unreadable or, for a command whose id and asset
can be read, a Refusal that is answered. The checks run in the order in which they are written, so
that every engine gives the same reason for the same bytes. A report whose asset and agent can be
read, but whose state or time cannot be taken, becomes a RefusedReport. If only the detail is wrong,
it is left out. A report in a record that cannot be read as a whole is read member by member, and
names the reason for which a rule before CLAIM_FOLD refuses it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeGuard, TypeVar

import msgspec

from domain.config_values import MAX_DURATION
from domain.names import MAX_NAME, MAX_STATE, USER_PREFIX, name_ok, state_name_ok
from domain.records import (
    COMMAND_KINDS,
    Command,
    Commanding,
    Leave,
    Misrouted,
    Mute,
    Record,
    Refusal,
    RefusedReport,
    Report,
    ScenarioChange,
    Schedule,
    Tick,
    UnknownFold,
    Unmute,
    Unreadable,
    Unsigned,
)
from domain.scenario import ACTIONS, FOLD, LEAST_PERIOD, MAX_RUNS, Scenario, ScenarioError
from domain.scenario_parser import scenario_from_plain
from domain.version import Version
from wire.forward import Headers, can_forward, first_appended_at
from wire.partitioner import partition_of
from wire.salvage import members, plain
from wire.signature import ROOM, UNSIGNED, Trust
from wire.unreadable import (
    KEY,
    NOTHING,
    bad_field,
    bad_json,
    bad_key,
    bad_scenario,
    bad_utf8,
    broken_off,
    no_object,
    too_long,
    too_many_brackets,
)

MAX_RECORD = 65_536
"""Largest record of a source topic, bytes."""
MAX_BRACKETS = 300
"""Largest number of `[` and `{` in a record, which limits its nesting."""
MAX_DETAIL = 2_048
"""Largest `detail` of a report, bytes of its original text."""
MAX_REASON = 500
"""Longest reason of a command, code points."""
MAX_TIME = 253_402_300_799_999
"""The last ms of the year 9999, and the latest time accepted."""
MAX_FOLD = 1_000_000
"""Largest version of the fold that a scenario record may name."""
MAX_PART = 2**63 - 1
"""Largest part of an `if_version`: fits a Kafka offset and the integers of every engine."""

_KEYED = ("report", "leave", *COMMAND_KINDS)

_TYPE = f"one of {', '.join(_KEYED)}"
_NAME = f"a text of 1-{MAX_NAME} characters without control characters"
_AGENT = f"{_NAME}, not beginning with {USER_PREFIX}, which is kept for operators"
_STATE = f"a text of 1-{MAX_STATE} characters without control characters"
_REASON = f"a text of at most {MAX_REASON} characters"
_TIME = "Unix milliseconds as an integer"

_Keyed = TypeVar("_Keyed", bound=Record)

_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\Z")


class _Detailed(msgspec.Struct):
    """Locates a report's `detail`. For a repeated key it is the last one, as everywhere."""

    detail: msgspec.Raw


_DETAILED = msgspec.json.Decoder(_Detailed)


def decode_source(key: bytes | None, value: bytes | None, time: int) -> Record:
    """Decode a record of a source topic, appended by the broker at `time` ms. Never raises."""
    if value is None:
        return Unreadable("not-json", "", "a value", NOTHING)
    data = _json_object(value)
    if isinstance(data, Unreadable):
        return _salvaged(key, value, time, data)
    kind = data.get("type")
    if kind == "tick":
        return Tick()
    if kind == "scenario":
        return _scenario(data)
    if kind in ("mute", "unmute"):
        return _mute(data)
    if kind not in _KEYED:
        return bad_field("unknown-type", data, "type", _TYPE)
    asset = _asset(key) if key or kind not in ("report", "leave") else _asset_in(data)
    if isinstance(asset, Unreadable):
        return asset
    if kind == "report":
        return _report(asset, value, data, time)
    return _leave(asset, data, time) if kind == "leave" else _command(asset, data)


def decode_placed(
    key: bytes | None,
    value: bytes | None,
    time: int,
    partition: int,
    partitions: int,
    trust: Trust | None = None,
    headers: Headers = (),
) -> Record:
    """Decode like `decode_source`, but with regard to the partition on which a record lies.

    An asset's offsets are comparable only within one partition: a report or a leave on another one,
    or without a key, becomes Misrouted, once; a command becomes Unreadable. partitions: number of
    partitions of the topic; trust: whose signatures count, None to ignore signatures, see
    `trusted`; headers: of the record, which say whether it was forwarded.
    """
    record = decode_source(key, value, time)
    if not isinstance(record, Report | RefusedReport | Leave | Command | Refusal):
        return record if trust is None else trusted(record, key, value, time, trust)
    right = partition_of(record.asset.encode(), partitions)
    if right == partition and key:
        record = _as_first_appended(record, headers, time)
        return record if trust is None else trusted(record, key, value, time, trust)
    given = f"partition {partition}" if key else "no key"
    fault = Unreadable("wrong-partition", KEY, f"partition {right}", given)
    if not isinstance(record, Command | Refusal) and can_forward(value, headers):
        return Misrouted(record, fault)
    return fault


def _as_first_appended(record: _Keyed, headers: Headers, time: int) -> _Keyed:
    """Return a record; a forwarded one without a time of its own was made when first appended."""
    if not headers or not isinstance(record, Report | Leave) or record.reported_at is not None:
        return record
    first = first_appended_at(headers)
    return record if first is None or first > time else replace(record, reported_at=first)


def trusted(
    record: Record, key: bytes | None, value: bytes | None, time: int, trust: Trust
) -> Record:
    """Return a decoded record, or its replacement if it is not trusted. Raises KeysProblem.

    A command without a signature becomes Unsigned; one with a wrong signature becomes Unreadable.
    """
    if value is None or not isinstance(record, Commanding):
        return record
    fault = trust.fault(key, value, time)
    if fault is None:
        return record
    return Unsigned(record) if fault == UNSIGNED else Unreadable(fault)


def refusal_of(record: Record) -> Unreadable | None:
    """Return why a record is refused under any rule, or None if it is not."""
    if isinstance(record, RefusedReport):
        return record.unreadable
    return record if isinstance(record, Unreadable) else None


def whole_refusal(value: bytes) -> Unreadable | None:
    """Return why a value cannot be read as a whole, or None if it can."""
    data = _json_object(value)
    return data if isinstance(data, Unreadable) else None


def encode_report(report: Report) -> bytes:
    """Return a report as the value of a record whose key is the asset, with its detail
    unchanged."""
    return _encode(
        {
            "type": "report",
            "agent": report.agent,
            "state": report.state,
            "reported_at": report.reported_at,
            "detail": None if report.detail is None else msgspec.Raw(report.detail),
        }
    )


def encode_leave(leave: Leave) -> bytes:
    """Return a leave as the value of a record whose key is the asset."""
    return _encode({"type": "leave", "agent": leave.agent, "reported_at": leave.reported_at})


def detail_text(detail: Mapping[str, Any] | None) -> str | None:
    """Return a mapping as the detail of a report, compact. Raises TypeError or ValueError.

    The size is not checked here; `decode_source` does that.
    """
    try:
        return None if detail is None else msgspec.json.encode(detail).decode()
    except RecursionError:
        raise ValueError("detail: expected a mapping that is less deep") from None


def encode_command(command: Command) -> bytes:
    """Return a command as the value of a record whose key is the asset."""
    return _encode(
        {
            "type": command.kind,
            "id": command.id,
            "user": command.user,
            "reason": command.reason,
            "state": command.state,
            "until": command.until,
            "if_version": str(command.if_version) if command.if_version else None,
            **(_schedule_fields(command.schedule) if command.schedule else {}),
            "task": command.task,
        }
    )


def _schedule_fields(schedule: Schedule) -> dict[str, Any]:
    return {
        "do": schedule.do,
        "if": schedule.condition,
        "after": schedule.after,
        "at": schedule.at,
        "every": schedule.every,
        "times": schedule.times,
    }


def encode_tick() -> bytes:
    """Return the value of a tick record, which has no key."""
    return b'{"type":"tick"}'


def encode_scenario(scenario: Scenario) -> bytes:
    """Return the value of a scenario record, which has no key."""
    return _encode({"type": "scenario", "scenario": scenario.to_plain()})


def fits(scenario: Scenario) -> bool:
    """Return whether a log record can hold a scenario, including its signature."""
    value = encode_scenario(scenario)
    complete = decode_source(None, value, 0) == ScenarioChange(scenario)
    return complete and len(value) + ROOM <= MAX_RECORD


def encode_mute(record: Mute | Unmute) -> bytes:
    """Return the value of a mute or unmute record, which has no key."""
    return _encode(
        {
            "type": "mute" if isinstance(record, Mute) else "unmute",
            "id": record.id,
            "user": record.user,
            "reason": record.reason,
            "agent": record.agent,
            "until": record.until if isinstance(record, Mute) else None,
        }
    )


def _encode(fields: dict[str, Any]) -> bytes:
    return msgspec.json.encode({key: value for key, value in fields.items() if value is not None})


def _json_object(value: bytes) -> dict[str, Any] | Unreadable:
    if len(value) > MAX_RECORD:
        return too_long("", len(value), MAX_RECORD)
    if _brackets(value) > MAX_BRACKETS:
        return too_many_brackets(value, MAX_BRACKETS)
    try:
        value.decode("utf-8")
        data = msgspec.json.decode(value)
    except UnicodeDecodeError as error:
        return bad_utf8("", error)
    except msgspec.DecodeError as error:
        return bad_json(value, error)
    return data if isinstance(data, dict) else no_object(data)


def _brackets(value: bytes) -> int:
    return value.count(b"[") + value.count(b"{")


def _scenario(data: dict[str, Any]) -> Record:
    plain = data.get("scenario")
    if (later := _later_fold(plain)) is not None:
        return later
    try:
        return ScenarioChange(scenario_from_plain(plain))
    except ScenarioError as error:
        return bad_scenario(data, error)


def _later_fold(plain: Any) -> UnknownFold | None:
    """Return a scenario of a later version as UnknownFold, since its other fields may be
    unreadable."""
    if not isinstance(plain, dict):
        return None
    name, fold = plain.get("name"), plain.get("fold")
    if not isinstance(name, str) or not isinstance(fold, int):
        return None
    return UnknownFold(name, fold) if FOLD < fold <= MAX_FOLD else None


def _mute(data: dict[str, Any]) -> Mute | Unmute | Unreadable:
    agent, id_, user = data.get("agent"), data.get("id"), data.get("user")
    reason, until = data.get("reason"), data.get("until")
    if not _agent_ok(agent):
        return bad_field("bad-agent", data, "agent", _AGENT)
    if not isinstance(id_, str) or not _UUID.match(id_):
        return bad_field("bad-command", data, "id", "a UUID")
    if not _user_ok(user):
        return bad_field("bad-field", data, "user", _NAME)
    if not _reason_ok(reason):
        return bad_field("bad-field", data, "reason", _REASON)
    if data["type"] == "unmute":
        return Unmute(agent, user, reason or "", id_.lower())
    if until is not None and not _time_ok(until, MAX_TIME):
        return bad_field("bad-time", data, "until", _TIME)
    return Mute(agent, until, user, reason or "", id_.lower())


def _agent_ok(agent: object) -> TypeGuard[str]:
    return isinstance(agent, str) and name_ok(agent) and not agent.startswith(USER_PREFIX)


def _user_ok(user: object) -> TypeGuard[str]:
    return isinstance(user, str) and user != "" and name_ok(USER_PREFIX + user)


def _reason_ok(reason: object) -> TypeGuard[str | None]:
    return reason is None or (isinstance(reason, str) and len(reason) <= MAX_REASON)


def _asset_in(data: dict[str, Any]) -> str | Unreadable:
    """Return the asset of a record without a key, which has it in its value."""
    asset = data.get("asset")
    return asset if isinstance(asset, str) and name_ok(asset) else bad_key(None, "")


def _asset(key: bytes | None) -> str | Unreadable:
    try:
        asset = (key or b"").decode("utf-8")
    except UnicodeDecodeError as error:
        return bad_utf8(KEY, error)
    return asset if name_ok(asset) else bad_key(key, asset)


def _report(
    asset: str, value: bytes, data: dict[str, Any], time: int
) -> Report | RefusedReport | Unreadable:
    agent, state, reported_at = data.get("agent"), data.get("state"), data.get("reported_at")
    if not _agent_ok(agent):
        return bad_field("bad-agent", data, "agent", _AGENT)
    detail, detail_fault = _detail(value, data.get("detail"))
    said = state if isinstance(state, str) and state_name_ok(state) else None
    fault = _claim_fault(data, said)
    if said is None or fault is not None:
        return RefusedReport(asset, agent, said, fault.reason if fault else "", detail_fault, fault)
    return Report(asset, agent, said, reported_at, detail, _ahead(reported_at, time), detail_fault)


def _claim_fault(data: dict[str, Any], said: str | None) -> Unreadable | None:
    """Return why a report's state or time cannot be taken, or None if both can."""
    reported_at = data.get("reported_at")
    if not isinstance(data.get("state"), str):
        return bad_field("bad-field", data, "state", "a text")
    if said is None:
        return bad_field("unknown-state", data, "state", _STATE)
    if reported_at is not None and not _time_ok(reported_at, MAX_TIME):
        return bad_field("bad-time", data, "reported_at", _TIME)
    return None


def _detail(value: bytes, detail: object) -> tuple[str | None, str | None]:
    """Return a report's detail unchanged, or None and the reason why it is left out."""
    if detail is None:
        return None, None
    if not isinstance(detail, dict):
        return None, "bad-field"
    span = bytes(_DETAILED.decode(value).detail)
    return (None, "too-large") if len(span) > MAX_DETAIL else (span.decode(), None)


def _salvaged(
    key: bytes | None, value: bytes, time: int, refusal: Unreadable
) -> Report | RefusedReport | Unreadable:
    """Return the report in a record that cannot be read as a whole, or the record's refusal."""
    spans, whole = members(value)
    agent = plain(spans.get("agent"))
    asset = _asset(key) if key else _asset_in({"asset": plain(spans.get("asset"))})
    if plain(spans.get("type")) != "report" or isinstance(asset, Unreadable):
        return refusal
    if not _agent_ok(agent):
        return refusal
    claim = ("state", "reported_at")
    data: dict[str, Any] = {name: plain(spans[name]) for name in claim if name in spans}
    detail, detail_fault = _salvaged_detail(spans.get("detail"))
    state, reported_at = data.get("state"), data.get("reported_at")
    said = state if isinstance(state, str) and state_name_ok(state) else None
    fault = _claim_fault(data, said) if whole else broken_off(value, refusal)
    sunk = refusal.reason
    if said is None or fault is not None:
        reason = fault.reason if fault else ""
        return RefusedReport(asset, agent, said, reason, detail_fault, fault, sunk)
    ahead = _ahead(reported_at, time)
    return Report(asset, agent, said, reported_at, detail, ahead, detail_fault, sunk)


def _salvaged_detail(span: bytes | None) -> tuple[str | None, str | None]:
    """Return the detail unchanged, or None and the reason why it is left out."""
    if span is None or span == b"null":
        return None, None
    if not span.startswith(b"{"):
        return None, "bad-field"
    if len(span) > MAX_DETAIL or _brackets(span) > MAX_BRACKETS:
        return None, "too-large"
    return (
        (None, "bad-field") if isinstance(_json_object(span), Unreadable) else (span.decode(), None)
    )


def _ahead(reported_at: int | None, time: int) -> int:
    """Return how far the agent's clock is ahead of the broker's, ms."""
    return 0 if reported_at is None else max(0, reported_at - time)


def _leave(asset: str, data: dict[str, Any], time: int) -> Leave | Unreadable:
    agent, reported_at = data.get("agent"), data.get("reported_at")
    if not _agent_ok(agent):
        return bad_field("bad-agent", data, "agent", _AGENT)
    if reported_at is not None and not _time_ok(reported_at, MAX_TIME):
        return bad_field("bad-time", data, "reported_at", _TIME)
    return Leave(asset, agent, reported_at, _ahead(reported_at, time))


def _time_ok(value: object, latest: int) -> bool:
    return _whole_ok(value, 0, latest)


def _command(asset: str, data: dict[str, Any]) -> Command | Refusal | Unreadable:
    id_, user = data.get("id"), data.get("user")
    if not isinstance(id_, str) or not _UUID.match(id_):
        return bad_field("bad-command", data, "id", "a UUID")
    id_ = id_.lower()
    if not _user_ok(user):
        return Refusal(asset, id_, "", "user: expected a name")
    fault = _fault(data)
    if fault is not None:
        return Refusal(asset, id_, user, fault)
    if_version = data.get("if_version")
    return Command(
        kind=data["type"],
        asset=asset,
        id=id_,
        user=user,
        reason=data.get("reason") or "",
        state=data.get("state"),
        until=data.get("until"),
        if_version=None if if_version is None else Version.parse(if_version),
        schedule=_schedule(data) if data["type"] == "schedule" else None,
        task=data["task"].lower() if data["type"] == "cancel" else None,
    )


def _schedule(data: dict[str, Any]) -> Schedule:
    return Schedule(
        do=data["do"],
        condition=data.get("if"),
        after=data.get("after"),
        at=data.get("at"),
        every=data.get("every"),
        times=data.get("times"),
    )


def _fault(data: dict[str, Any]) -> str | None:
    """Return what is wrong with a command's fields, or None."""
    state, until, reason = data.get("state"), data.get("until"), data.get("reason")
    if not _reason_ok(reason):
        return f"reason: expected {_REASON}"
    if state is None and data["type"] in ("set", "vote"):
        return "state: expected a state"
    if state is not None and not (isinstance(state, str) and state_name_ok(state)):
        return "unknown state"
    if until is not None and not _time_ok(until, MAX_TIME):
        return "until: expected Unix milliseconds"
    if data.get("if_version") is not None and not _version_ok(data["if_version"]):
        return "if_version: expected epoch.offset.step"
    if data["type"] == "schedule":
        return _schedule_fault(data)
    if data["type"] == "cancel" and not _uuid_ok(data.get("task")):
        return "task: expected a UUID"
    return None


def _schedule_fault(data: dict[str, Any]) -> str | None:
    """Return what is wrong with the fields specific to `schedule`, or None."""
    do, condition = data.get("do"), data.get("if")
    if do not in ACTIONS:
        return "do: expected one of emit, notify, set, release, purge"
    if do == "set" and data.get("state") is None:
        return "state: expected a state"
    if condition is not None and not (isinstance(condition, str) and state_name_ok(condition)):
        return "if: expected a state"
    return _runs_fault(data)


def _runs_fault(data: dict[str, Any]) -> str | None:
    """Return what is wrong with the fields that say when a task runs, or None."""
    after, at, every, times = (data.get(name) for name in ("after", "at", "every", "times"))
    for name, value in (("after", after), ("every", every)):
        if value is not None and not _whole_ok(value, LEAST_PERIOD, MAX_DURATION):
            return f"{name}: expected milliseconds, from 1 second to 366 days"
    if at is not None and not _time_ok(at, MAX_TIME):
        return "at: expected Unix milliseconds"
    if times is not None and not _whole_ok(times, 1, MAX_RUNS):
        return f"times: expected an integer from 1 to {MAX_RUNS}"
    if after is not None and at is not None:
        return "after: expected none with at"
    if after is None and at is None and every is None:
        return "after: expected a time, or at or every"
    return "times: expected none without every" if every is None and times is not None else None


def _whole_ok(value: object, low: int, high: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def _uuid_ok(value: object) -> bool:
    return isinstance(value, str) and _UUID.match(value) is not None


def _version_ok(value: object) -> bool:
    try:
        return isinstance(value, str) and len(value) <= 64 and max(Version.parse(value)) <= MAX_PART
    except ValueError:
        return False
