"""One record of a source topic, fetched from Kafka, and the page that shows it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, fields
from threading import BoundedSemaphore
from typing import Any, Literal, cast, get_args

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from bus.base import Bus, BusError, ConsumerRecord, Reader, TopicPartition, no_answer
from dashboard.core.common import kafka
from dashboard.core.common.access import (
    Limit,
    Role,
    TooMany,
    is_fragment,
    role_of,
    role_required,
    takes,
    user_of,
)
from dashboard.core.common.exports import TIMES
from dashboard.core.common.kafka import gateway
from dashboard.core.common.metrics import LOG_RECORDS
from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.times import SECOND_MS, duration, iso, now_ms
from dashboard.core.rules.models import in_force
from dashboard.core.states.board_rows import asset_path
from dashboard.operate.dead_letters.models import DeadLetter
from domain.names import MAX_NAME
from domain.records import (
    MAX_AHEAD,
    STILL_AHEAD,
    Leave,
    Misrouted,
    Record,
    Refusal,
    RefusedReport,
    Report,
    ScenarioChange,
    Unreadable,
    Unsigned,
)
from domain.scenario import Scenario
from wire.forward import forwarded_from
from wire.keys import KeysProblem
from wire.source import MAX_DETAIL, MAX_PART, decode_placed

# ---- log records ---------------------------------------------------------------------------------
# One record of a source topic, fetched from Kafka for somebody to look at.

# How long a page waits for Kafka.
TIMEOUT_S = 5.0
# Most records that one process fetches at the same time: each takes a connection.
AT_ONCE = 4
# How much of a value is shown, characters: all of a record that the job would read.
MAX_SHOWN = 65_536
# How much of a value that is no text is shown, bytes.
MAX_HEX = 4_096

# Most records that are looked at for one with a key.
LOOKED_AT = 20_000
# So many of them are read at a time.
STRETCH = 2_000

Reason = Literal[
    "no-partition", "not-yet", "gone", "no-record", "no-answer", "busy", "too-many", "refused"
]

# Every reason for which no record is shown, and the page's status.
STATUSES: dict[Reason, int] = {
    "no-partition": 404,
    "not-yet": 404,
    "gone": 410,
    "no-record": 404,
    "no-answer": 503,
    "busy": 503,
    "too-many": 429,
    "refused": 403,
}

_room = BoundedSemaphore(AT_ONCE)


class NotShown(Exception):
    """There is no record to show. reason: one of STATUSES; the message explains it."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def fetch(
    bus: Bus, topic: str, partition: int, offset: int, timeout_s: float = TIMEOUT_S
) -> ConsumerRecord:
    """Return the record at this place, within about `timeout_s` (s). Raises NotShown."""
    end = time.monotonic() + timeout_s
    with _one_of_few():
        _check_held(_edges(bus, topic, partition, timeout_s), offset)
        return _read(bus, topic, partition, offset, end)


@contextmanager
def _one_of_few() -> Iterator[None]:
    """Raise NotShown where too many fetch records already, or Kafka does not answer."""
    if not _room.acquire(blocking=False):
        raise NotShown("busy", f"{AT_ONCE} records are being fetched already. Try again.")
    try:
        yield
    except BusError as error:
        raise NotShown("no-answer", f"{no_answer(error)}. Try again.") from error
    finally:
        _room.release()


def _edges(bus: Bus, topic: str, partition: int, timeout_s: float) -> tuple[int, int]:
    """Return the first offset of the log and the next one. Raises NotShown and BusError."""
    edges = bus.offsets([topic], timeout_s).get((topic, partition))
    if edges is None:
        raise NotShown("no-partition", f"The topic {topic} has no partition {partition}.")
    return edges


def _check_held(edges: tuple[int, int], offset: int) -> None:
    """Raise NotShown unless the log reaches over this offset."""
    begin, end = edges
    if offset < begin:
        message = f"The log no longer holds offset {offset}: it now begins at {begin}."
        raise NotShown("gone", f"{message} Kafka deletes it by age.")
    if offset >= end:
        raise NotShown("not-yet", f"The log has not reached offset {offset} yet: {end} is next.")


def _read(bus: Bus, topic: str, partition: int, offset: int, end: float) -> ConsumerRecord:
    with closing(bus.reader({(topic, partition): offset})) as reader:
        while not (records := reader.poll(max(0.0, min(0.5, end - time.monotonic())), 1)):
            if reader.gaps or reader.positions()[topic, partition] > offset:
                break
            if time.monotonic() >= end:
                raise NotShown("no-answer", "Kafka did not send the record in time. Try again.")
    if not records or records[0].offset != offset:
        raise NotShown("no-record", f"There is no record at offset {offset} of the log.")
    return records[0]


Way = Literal["next", "previous"]


def seek(
    bus: Bus,
    topic: str,
    partition: int,
    offset: int,
    key: bytes,
    way: Way,
    timeout_s: float = TIMEOUT_S,
) -> int:
    """Return the offset of the next or the previous record with this key, not counting this one.

    Examines at most LOOKED_AT records. Raises NotShown.
    """
    end = time.monotonic() + timeout_s
    with _one_of_few():
        place, edges = (topic, partition), _edges(bus, topic, partition, timeout_s)
        with closing(bus.reader({place: edges[0]})) as reader:
            match_offset = _seek(reader, place, _stretches(edges, offset, way), key, end)
    if match_offset is None:
        where = "after" if way == "next" else "before"
        raise NotShown(
            "no-record",
            f"None of the {LOOKED_AT:,} records {where} offset {offset} has this key, as far as "
            "the log reaches.",
        )
    return match_offset


def _stretches(edges: tuple[int, int], offset: int, way: Way) -> Iterator[tuple[int, int, bool]]:
    """Yield ranges of offsets to search, nearest first, and whether the last match counts."""
    begin, end = edges
    if way == "next":
        first = max(begin, offset + 1)
        for at in range(first, min(end, first + LOOKED_AT), STRETCH):
            yield at, min(at + STRETCH, end, first + LOOKED_AT), False
        return
    last = min(end, offset)
    for at in range(last, max(begin, last - LOOKED_AT), -STRETCH):
        yield max(begin, at - STRETCH, last - LOOKED_AT), at, True


def _seek(
    reader: Reader,
    place: TopicPartition,
    stretches: Iterator[tuple[int, int, bool]],
    key: bytes,
    end: float,
) -> int | None:
    for first, until, last_one in stretches:
        reader.assign({place: first})
        matches = [each for each in _between(reader, place, until, end) if each.key == key]
        if matches:
            return matches[-1 if last_one else 0].offset
    return None


def _between(
    reader: Reader, place: TopicPartition, until: int, end: float
) -> Iterator[ConsumerRecord]:
    """Yield the records from the reader's position up to `until`, not included. Raises NotShown."""
    while reader.positions()[place] < until:
        if time.monotonic() >= end:
            raise NotShown("no-answer", "Kafka did not send the records in time. Try again.")
        for message in reader.poll(max(0.0, min(0.5, end - time.monotonic())), STRETCH):
            if message.offset < until:
                yield message


@dataclass(frozen=True, slots=True)
class PageRecord:
    """A record for a page. kind: of record, in words; facts: what the job reads in it.

    raw: the value as it came, as text or as hexadecimal digits; size: of the value, bytes;
    refused: nothing of it can be applied, whatever came before.
    """

    message: ConsumerRecord
    kind: str
    asset: str
    facts: tuple[tuple[str, Any], ...]
    headers: tuple[tuple[str, str], ...]
    raw: str
    text: bool
    size: int
    cut: bool
    refused: bool


def _decoded(message: ConsumerRecord, partitions: int) -> Record:
    trust = kafka.trust(message.topic)
    try:
        place = message.partition, partitions
        return decode_placed(
            message.key, message.value, message.timestamp, *place, trust, message.headers
        )
    except KeysProblem as problem:
        raise NotShown("no-answer", f"Its signature cannot be checked: {problem}") from None


def show(message: ConsumerRecord, partitions: int, rule: Scenario | None = None) -> PageRecord:
    """Return the record decoded and raw. Raises NotShown.

    partitions: how many its topic has; rule: the one in force there, None where that is unknown.
    """
    record = _decoded(message, partitions)
    unsigned, misrouted = isinstance(record, Unsigned), isinstance(record, Misrouted)
    record = record.record if isinstance(record, Unsigned | Misrouted) else record
    value = message.value or b""
    raw, is_text = _raw(value)
    return PageRecord(
        message=message,
        kind=_MISROUTED if misrouted else _kind(record, rule),
        asset=getattr(record, "asset", ""),
        facts=(
            *_facts(record, rule),
            *((("signature", "none"),) if unsigned else ()),
            *_forwarded(message),
        ),
        headers=tuple((name, _raw(data)[0][:MAX_HEX]) for name, data in message.headers),
        raw=raw[:MAX_SHOWN],
        text=is_text,
        size=len(value),
        cut=len(raw) > MAX_SHOWN or (not is_text and len(value) > MAX_HEX),
        refused=isinstance(record, Refusal | RefusedReport | Unreadable)
        or (unsigned and _is_dead(message)),
    )


def _is_dead(message: ConsumerRecord) -> bool:
    """Return whether the job refused a record that other rules accept."""
    place = {"partition": message.partition, "offset": message.offset}
    return DeadLetter.objects.filter(topic=message.topic, **place).exists()


_KINDS = {
    "Report": "Report",
    "RefusedReport": "Report that could not be taken: it went to the dead letters",
    "Leave": "Leave: the agent withdraws its vote",
    "Command": "Command",
    "Tick": "Tick: time passes",
    "ScenarioChange": "Rule: it applies in this partition from here on",
    "UnknownFold": "Rule that a later release wrote: this one cannot go on from here",
    "Mute": "Mute: from here on the agent's votes do not count",
    "Unmute": "The agent's votes count again from here on",
    "Refusal": "Command that cannot be read",
    "Unreadable": "Unreadable: it went to the dead letters",
}


_MISROUTED = "Not on the partition of its asset, or without a key: the job forwards it there"


def _forwarded(message: ConsumerRecord) -> Iterator[tuple[str, str]]:
    """Yield where a forwarded record was first."""
    if first := forwarded_from(message.headers):
        yield "forwarded from", f"partition {first[0]}, offset {first[1]}"


DOUBTED = "and its agent is in doubt on the asset, where the board has it"


def _kind(record: Record, rule: Scenario | None) -> str:
    """Return what a record is, in words."""
    kind = _KINDS[type(record).__name__]
    if isinstance(record, Report) and rule is not None and not rule.knows(record.state):
        kind = f"{kind} of a state that the rule in force did not know"
    elif not isinstance(record, RefusedReport):
        return kind
    return f"{kind}, {DOUBTED}" if rule is not None and rule.doubting else kind


def _facts(record: Record, rule: Scenario | None) -> Iterator[tuple[str, Any]]:
    """Yield the name and value of each field that is there."""
    if isinstance(record, ScenarioChange):
        yield "scenario", record.scenario.name
        return
    for field in fields(record):
        value = getattr(record, field.name)
        if field.name in _IN_WORDS or value is None or value == "":
            continue
        yield field.name, iso(value) if field.name in TIMES else value
    yield from _facts_in_words(record, rule)


_IN_WORDS = ("ahead", "detail_fault", "unreadable")
"""Fields that are told in words, or whose parts are."""


def _facts_in_words(record: Record, rule: Scenario | None) -> Iterator[tuple[str, Any]]:
    if isinstance(record, RefusedReport) and record.unreadable is not None:
        refusal = record.unreadable
        yield "what is wrong", f"{refusal.path}: expected {refusal.expected}, got {refusal.given}"
    if isinstance(record, Report | Leave) and record.ahead >= SECOND_MS:
        yield "its clock", f"{duration(record.ahead)} ahead{_of_ahead(record, rule)}"
    if isinstance(record, Report | RefusedReport) and record.detail_fault is not None:
        became = "left out" if rule is None or rule.lenient else "refused"
        yield "detail", f"{became}: {_DETAIL_FAULTS[record.detail_fault]}"


_DETAIL_FAULTS = {
    "bad-field": "it is not an object",
    "too-large": f"it has over {MAX_DETAIL:,} bytes",
}


def _of_ahead(record: Report | Leave, rule: Scenario | None) -> str:
    """Return what becomes of a record whose time is ahead, as the end of a sentence."""
    if record.ahead <= STILL_AHEAD or rule is None:
        return ""
    if not rule.lenient:
        return ", which the rule in force refused" if record.ahead > MAX_AHEAD else ""
    if isinstance(record, Leave) or not rule.doubting:
        return ", so it counts from when it arrived" if record.ahead > MAX_AHEAD else ""
    if record.ahead > MAX_AHEAD:
        return ", so its vote is in doubt"
    return ", so its vote stays in doubt if it was so for its clock"


def _raw(value: bytes) -> tuple[str, bool]:
    try:
        return value.decode(), True
    except UnicodeDecodeError:
        return value[:MAX_HEX].hex(" "), False


# ---- record views --------------------------------------------------------------------------------
# The page, or htmx's part of it, that shows one record of the log.

FETCHES = Limit("fetches", 120)
WAYS = get_args(Way)


@require_safe
@never_cache
@role_required("read")
@takes("key", "seek")
def record(request: HttpRequest, scenario: str, partition: int, offset: int) -> HttpResponse:
    """Render the record at this place of the scenario's source topic, decoded and raw."""
    known = scenarios().get(scenario)
    if known is None or offset > MAX_PART:
        raise Http404
    key = request.GET.get("key", "")[:MAX_NAME]
    context: dict[str, Any] = {
        "key": key,
        "keyed": f"?{urlencode({'key': key})}" if key else "",
        "scenario": known,
        "tab": scenario,
        "topic": gateway().topics.reports(scenario),
        "partition": partition,
        "offset": offset,
        "now": now_ms(),
        "fragment": is_fragment(request),
    }
    status = 200
    try:
        if (way := request.GET.get("seek", "")) in WAYS:
            at = _sought(request, known, partition, offset, key, cast("Way", way))
            place = reverse("board:record", args=(scenario, partition, at))
            return redirect(f"{place}{context['keyed']}")
        page_record = _fetched(request, known, partition, offset)
        context |= {
            "shown": page_record,
            "asset_url": page_record.asset and asset_path(scenario, page_record.asset),
        }
        LOG_RECORDS.labels("shown").inc()
    except NotShown as refusal:
        context["refusal"], status = refusal, STATUSES[refusal.reason]
        LOG_RECORDS.labels(refusal.reason).inc()
    if is_fragment(request):  # htmx swaps only what succeeds
        return render(request, "board/_record.html", context)
    return render(request, "board/record.html", context, status=status)


def _sought(
    request: HttpRequest, scenario: Scenario, partition: int, offset: int, key: str, way: Way
) -> int:
    """Return the offset of the next or the previous record; with a key, of one that has it.

    Raises NotShown.
    """
    if not key:
        return max(0, offset + (1 if way == "next" else -1))
    _count_fetch(request)
    to = gateway()
    topic = to.topics.reports(scenario.name)
    return seek(to.bus, topic, partition, offset, key.encode(errors="replace"), way)


def _count_fetch(request: HttpRequest) -> None:
    """Count a look at Kafka. Raises NotShown."""
    try:
        FETCHES.take(user_of(request).pk, now_ms())
    except TooMany as error:
        raise NotShown("too-many", str(error)) from error


def _fetched(request: HttpRequest, scenario: Scenario, partition: int, offset: int) -> PageRecord:
    _count_fetch(request)
    to = gateway()
    message = fetch(to.bus, to.topics.reports(scenario.name), partition, offset)
    page_record = show(message, scenario.partitions, in_force(scenario, partition, offset))
    if role_of(request.user) is not Role.ADMIN and (page_record.refused or _is_letter(message)):
        raise NotShown("refused", "The job refused this record: only admins may see it.")
    return page_record


def _is_letter(message: ConsumerRecord) -> bool:
    """Return whether the job has reported that it refused the record."""
    at = {"topic": message.topic, "partition": message.partition, "offset": message.offset}
    return DeadLetter.objects.filter(**at).exists()
