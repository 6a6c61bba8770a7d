"""Diagnosis of refused records: what is wrong, and where, in words."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from json import JSONDecoder
from typing import Any, Literal, NamedTuple

from dashboard.core.common.text import isolated
from dashboard.core.common.times import DAY_MS, MINUTE_MS, duration, exact_span
from domain.records import (
    MAX_AHEAD,
    MAX_MUTED,
    MAX_VOTERS,
    SCHEMA_MISMATCH,
    SET_ASIDE,
    Leave,
    Misrouted,
    Mute,
    Record,
    RefusedReport,
    Report,
    ScenarioChange,
    Unreadable,
)
from domain.scenario import Scenario
from wire.sink import MAX_DEAD_VALUE
from wire.source import (
    MAX_BRACKETS,
    MAX_DETAIL,
    decode_placed,
    decode_source,
    refusal_of,
    whole_refusal,
)
from wire.unreadable import KEY, bad_field, too_long

# ---- byte display --------------------------------------------------------------------------------
# Any bytes as text for a page, with faults marked.

# Most runs into which a text is split; the rest becomes one more run, without marks.
MAX_RUNS = 1_000
HEX_LINE = 16
# How many bytes are shown in hexadecimal.
MAX_HEX = 4_096

Kind = Literal["", "byte", "escape"]
# Begin and end, bytes.
Span = tuple[int, int]


class TextRun(NamedTuple):
    """A run of text. kind: plain, a byte that is not UTF-8, or an invisible character; at fault:
    the run lies within the mark.
    """

    text: str
    kind: Kind
    at_fault: bool


@dataclass(frozen=True, slots=True)
class Point:
    """A place in a text: line and column counted from 1, and the byte from 0."""

    line: int
    column: int
    byte: int

    def __str__(self) -> str:
        where = f"byte {self.byte}"
        return where if self.line == 1 else f"line {self.line}, column {self.column}, {where}"


def point(data: bytes, byte: int) -> Point:
    """Return the place of the byte at this offset."""
    before = data[:byte].decode(errors="surrogateescape")
    line = before.count("\n") + 1
    return Point(line, len(before) - (before.rfind("\n") + 1) + 1, byte)


def bad_bytes(data: bytes) -> Span | None:
    """Return the begin and end of the first bytes that are not UTF-8, or None."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return error.start, error.end
    return None


def runs(data: bytes, mark: Span | None = None) -> list[TextRun]:
    """Return all of `data` as a limited number of text runs; those in `mark` are at fault."""
    if mark is not None and mark[0] >= mark[1]:
        mark = (mark[0], mark[0] + 1)  # an empty mark covers the byte at its place
    text_runs: list[TextRun] = []
    rest: list[str] = []
    for (kind, at_fault), group in groupby(_pieces(data, mark), key=lambda piece: piece[1:]):
        text = "".join(piece[0] for piece in group)
        if len(text_runs) < MAX_RUNS:
            text_runs.append(TextRun(text, kind, at_fault))
        else:
            rest.append(text)
    if rest:
        text_runs.append(TextRun("".join(rest), "", at_fault=False))
    if mark is not None and mark[0] >= len(data):
        text_runs.append(TextRun("(end)", "escape", at_fault=True))
    return text_runs


def _pieces(data: bytes, mark: Span | None) -> Iterator[tuple[str, Kind, bool]]:
    begin, end = mark or (len(data) + 1, 0)
    at = 0
    for char in data.decode(errors="surrogateescape"):
        bad = "\udc80" <= char <= "\udcff"
        size = 1 if bad else len(char.encode())
        at_fault = at < end and at + size > begin
        at += size
        if bad:
            yield f"\\x{ord(char) - 0xDC00:02x}", "byte", at_fault
        elif _unseen(char):
            yield f"\\u{ord(char):04x}", "escape", at_fault
        else:
            yield char, "", at_fault


def _unseen(char: str) -> bool:
    """Return whether a character is invisible or moves others: controls, direction marks."""
    return char not in "\n\t" and unicodedata.category(char) in ("Cc", "Cf", "Cn", "Zl", "Zp")


def hex_lines(data: bytes) -> Sequence[tuple[str, str, str]]:
    """Return the offset, digits and letters of each line, for at most MAX_HEX bytes."""
    shown = data[:MAX_HEX]
    return [_hex_line(at, shown[at : at + HEX_LINE]) for at in range(0, len(shown), HEX_LINE)]


def _hex_line(at: int, part: bytes) -> tuple[str, str, str]:
    letters = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
    return f"{at:05x}", part.hex(" "), letters


# ---- diagnosis -----------------------------------------------------------------------------------
# What is wrong with a refused record, and where, in words, as `wire.source` reads it again.
#
# Nothing here raises, whatever the bytes are.

Where = Literal["key", "value", ""]


class Advice(NamedTuple):
    """What a reason means, and what to do about it."""

    means: str
    todo: str


ADVICE = {
    "not-utf8": Advice(
        "Key or value contains bytes that are not UTF-8.",
        "Let the producer encode texts as UTF-8; correct the marked bytes here and redrive.",
    ),
    "not-json": Advice(
        "The value is not JSON, or there is none.",
        "Look for a producer that truncates, or writes another format; correct it at the mark.",
    ),
    SET_ASIDE: Advice(
        "A batch so large when unpacked that it crashed the job, or that cannot be unpacked.",
        "Find who sent it: no agent of yours packs so much. It stays in the log, and nobody reads "
        "it; what else was in the same batch its sender must send again.",
    ),
    SCHEMA_MISMATCH: Advice(
        "The value does not fit the schema of a pipeline that reads this topic.",
        "The pipeline goes on without it: let the producer send it again as docs/pipelines.md or "
        "the pipeline's own page describes it, then discard this letter.",
    ),
    "too-large": Advice(
        "The record, or its nesting, is larger than the job takes.",
        "Let the producer send less detail; what was cut off here must be sent again by it.",
    ),
    "unknown-type": Advice(
        "The value is not an object, or its type is unknown to the job.",
        "Set type to report or leave, or to a command's: set, vote, release, purge.",
    ),
    "bad-field": Advice(
        "A field has the wrong kind of value.",
        "Of a report, state must be a text: correct it here and redrive.",
    ),
    "bad-asset": Advice(
        "The key, which names the asset, is missing or cannot name one.",
        "Give the record a key of 1-255 characters without control characters.",
    ),
    "bad-agent": Advice(
        "The agent is missing, or its name cannot name an agent.",
        "Give it 1-255 characters; names that begin with user: are reserved for operators' votes.",
    ),
    "bad-time": Advice(
        "A time is not valid, or the end of a mute is past.",
        "Let the producer send Unix milliseconds; correct the time here, or leave it out, and "
        "redrive.",
    ),
    "bad-scenario": Advice(
        "A scenario record without a scenario, or with another one's.",
        "Only the job writes scenario records: find out who else did, and discard it.",
    ),
    "bad-command": Advice(
        "The command's id is not a UUID, so it could not be answered.",
        "Let its producer give each command a UUID; give it one here and redrive.",
    ),
    "unknown-state": Advice(
        "The scenario has no such state.",
        "Correct the state, or add it to the scenario and redrive all letters that name it.",
    ),
    "wrong-partition": Advice(
        "The record lies on another partition than its key belongs to. It was not forwarded: it is "
        "a command, too large, or had been forwarded already.",
        "Let the producer use the partitioner murmur2_random; redriven, it goes to the right one.",
    ),
    "too-many-agents": Advice(
        f"{MAX_VOTERS} other agents vote on this asset, and none of their votes gives way.",
        "Find out why so many agents report; redrive once votes are forgotten or it is purged.",
    ),
    "too-many-mutes": Advice(
        f"{MAX_MUTED} other agents of this scenario are muted already.",
        "Unmute agents that need no longer be muted, then mute this one.",
    ),
    "unsigned": Advice(
        "The command has no signature, and its scenario demands one.",
        "Find out who writes to Kafka directly; give a real command again, on the board.",
    ),
    "bad-signature": Advice(
        "Its signature does not match its bytes, key and topic.",
        "Somebody changed, moved or forged a command: find out who writes to Kafka.",
    ),
    "unknown-key": Advice(
        "It is signed with a key that did not exist at that time.",
        "Check that every process reads the same keys; else the command is forged.",
    ),
    "expired-key": Advice(
        "It is signed with a key that was retired before it came.",
        "Check that every process reads the same keys; else somebody uses the old key.",
    ),
    "untimely-signature": Advice(
        "It came more than five minutes before or after the time at which it was signed.",
        "Somebody sent an old command again, or a broker's clock has jumped: set it.",
    ),
}
"""For every reason in the closed list: its meaning and what to do, a sentence each."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A record of a source topic as it arrived. time: when it was appended, Unix ms."""

    key: bytes | None
    value: bytes | None
    partition: int
    time: int


@dataclass(frozen=True, slots=True)
class RecordFault:
    """What is wrong, in words, and where, if it is at one place in the key or value."""

    text: str
    where: Where = ""
    span: Span | None = None
    field: str = ""

    def located_text(self, sample: Sample) -> str:
        """Return the text, followed by the place."""
        if self.span is None:
            return self.text
        data = sample.key if self.where == "key" else sample.value
        return f"{self.text} ({self.where}, {point(data or b'', self.span[0])})"


def fault_of(reason: str, sample: Sample, scenario: Scenario | None) -> RecordFault:
    """Return why a record was refused, for one of LETTER_REASONS, and where that shows.

    scenario: its topic's, or None if no such scenario is known here.
    """
    if reason == "too-large" and len(sample.value or b"") >= MAX_DEAD_VALUE:
        return RecordFault(f"the value is over {MAX_DEAD_VALUE:,} bytes; only these were kept")
    if reason == SCHEMA_MISMATCH:
        return _mismatch(sample)
    record, fields = read(sample, scenario), fields_of(sample.value)
    refusal = record.fault if isinstance(record, Misrouted) else refusal_of(record)
    if refusal is not None and refusal.reason == reason:
        fault: RecordFault | None = _unreadable(refusal, sample, fields)
    else:
        fault = _refused_by_fold(reason, record, sample, fields, scenario)
        fault = fault or _refused_formerly(reason, record, sample, fields, scenario)
    return fault or RecordFault(ADVICE[reason].means if reason in ADVICE else reason)


def _mismatch(sample: Sample) -> RecordFault:
    """Return why a value fits no schema, with the byte where it stops being JSON."""
    whole = len(sample.value or b"") < MAX_DEAD_VALUE
    refusal = refusal_of(decode_source(b"-", sample.value, sample.time)) if whole else None
    if refusal is not None and refusal.reason in ("not-utf8", "not-json"):
        return _unreadable(refusal, sample, {})
    return RecordFault(ADVICE[SCHEMA_MISMATCH].means)


def read(sample: Sample, scenario: Scenario | None) -> Record:
    """Return a record as the job reads it. scenario: its topic's, or None if unknown here."""
    if scenario is None:
        return decode_source(sample.key, sample.value, sample.time)
    place = (sample.partition, scenario.partitions)
    return decode_placed(sample.key, sample.value, sample.time, *place)


def _unreadable(record: Unreadable, sample: Sample, fields: Fields) -> RecordFault:
    """Return the decoder's message, with the bytes it refers to."""
    text = f"expected {record.expected}, got {record.given}"
    if record.path == KEY:
        span = _marked(sample.key or b"", record) or (0, len(sample.key or b""))
        return RecordFault(f"key: {text}", "key", span)
    if not record.path:
        return RecordFault(text, "value", _marked(sample.value or b"", record))
    name = re.split(r"[.\[]", record.path)[0]
    if name not in fields:
        return RecordFault(f"{name} is missing; expected {record.expected}", field=name)
    return _at(fields, name, f"{record.path}: {text}{_ahead(fields[name].value, record, sample)}")


def _marked(data: bytes, record: Unreadable) -> Span | None:
    """Return the span of the bytes where the decoder stopped."""
    if record.byte is None:
        return None
    given = record.given.encode()
    size = len(given) if data.startswith(given, record.byte) else 1
    return record.byte, min(record.byte + size, max(len(data), record.byte))


def _ahead(value: Any, record: Unreadable, sample: Sample) -> str:
    if record.path != "reported_at" or not isinstance(value, int) or value <= sample.time:
        return ""
    return f", {_length(value - sample.time)} ahead"


def _refused_by_fold(
    reason: str, record: Record, sample: Sample, fields: Fields, scenario: Scenario | None
) -> RecordFault | None:
    """Return why a readable record was refused."""
    match reason, record:
        case "unknown-state", Report(state=state) if scenario and scenario.knows(state):
            return _at(fields, "state", f"state: {state!r} was unknown then; by now it is known")
        case "unknown-state", Report(state=state):
            known = ", ".join(spec.name for spec in scenario.states) if scenario else "another"
            return _at(fields, "state", f"state: expected {known}, got {state!r}")
        case "bad-time", Mute(until=int(until)) if until <= sample.time:
            ago = _length(sample.time - until)
            return _at(fields, "until", f"until: {ago} before the record: it has passed")
        case "bad-scenario", ScenarioChange(scenario=other) if scenario:
            text = f"the scenario {other.name}, in the topic of {scenario.name}"
            return _at(fields, "scenario", text)
    return None


def _refused_formerly(
    reason: str, record: Record, sample: Sample, fields: Fields, scenario: Scenario | None
) -> RecordFault | None:
    """Return why an earlier version of the fold refused a record for a reason that has gone.

    This version would take it, or would take it but for another fault.
    """
    match reason, record:
        case "bad-time", Report(ahead=ahead) | Leave(ahead=ahead) if ahead > MAX_AHEAD:
            most = f"at most {MAX_AHEAD // MINUTE_MS} minutes ahead of the broker's clock"
            text = f"reported_at: expected {most}, got {_length(ahead)} ahead"
            return _at(fields, "reported_at", text + _by_now(record, scenario))
        case _, Report(sunk=sunk) | RefusedReport(sunk=sunk) if reason == sunk:
            if (refusal := whole_refusal(sample.value or b"")) is not None:
                fault = _unreadable(refusal, sample, fields)
                return replace(fault, text=fault.text + _by_now(record, scenario))
        case _, Report() | RefusedReport() if reason == record.detail_fault:
            if (refusal := detail_refusal(record, fields)) is not None:
                fault = _unreadable(refusal, sample, fields)
                return replace(fault, text=fault.text + _by_now(record, scenario))
    return None


def _by_now(record: Record, scenario: Scenario | None) -> str:
    """Return how a record that was refused is treated now, as the end of a sentence."""
    if scenario is None or not scenario.lenient or isinstance(record, RefusedReport):
        return ""
    if isinstance(record, Report) and record.sunk is not None and not scenario.piecewise:
        return ""
    if isinstance(record, Report) and record.detail_fault is not None:
        return "; by now such a report is taken without its detail"
    in_doubt = isinstance(record, Report) and scenario.doubting and record.sunk is None
    return f"; by now it is taken{', in doubt' if in_doubt else ''}"


def detail_refusal(report: Report | RefusedReport, fields: Fields) -> Unreadable | None:
    """Return what is wrong with a report's detail, or None if the detail is kept."""
    if report.detail_fault is None or "detail" not in fields:
        return None
    value, (begin, end) = fields["detail"]
    if report.detail_fault == "too-large":
        return too_long("detail", end - begin, MAX_DETAIL)
    return bad_field(report.detail_fault, {"detail": value}, "detail", "an object")


def doubt_of(sample: Sample, rule: Scenario) -> str:
    """Return what a refused record means for its agent, in words, or "".

    rule: the rule in force where the record is.
    """
    record = read(sample, rule)
    if not rule.doubting or not isinstance(record, Report | RefusedReport):
        return ""
    if isinstance(record, Report) and rule.knows(record.state):
        return ""
    return (
        f"From then on its agent {isolated(record.agent)} is in doubt on {isolated(record.asset)} "
        f"for {exact_span(rule.lifetime or 0)}, if the board had that asset: what it says there "
        "may raise a state, and gives no all-clear."
    )


def _at(fields: Fields, name: str, text: str) -> RecordFault:
    return RecordFault(text, "value", fields[name].span if name in fields else None, name)


def _length(ms: int) -> str:
    return duration(ms) if ms < 1000 * 366 * DAY_MS else "over a thousand years"


# ---- the fields of a value, and where they stand -------------------------------------------------


class Field(NamedTuple):
    """A field of an object: its value, and the span of that value in bytes."""

    value: Any
    span: Span


Fields = Mapping[str, Field]


def fields_of(value: bytes | None) -> dict[str, Field]:
    """Return the fields of the object in a value, as far as it can be read.

    If a name is repeated, the last one counts.
    """
    if value is None or bad_bytes(value) or _brackets(value) > MAX_BRACKETS:
        return {}
    text = value.decode()
    try:
        return _fields(text, len(text) == len(value))
    except (ValueError, RecursionError, IndexError, StopIteration):
        return {}


def _fields(text: str, ascii_only: bool) -> dict[str, Field]:
    """Return an object's fields. Raises the decoder's errors, and IndexError if it is cut off."""

    def byte(at: int) -> int:
        return at if ascii_only else len(text[:at].encode())

    fields: dict[str, Field] = {}
    at = _skip(text, 0)
    if text[at] != "{":
        return {}
    at = _skip(text, at + 1)
    while text[at] != "}":
        if text[at] != '"':
            return fields
        name, at = _DECODER.raw_decode(text, at)
        begin = _skip(text, _skip(text, at) + 1)  # past the colon
        try:
            value, at = _DECODER.raw_decode(text, begin)
        except ValueError:
            return fields  # what precedes could be read
        fields[name] = Field(value, (byte(begin), byte(at)))
        at = _skip(text, at)
        if text[at] == ",":
            at = _skip(text, at + 1)
    return fields


_DECODER = JSONDecoder()
_SPACE = re.compile(r"[ \t\r\n]*")


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _brackets(value: bytes) -> int:
    return value.count(b"[") + value.count(b"{")
