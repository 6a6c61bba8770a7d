"""Store dead letters and forged commands from their topic, for the materialiser."""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from django.db.models import F

from bus.base import ConsumerRecord, Headers
from dashboard.core.audit.log import Actor, record
from dashboard.core.audit.models import AuditEntry
from dashboard.core.common.times import MINUTE_MS, now_ms
from dashboard.core.states.ingestion import BatchChanges, UnreadableSinkRecord
from dashboard.core.states.models import EventCount
from dashboard.operate.dead_letters.diagnosis import ADVICE, fields_of
from dashboard.operate.dead_letters.models import DeadLetter, delete_surplus
from dashboard.watch.agents.reports import Refusal, ingest_refusals
from dashboard.watch.commands.models import Command
from domain.names import MAX_NAME
from domain.records import (
    COMMAND_KINDS,
    DEAD_LETTER_REASONS,
    LETTER_REASONS,
    Leave,
    Record,
    RefusedReport,
    Report,
    Unreadable,
)
from wire.salvage import members, plain
from wire.signature import FAULTS
from wire.sink import MAX_DEAD_VALUE, DeadRecord, decode_dead_letter
from wire.source import MAX_BRACKETS, MAX_TIME, decode_source
from wire.topics import Topics

# ---- forgeries -----------------------------------------------------------------------------------
# Commands refused for their signature: counted, audited and answered.
#
# This runs in the materialiser's transaction, once for each record.

ACTION = "command.refused"
MOST_A_MINUTE = 20
"""Most audit entries a minute for refused commands, so that a flood cannot fill the audit."""
CLAIMED = ("type", "action", "user", "id", "state", "agent", "reason")
"""Fields of a refused command that its audit entry repeats; they are only claims."""


def ingest_forgeries(fresh: Sequence[DeadLetter]) -> None:
    """Process the refused commands among letters that are new."""
    refused = [letter for letter in fresh if letter.reason in FAULTS]
    if not refused:
        return
    _count(refused)
    _audit(refused)
    for letter in refused:
        settle(letter)


class RefusalCount(NamedTuple):
    """How many records of a topic have ever been refused for one reason."""

    topic: str
    reason: str
    n: int


def refused() -> list[RefusalCount]:
    """Return how many records were refused, by topic and reason, largest count first."""
    rows = EventCount.objects.filter(name__in=FAULTS).order_by("-n", "name")
    return [
        RefusalCount(topic, reason, n)
        for topic, reason, n in rows.values_list("topic", "name", "n")
    ]


def _count(refused: Sequence[DeadLetter]) -> None:
    for (reason, topic), n in Counter((each.reason, each.topic) for each in refused).items():
        EventCount.objects.get_or_create(name=reason, topic=topic, defaults={"n": 0})
        EventCount.objects.filter(name=reason, topic=topic).update(n=F("n") + n)


def _audit(refused: Sequence[DeadLetter]) -> None:
    """Write an audit entry for each letter while there is room, then one for all the others."""
    minute_ago = now_ms() - MINUTE_MS
    room = MOST_A_MINUTE - AuditEntry.objects.filter(action=ACTION, at__gt=minute_ago).count()
    one_by_one = refused if len(refused) <= room else refused[: max(0, room - 1)]
    for letter in one_by_one:
        _log_forgery(letter)
    others = refused[len(one_by_one) :]
    if others and room > 0:
        record(
            Actor.system("job"),
            ACTION,
            target=f"{len(others)} more records",
            outcome="refused",
            reasons=dict(Counter(each.reason for each in others)),
            first=others[0].place,
            last=others[-1].place,
        )


def _log_forgery(letter: DeadLetter) -> None:
    fields = fields_of(letter.record_value)
    claims = {name: fields[name].value for name in CLAIMED if name in fields}
    record(
        Actor.system("job"),
        ACTION,
        scenario=letter.scenario,
        target=letter.asset,
        outcome=letter.reason,
        place=letter.place,
        appended_at=letter.appended_at,
        claims=claims,
        means=ADVICE[letter.reason].means,
    )


def settle(letter: DeadLetter) -> None:
    """Mark the board's own command as refused if this letter is about it."""
    rows = Command.objects.filter(
        scenario=letter.scenario, partition=letter.partition, offset=letter.offset
    )
    rows.unanswered().update(
        status="answered",
        outcome=f"refused: {letter.reason}",
        answered_at=now_ms(),
    )


def settle_sent(row: Command) -> None:
    """Mark a command as refused if its letter arrived before its place was known."""
    at_all = DeadLetter.objects.filter(scenario=row.scenario, reason__in=FAULTS)
    if row.partition is None or row.offset is None:
        return
    for letter in at_all.filter(partition=row.partition, offset=row.offset)[:1]:
        settle(letter)


# ---- dead letters --------------------------------------------------------------------------------
# Dead letters from their topic, for the materialiser: each refused record once.
#
# Spark's sink is at-least-once: after a replay the job reports the same record again. The first
# report is kept and later ones are counted. A report that was already counted, because the
# materialiser reads its topic again, is not counted twice.

# How many bytes of a key are kept; the job takes no longer key.
MAX_KEY = 4_096
# How many bytes of all headers are kept, names and values.
MAX_HEADERS = 8_192
MAX_NUMBER = 2**63 - 1
COMMANDING = (*COMMAND_KINDS, "tick", "scenario", "mute", "unmute")
"""Types of records that no agent writes."""
# Letters queried or written in one statement.
CHUNK = 500

# Topic, partition, offset and append time of a refused record: a topic that was created again has
# the same places.
RecordKey = tuple[str, int, int, int]

_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}\Z")


class UnreadableLetter(UnreadableSinkRecord):
    """A record of the dead letters' topic that is not a dead letter."""


def read_letter(message: ConsumerRecord, topics: Topics) -> DeadLetter:
    """Return a message of the dead letters' topic as an unsaved row. Raises UnreadableLetter."""
    try:
        dead = decode_dead_letter(message.key, message.value, message.headers)
        _check(dead)
    except (KeyError, ValueError) as error:
        raise UnreadableLetter(f"not a dead letter: {error}") from None
    headers, all_headers = _headers(dead.headers)
    key, value = dead.key, None if dead.value is None else dead.value[:MAX_DEAD_VALUE]
    cut = len(key or b"") > MAX_KEY or len(value or b"") >= MAX_DEAD_VALUE
    return DeadLetter(
        reason=dead.reason,
        scenario=(topics.scenario_of(dead.topic) or "")[:40],
        topic=dead.topic,
        partition=dead.partition,
        offset=dead.offset,
        appended_at=dead.timestamp,
        key=None if key is None else key[:MAX_KEY],
        value=value,
        headers=headers,
        size=len(value or b""),
        whole=all_headers and not cut,
        asset=_legible(key or b""),
        agent=claimed_agent(value or b""),
        dead_partition=message.partition,
        dead_offset=message.offset,
        noted_at=message.timestamp,
        last_dead_offset=message.offset,
    )


def ingest_changes(changes: BatchChanges) -> None:
    """Write the letters of a batch."""
    ingest_letters(changes.batch.letters)


def ingest_letters(letters: Iterable[DeadLetter]) -> None:
    """Write letters in the order of their topic, in the materialiser's transaction."""
    batch = list(letters)
    first = {_record_of(letter): letter for letter in reversed(batch)}
    if not first:
        return
    known = _known(first)
    fresh = [letter for place, letter in first.items() if place not in known]
    fresh.sort(key=lambda letter: (letter.dead_partition, letter.dead_offset))
    DeadLetter.objects.bulk_create(fresh, batch_size=CHUNK, ignore_conflicts=True)
    ingest_forgeries(fresh)
    ingest_refusals(_refusals(fresh))
    for letter in batch:
        if _record_of(letter) in known or first[_record_of(letter)] is not letter:
            _reported_again(letter)
    delete_surplus()


def _refusals(fresh: Iterable[DeadLetter]) -> Iterator[Refusal]:
    """Yield the records of agents among letters that are new."""
    for letter in fresh:
        if letter.reason in DEAD_LETTER_REASONS and letter.scenario:
            record = decode_source(letter.record_key, letter.record_value, letter.appended_at)
            if is_of_agent(letter.record_key, letter.record_value or b""):
                told = letter.scenario, letter.agent, letter.reason, letter.appended_at
                yield Refusal(*told, counted=_is_counted(letter, record))


def is_of_agent(key: bytes | None, value: bytes) -> bool:
    """Return whether an agent may have written a record: nobody else writes what is unreadable."""
    record = decode_source(key, value, 0)
    if isinstance(record, Unreadable):
        kind = fields_of(value).get("type")
        return kind is None or kind.value not in COMMANDING
    return isinstance(record, Report | RefusedReport | Leave)


def _is_counted(letter: DeadLetter, record: Record) -> bool:
    """Return whether the fold counts a record as a refused report of its agent."""
    if letter.reason == "wrong-partition":
        return False
    taken = isinstance(record, Report) and letter.reason == "unknown-state"
    return taken or isinstance(record, RefusedReport)


def _reported_again(letter: DeadLetter) -> None:
    """Count one more report of the record, unless this report was already counted."""
    topic, partition, offset, appended_at = _record_of(letter)
    rows = DeadLetter.objects.of_record(topic, partition, offset).filter(appended_at=appended_at)
    rows.filter(last_dead_offset__lt=letter.dead_offset).update(
        repeats=F("repeats") + 1, last_dead_offset=letter.dead_offset
    )


def _known(letters: Mapping[RecordKey, Any]) -> set[RecordKey]:
    """Return the records that already have a letter."""
    offsets: dict[tuple[str, int], list[int]] = {}
    for topic, partition, offset, _ in letters:
        offsets.setdefault((topic, partition), []).append(offset)
    known = set[RecordKey]()
    for (topic, partition), own in offsets.items():
        for at in range(0, len(own), CHUNK):
            rows = DeadLetter.objects.filter(
                topic=topic, partition=partition, offset__in=own[at : at + CHUNK]
            )
            known.update(rows.values_list("topic", "partition", "offset", "appended_at"))
    return known


def _record_of(letter: DeadLetter) -> RecordKey:
    return (letter.topic, letter.partition, letter.offset, letter.appended_at)


def _check(dead: DeadRecord) -> None:
    """Raise ValueError for values that the job would not write or that no column can hold."""
    if dead.reason not in LETTER_REASONS:
        raise ValueError(f"reason: expected one of the closed list, got {dead.reason[:40]!r}")
    if not _TOPIC.match(dead.topic):
        raise ValueError(f"source-topic: expected a topic's name, got {dead.topic[:80]!r}")
    if not 0 <= dead.partition < 2**31 or not 0 <= dead.offset <= MAX_NUMBER:
        raise ValueError("source-partition, source-offset: expected a place in a log")
    if not 0 <= dead.timestamp <= MAX_TIME:
        raise ValueError("source-timestamp: expected Unix ms")


def _headers(headers: Headers) -> tuple[str, bool]:
    """Return the headers as JSON, as many as fit, values in base64; and whether all fitted."""
    kept: list[tuple[str, bytes]] = []
    room = MAX_HEADERS
    for name, value in headers:
        room -= len(name) + len(value or b"")
        if room < 0:
            return msgspec.json.encode(kept).decode(), False
        kept.append((name.encode(errors="replace").decode(), value or b""))
    return msgspec.json.encode(kept).decode(), True


def claimed_agent(value: bytes) -> str:
    """Return the agent that the value names, or "" if that cannot be read.

    Also where an adopter's program wraps a report: in a list, in a text, behind a byte order mark.
    """
    if value.count(b"[") + value.count(b"{") > MAX_BRACKETS:
        return ""
    try:
        data = msgspec.json.decode(value.removeprefix(codecs.BOM_UTF8))
        data = msgspec.json.decode(data) if isinstance(data, str) else data
    except (msgspec.DecodeError, UnicodeDecodeError):
        data = {"agent": plain(members(value).spans.get("agent"))}
    data = data[0] if isinstance(data, list) and data else data
    agent = data.get("agent") if isinstance(data, dict) else None
    return _legible(agent.encode(errors="replace")) if isinstance(agent, str) else ""


def _legible(name: bytes) -> str:
    """Return the beginning of a name as a column can hold it, with non-text bytes marked."""
    return name[: 4 * MAX_NAME].decode(errors="replace").replace("\0", "\ufffd")[:MAX_NAME]
