"""What is wrong with a refused record, and where: for people, by the rules that the job has.

Nothing here raises, whatever the bytes are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from json import JSONDecoder
from typing import Any, Literal, NamedTuple

import msgspec

from dashboard.core.times import DAY_MS, duration
from dashboard.dead_letters.byte_display import Span, bad_bytes, point
from domain.names import CONTROL, MAX_NAME, MAX_STATE, USER_PREFIX
from domain.records import MAX_MUTED, MAX_VOTERS, SET_ASIDE
from domain.scenario import Scenario, ScenarioError
from domain.scenario_parser import scenario_from_plain
from wire.partitioner import partition_of
from wire.sink import MAX_DEAD_VALUE
from wire.source import MAX_AHEAD, MAX_BRACKETS, MAX_DETAIL, MAX_REASON, MAX_TIME

Where = Literal["key", "value", ""]


class Advice(NamedTuple):
    """What a reason means, and what to do about it."""

    means: str
    todo: str


ADVICE = {
    "not-utf8": Advice(
        "Key or value contains bytes that are not UTF-8.",
        "Let the producer encode texts as UTF-8; mend the marked bytes here and redrive.",
    ),
    "not-json": Advice(
        "The value is not JSON, or there is none.",
        "Look for a producer that cuts off, or writes another format; mend it at the mark.",
    ),
    SET_ASIDE: Advice(
        "A batch so large once it is unpacked that the job died of it, or that nothing unpacks.",
        "Find who sent it: no agent of yours packs so much. It stays in the log, and nobody reads "
        "it; what else was in the same batch its sender must send again.",
    ),
    "too-large": Advice(
        "The record, its nesting or its detail is larger than the job takes.",
        "Let the producer send less detail; what was cut off here must be sent again by it.",
    ),
    "unknown-type": Advice(
        "The value is no object, or its type is none that the job knows.",
        "Set type to report or leave, or to a command's: set, vote, release, purge.",
    ),
    "bad-field": Advice(
        "A field has the wrong kind of value.",
        "state must be a text, and detail an object where it is given.",
    ),
    "bad-asset": Advice(
        "The key, which names the asset, is missing or cannot name one.",
        "Give the record a key of 1-255 characters without control characters.",
    ),
    "bad-agent": Advice(
        "The agent is missing, or its name cannot name an agent.",
        "Give it 1-255 characters; names that begin with user: are kept for operators' votes.",
    ),
    "bad-time": Advice(
        "A time that is none, reported_at too far ahead of the broker's clock, or an end past.",
        "Set the agent's clock right (NTP); mend the time here, or leave it out, and redrive.",
    ),
    "bad-scenario": Advice(
        "A scenario record without a scenario, or with another one's.",
        "Only the job writes these: find out who else did, and discard it.",
    ),
    "bad-command": Advice(
        "A command whose id is not a UUID, so that nobody could be answered.",
        "Let its producer give each command a UUID; give it one here and redrive.",
    ),
    "unknown-state": Advice(
        "The state is none of the scenario's.",
        "Mend the state, or add it to the scenario and redrive all letters that name it.",
    ),
    "wrong-partition": Advice(
        "The record lies on another partition than its key belongs to.",
        "Let the producer use the partitioner murmur2_random; redriven, it goes to the right one.",
    ),
    "too-many-agents": Advice(
        f"{MAX_VOTERS} other agents vote on this asset, and none of their votes gives way.",
        "Find out which agents multiply; redrive once votes are forgotten or the asset is purged.",
    ),
    "too-many-mutes": Advice(
        f"{MAX_MUTED} other agents of this scenario are muted already.",
        "Unmute agents that need no longer be muted, then mute this one.",
    ),
    "unsigned": Advice(
        "It commands something and bears no signature, which its scenario demands.",
        "Find out who writes to Kafka past the board; give a real command again, on the board.",
    ),
    "bad-signature": Advice(
        "Its signature is not of these bytes, this key and this topic.",
        "Somebody changed or moved a command, or made one up: find out who writes to Kafka.",
    ),
    "unknown-key": Advice(
        "It is signed with a key that there was not at that time.",
        "See that every process reads the same keys; else somebody made the command up.",
    ),
    "expired-key": Advice(
        "It is signed with a key that was withdrawn before it came.",
        "See that every process reads the same keys; else somebody has kept the key.",
    ),
    "untimely-signature": Advice(
        "It came more than five minutes before or after the time at which it was signed.",
        "Somebody sends an old command again; or a broker's clock has jumped: set it right.",
    ),
}
"""In a sentence each, by every reason of the closed list."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A record of a source topic as it came. time: appended, Unix ms."""

    key: bytes | None
    value: bytes | None
    partition: int
    time: int


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong, in words; and where, if it is at one place of key or value."""

    text: str
    where: Where = ""
    span: Span | None = None
    field: str = ""

    def told(self, sample: Sample) -> str:
        """The words with the place."""
        if self.span is None:
            return self.text
        data = sample.key if self.where == "key" else sample.value
        return f"{self.text} ({self.where}, {point(data or b'', self.span[0])})"


class Field(NamedTuple):
    """A field of an object: its value, and where the value stands in the bytes."""

    value: Any
    span: Span


Fields = Mapping[str, Field]


def fields_of(value: bytes | None) -> dict[str, Field]:
    """The fields of the object that a value holds, as far as it can be read; of a name the last."""
    if value is None or bad_bytes(value) or _brackets(value) > MAX_BRACKETS:
        return {}
    text = value.decode()
    try:
        return _fields(text, len(text) == len(value))
    except (ValueError, RecursionError, IndexError, StopIteration):
        return {}


def fault_of(reason: str, sample: Sample, scenario: Scenario | None) -> Fault:
    """Why a record was refused for this reason of DEAD_LETTER_REASONS."""
    fields = fields_of(sample.value)
    find = _FINDERS.get(reason)
    found = find(sample, fields, scenario) if find else None
    return found or Fault(ADVICE[reason].means if reason in ADVICE else reason)


def _fields(text: str, ascii_only: bool) -> dict[str, Field]:
    """Raises what the decoder raises; that includes a text after whose object more follows not."""

    def byte(at: int) -> int:
        return at if ascii_only else len(text[:at].encode())

    found: dict[str, Field] = {}
    at = _skip(text, 0)
    if text[at] != "{":
        return {}
    at = _skip(text, at + 1)
    while text[at] != "}":
        if text[at] != '"':
            return found
        name, at = _DECODER.raw_decode(text, at)
        begin = _skip(text, _skip(text, at) + 1)  # over the colon
        try:
            value, at = _DECODER.raw_decode(text, begin)
        except ValueError:
            return found  # up to here it could be read
        found[name] = Field(value, (byte(begin), byte(at)))
        at = _skip(text, at)
        if text[at] == ",":
            at = _skip(text, at + 1)
    return found


_DECODER = JSONDecoder()
_SPACE = re.compile(r"[ \t\r\n]*")


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _brackets(value: bytes) -> int:
    return value.count(b"[") + value.count(b"{")


# ---- one finder for each reason that has a place -------------------------------------------------


def _not_utf8(sample: Sample, _fields: Fields, _scenario: Scenario | None) -> Fault | None:
    if sample.value is not None and (span := bad_bytes(sample.value)):
        digits = sample.value[span[0] : span[1]].hex(" ")
        return Fault(f"no UTF-8: {digits}", "value", span)
    if span := bad_bytes(sample.key or b""):
        digits = (sample.key or b"")[span[0] : span[1]].hex(" ")
        return Fault(f"no UTF-8: {digits}", "key", span)
    return None


_HALF_PAIR = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB]..)\\u[dD][c-fC-F]"
)
_AT_BYTE = re.compile(r"^(?:JSON is malformed: )?(.*?) \(byte (\d+)\)$")


def _not_json(sample: Sample, _fields: Fields, _scenario: Scenario | None) -> Fault | None:
    if sample.value is None:
        return Fault("The record has no value: it is a tombstone")
    try:
        msgspec.json.decode(sample.value)
    except msgspec.DecodeError as error:
        return _json_fault(sample.value, str(error))
    except (UnicodeDecodeError, RecursionError):
        return None
    return None


def _json_fault(value: bytes, message: str) -> Fault:
    """Where the job's own decoder stopped."""
    if not value.strip():
        return Fault("The value is empty", "value", (0, 0))
    if match := _AT_BYTE.match(message):
        at = min(int(match[2]), len(value))
        return Fault(f"no JSON from here on: {match[1]}", "value", (at, at + 1))
    if half := _HALF_PAIR.search(value):
        return Fault("half of a surrogate pair, which is no character", "value", half.span())
    if "truncated" in message:
        return Fault("the value ends here, before its JSON does", "value", (len(value), len(value)))
    return Fault(message)


def _too_large(sample: Sample, fields: Fields, _scenario: Scenario | None) -> Fault | None:
    value = sample.value or b""
    if len(value) >= MAX_DEAD_VALUE:
        return Fault(f"the value is over {MAX_DEAD_VALUE:,} bytes; only these were kept")
    if _brackets(value) > MAX_BRACKETS:
        places = [at for at, byte in enumerate(value) if byte in b"[{"]
        at = places[MAX_BRACKETS]
        text = f"{len(places):,} opening brackets; at most {MAX_BRACKETS} are read"
        return Fault(text, "value", (at, at + 1))
    if detail := fields.get("detail"):
        size = detail.span[1] - detail.span[0]
        text = f"detail has {size:,} bytes; at most {MAX_DETAIL:,} are taken"
        return Fault(text, "value", detail.span, "detail")
    return None


def _unknown_type(_sample: Sample, fields: Fields, _scenario: Scenario | None) -> Fault | None:
    if not fields:
        return Fault("the value is JSON, but no object with a type")
    return _missing(fields, "type") or _at(fields, "type", f"unknown type {_shown(fields['type'])}")


def _bad_asset(sample: Sample, _fields: Fields, _scenario: Scenario | None) -> Fault | None:
    key = sample.key or b""
    if not key:
        return Fault("the record has no key, so no asset", "key")
    return _bad_name("asset", key.decode(errors="replace"), "key", (0, len(key)), key)


def _bad_agent(_sample: Sample, fields: Fields, _scenario: Scenario | None) -> Fault | None:
    if missing := _missing(fields, "agent"):
        return missing
    agent, span = fields["agent"]
    if not isinstance(agent, str):
        return _at(fields, "agent", f"expected a text, got {_shown(fields['agent'])}")
    if agent.startswith(USER_PREFIX):
        return _at(fields, "agent", f"begins with {USER_PREFIX}, which is kept for operators")
    return _bad_name("agent", agent, "value", span)


def _bad_name(
    what: str, name: str, where: Where, span: Span, data: bytes | None = None
) -> Fault | None:
    field = what if where == "value" else ""
    if not name:
        return Fault(f"the {what} is an empty text", where, span, field)
    if match := CONTROL.search(name):
        at = (match.start(), match.end()) if data is not None and data.isascii() else span
        text = f"the {what} contains the control character U+{ord(match[0]):04X}"
        return Fault(text, where, at, field)
    if len(name) > MAX_NAME:
        text = f"the {what} has {len(name):,} characters; at most {MAX_NAME} are taken"
        return Fault(text, where, span, field)
    return None


def _bad_field(_sample: Sample, fields: Fields, _scenario: Scenario | None) -> Fault | None:
    if _is_mute(fields):
        return _bad_mute(fields)
    if missing := _missing(fields, "state"):
        return missing
    if not isinstance(fields["state"].value, str):
        return _at(fields, "state", f"expected a text, got {_shown(fields['state'])}")
    if "detail" in fields:
        return _at(fields, "detail", f"expected an object, got {_shown(fields['detail'])}")
    return None


def _is_mute(fields: Fields) -> bool:
    return "type" in fields and fields["type"].value in ("mute", "unmute")


def _bad_mute(fields: Fields) -> Fault | None:
    if missing := _missing(fields, "user"):
        return missing
    user, span = fields["user"]
    if not isinstance(user, str):
        return _at(fields, "user", f"expected a text, got {_shown(fields['user'])}")
    if bad := _bad_name("user", USER_PREFIX + user if user else user, "value", span):
        return bad
    expected = f"expected a text of at most {MAX_REASON} characters"
    return _at(fields, "reason", expected) if "reason" in fields else None


def _unknown_state(_sample: Sample, fields: Fields, scenario: Scenario | None) -> Fault | None:
    if missing := _missing(fields, "state"):
        return missing
    state = fields["state"].value
    if isinstance(state, str) and (not state or CONTROL.search(state) or len(state) > MAX_STATE):
        return _at(fields, "state", f"expected 1-{MAX_STATE} characters, no control character")
    known = "one that the scenario has"
    if scenario is not None:
        known = ", ".join(spec.name for spec in scenario.states)
        if isinstance(state, str) and scenario.knows(state):
            return _at(fields, "state", f"{_shown(fields['state'])} was unknown then; by now it is")
    return _at(fields, "state", f"unknown state {_shown(fields['state'])}; expected {known}")


def _bad_time(sample: Sample, fields: Fields, _scenario: Scenario | None) -> Fault | None:
    if _is_mute(fields):
        return _bad_end(sample, fields)
    if missing := _missing(fields, "reported_at"):
        return missing
    at = fields["reported_at"].value
    if not isinstance(at, int) or isinstance(at, bool):
        text = f"expected Unix milliseconds as an integer, got {_shown(fields['reported_at'])}"
        return _at(fields, "reported_at", text)
    if at < 0:
        return _at(fields, "reported_at", "a negative time")
    ahead = at - sample.time
    text = f"{_length(ahead)} ahead of the broker's clock; at most {_length(MAX_AHEAD)} is taken"
    return _at(fields, "reported_at", text)


def _bad_end(sample: Sample, fields: Fields) -> Fault | None:
    """What is wrong with the end of a mute."""
    if missing := _missing(fields, "until"):
        return missing
    until = fields["until"].value
    if not isinstance(until, int) or isinstance(until, bool) or not 0 <= until <= MAX_TIME:
        text = f"expected Unix milliseconds as an integer, got {_shown(fields['until'])}"
        return _at(fields, "until", text)
    return _at(fields, "until", f"{_length(sample.time - until)} before the record: it has passed")


def _bad_scenario(_sample: Sample, fields: Fields, scenario: Scenario | None) -> Fault | None:
    if missing := _missing(fields, "scenario"):
        return missing
    try:
        found = scenario_from_plain(fields["scenario"].value)
    except (ScenarioError, RecursionError) as error:
        return _at(fields, "scenario", str(error)[:500])
    if scenario is not None and found.name != scenario.name:
        text = f"the scenario {found.name}, in the topic of {scenario.name}"
        return _at(fields, "scenario", text)
    return None


def _bad_command(_sample: Sample, fields: Fields, _scenario: Scenario | None) -> Fault | None:
    return _missing(fields, "id") or _at(
        fields, "id", f"expected a UUID, got {_shown(fields['id'])}"
    )


def _wrong_partition(sample: Sample, _fields: Fields, scenario: Scenario | None) -> Fault | None:
    if scenario is None:
        return None
    right = partition_of(sample.key or b"", scenario.partitions)
    text = f"on partition {sample.partition}; its key belongs on partition {right}"
    return Fault(text, "key", (0, len(sample.key or b"")))


def _missing(fields: Fields, name: str) -> Fault | None:
    return None if name in fields else Fault(f"{name} is missing", field=name)


def _at(fields: Fields, name: str, text: str) -> Fault:
    return Fault(f"{name}: {text}", "value", fields[name].span, name)


def _shown(field: Field) -> str:
    """A value in a sentence."""
    text = repr(field.value)
    return text if len(text) <= 80 else text[:77] + "..."


def _length(ms: int) -> str:
    return duration(ms) if ms < 1000 * 366 * DAY_MS else "over a thousand years"


_Finder = Callable[[Sample, Fields, Scenario | None], Fault | None]
_FINDERS: dict[str, _Finder] = {
    "not-utf8": _not_utf8,
    "not-json": _not_json,
    "too-large": _too_large,
    "unknown-type": _unknown_type,
    "bad-field": _bad_field,
    "bad-asset": _bad_asset,
    "bad-agent": _bad_agent,
    "bad-time": _bad_time,
    "bad-scenario": _bad_scenario,
    "bad-command": _bad_command,
    "unknown-state": _unknown_state,
    "wrong-partition": _wrong_partition,
}
