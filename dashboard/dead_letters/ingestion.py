"""Dead letters out of their topic, for the materialiser: each refused record once.

Spark's sink is at-least-once: after a replay the job reports the same record again. The first
report is kept, later ones are counted; one that was counted already, because the materialiser
reads its topic again, is not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from django.db.models import F

from bus.base import Headers, Message
from dashboard.dead_letters import forgeries
from dashboard.dead_letters.models import DeadLetter
from dashboard.dead_letters.retention import delete_surplus
from domain.names import MAX_NAME
from domain.records import LETTER_REASONS
from wire.sink import MAX_DEAD_VALUE, DeadRecord, decode_dead_letter
from wire.source import MAX_BRACKETS, MAX_TIME
from wire.topics import Topics

# How much of a key is kept, bytes: no key that the job takes is longer.
MAX_KEY = 4_096
# How much of all headers is kept, bytes of names and values.
MAX_HEADERS = 8_192
MAX_NUMBER = 2**63 - 1
# Letters asked for, or written, in one statement.
CHUNK = 500

_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}\Z")


class UnreadableLetter(ValueError):
    """A record of the dead letters' topic that is none."""


def read_letter(message: Message, topics: Topics) -> DeadLetter:
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
        agent=_agent(value or b""),
        dead_partition=message.partition,
        dead_offset=message.offset,
        noted_at=message.timestamp,
        told_offset=message.offset,
    )


def take_in(letters: Iterable[DeadLetter]) -> None:
    """Write letters, in the order of their topic; within the materialiser's transaction."""
    told = list(letters)
    first = {_place(letter): letter for letter in reversed(told)}
    if not first:
        return
    known = _known(first)
    fresh = [letter for place, letter in first.items() if place not in known]
    fresh.sort(key=lambda letter: (letter.dead_partition, letter.dead_offset))
    DeadLetter.objects.bulk_create(fresh, batch_size=CHUNK, ignore_conflicts=True)
    forgeries.take_in(fresh)
    for letter in told:
        if _place(letter) in known or first[_place(letter)] is not letter:
            _told_again(letter)
    delete_surplus()


def _told_again(letter: DeadLetter) -> None:
    """Count one more report of the record, unless this very one was counted before."""
    rows = DeadLetter.objects.filter(
        topic=letter.topic, partition=letter.partition, offset=letter.offset
    )
    rows.filter(told_offset__lt=letter.dead_offset).update(
        repeats=F("repeats") + 1, told_offset=letter.dead_offset
    )


def _known(letters: Mapping[tuple[str, int, int], Any]) -> set[tuple[str, int, int]]:
    """Return which of these records have a letter already."""
    offsets: dict[tuple[str, int], list[int]] = {}
    for topic, partition, offset in letters:
        offsets.setdefault((topic, partition), []).append(offset)
    known = set()
    for (topic, partition), wanted in offsets.items():
        for at in range(0, len(wanted), CHUNK):
            rows = DeadLetter.objects.filter(
                topic=topic, partition=partition, offset__in=wanted[at : at + CHUNK]
            )
            known |= {
                (topic, partition, offset) for offset in rows.values_list("offset", flat=True)
            }
    return known


def _place(letter: DeadLetter) -> tuple[str, int, int]:
    return (letter.topic, letter.partition, letter.offset)


def _check(dead: DeadRecord) -> None:
    """Raise ValueError for what the job would not write, and no column takes."""
    if dead.reason not in LETTER_REASONS:
        raise ValueError(f"reason: expected one of the closed list, got {dead.reason[:40]!r}")
    if not _TOPIC.match(dead.topic):
        raise ValueError(f"source-topic: expected a topic's name, got {dead.topic[:80]!r}")
    if not 0 <= dead.partition < 2**31 or not 0 <= dead.offset <= MAX_NUMBER:
        raise ValueError("source-partition, source-offset: expected a place in a log")
    if not 0 <= dead.timestamp <= MAX_TIME:
        raise ValueError("source-timestamp: expected Unix ms")


def _headers(headers: Headers) -> tuple[str, bool]:
    """Return headers as JSON, values in base64, as many as are kept; and whether these are all."""
    kept: list[tuple[str, bytes]] = []
    room = MAX_HEADERS
    for name, value in headers:
        room -= len(name) + len(value or b"")
        if room < 0:
            return msgspec.json.encode(kept).decode(), False
        kept.append((name.encode(errors="replace").decode(), value or b""))
    return msgspec.json.encode(kept).decode(), True


def _agent(value: bytes) -> str:
    """Return the agent that the value names, as far as it can be read; else empty."""
    if value.count(b"[") + value.count(b"{") > MAX_BRACKETS:
        return ""
    try:
        data = msgspec.json.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""
    agent = data.get("agent") if isinstance(data, dict) else None
    return _legible(agent.encode(errors="replace")) if isinstance(agent, str) else ""


def _legible(name: bytes) -> str:
    """Return the beginning of a name as a column takes it; what is no text is marked."""
    return name[: 4 * MAX_NAME].decode(errors="replace").replace("\0", "\ufffd")[:MAX_NAME]
