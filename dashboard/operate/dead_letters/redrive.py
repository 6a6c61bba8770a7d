"""Redriving and discarding letters. A letter is never redriven twice.

An update whose row count shows whether the letter was still open claims it, and only the claimant
sends it. A letter that Kafka has not confirmed stays `sending`: it must be looked for in the log
before anybody may send it again.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import closing
from typing import Literal, NamedTuple

import structlog
from django.db import transaction
from django.http import HttpRequest

from bus.base import Bus, BusError, Delivered, Headers, Outgoing, no_answer
from dashboard.core.audit.log import Actor, record
from dashboard.core.common.kafka import REACH_S, Delivery, deliver_all, gateway
from dashboard.core.common.sql import chunks
from dashboard.core.common.times import Clock
from dashboard.operate.dead_letters.models import SENDING, DeadLetter

log = structlog.get_logger(__name__)

REDRIVE_OF = "redrive-of"
"""The header of a redriven record: topic/partition/offset of the refused one."""
BATCH = 100
"""Letters claimed and sent together."""
SETTLED_MS = 30_000
"""By this time a producer has either sent a record or given up, even if its process has died."""
LOOK_S = 8.0
LOOK_RECORDS = 500_000
"""How long, and through how many records, to search the log for a record."""

MAX_NAMED = 50
"""Most letters that an audit entry names; it also gives their number."""

Became = Literal["redriven", "taken", "unsent", "unknown"]


class Sending(NamedTuple):
    """A letter to redrive, with its key, value and partition."""

    letter: DeadLetter
    key: bytes | None
    value: bytes | None
    partition: int
    edited: bool = False


class RedriveOutcome(NamedTuple):
    """What became of one letter. became: redriven; taken: somebody had already dealt with it;
    unsent: it is still open; unknown: Kafka has not confirmed it. place: of the new record.
    """

    sending: Sending
    became: Became
    text: str = ""
    place: Delivered | None = None


def redrive(records: Sequence[Sending], user: str, clock: Clock) -> list[RedriveOutcome]:
    """Send each letter once, in the order of its log. Returns the outcome for each."""
    ordered = sorted(records, key=lambda each: _order(each.letter))
    try:
        ends = _ends(ordered)
    except BusError as error:  # nothing has been claimed, so there is nothing to undo
        text = no_answer(error)
        return [RedriveOutcome(each, "unsent", text) for each in ordered]
    outcomes = []
    for batch in chunks(ordered, BATCH):
        outcomes += _redrive_batch(batch, ends, user, clock)
    DeadLetter.objects.forget_count()
    sent = sum(outcome.became == "redriven" for outcome in outcomes)
    log.info("dead letters redriven", user=user, asked=len(outcomes), redriven=sent)
    return outcomes


def discard(ids: Iterable[int], user: str, why: str, now: int) -> int:
    """Discard the open letters among these. Returns how many."""
    done = DeadLetter.objects.filter(pk__in=list(ids)).discard(user, why, now)
    log.info("dead letters discarded", user=user, discarded=done)
    return done


def find_out(letter: DeadLetter, now: int) -> str:
    """Search the log for a letter being sent and settle its status. Returns the result in words."""
    if letter.status != SENDING or letter.status_at is None or letter.sent_from is None:
        return "The letter is not being sent: there is nothing to check."
    try:
        offset, whole = _look(gateway().bus, letter)
    except BusError as error:
        return f"{no_answer(error)}. Try again."
    if offset is not None:
        letter.mark_redriven(letter.new_partition or 0, offset)
        return f"It has arrived, at offset {offset}."
    if not whole:
        return "It was not found in the part of the log that could be read. Try again."
    if now - letter.status_at < SETTLED_MS:
        return "It is not in the log yet, but may still be on its way. Try again in half a minute."
    letter.reopen()
    return "It has not arrived: the letter is open again, and can be redriven."


# ---- sending ------------------------------------------------------------------------------------


def _order(letter: DeadLetter) -> tuple[str, int, int]:
    return letter.topic, letter.partition, letter.offset


def _ends(records: Iterable[Sending]) -> dict[tuple[str, int], int]:
    """Return the current end of each partition; new records come after it. Raises BusError."""
    bus = gateway().bus
    bus.wait(REACH_S)
    edges = bus.offsets({each.letter.topic for each in records})
    return {place: end for place, (_, end) in edges.items()}


def _redrive_batch(
    records: Sequence[Sending],
    ends: dict[tuple[str, int], int],
    user: str,
    clock: Clock,
) -> list[RedriveOutcome]:
    with transaction.atomic():
        claimed = [_claim(each, ends, user, clock()) for each in records]
    ours = (each for each, is_ours in zip(records, claimed, strict=True) if is_ours)
    deliveries = iter(deliver_all(map(_outgoing, ours)))
    with transaction.atomic():
        return [
            _record(each, Delivery.of(next(deliveries)))
            if is_ours
            else RedriveOutcome(each, "taken", TAKEN)
            for each, is_ours in zip(records, claimed, strict=True)
        ]


TAKEN = "Somebody has handled it already."
UNKNOWN = "No confirmation came in time: it may have arrived. Open it to find out."


def _claim(each: Sending, ends: dict[tuple[str, int], int], user: str, now: int) -> bool:
    letter = each.letter
    sent_from = ends.get((letter.topic, each.partition), 0)
    return letter.claim(user, now, each.partition, sent_from, edited=each.edited)


def _outgoing(each: Sending) -> Outgoing:
    headers = redrive_headers(each.letter)
    return Outgoing(each.letter.topic, each.key, each.value, headers, each.partition)


def redrive_headers(letter: DeadLetter) -> Headers:
    """Return a redriven record's headers: the original ones, and the place it was redriven from."""
    kept = [(name, value) for name, value in letter.record_headers if name != REDRIVE_OF]
    return (*kept, (REDRIVE_OF, letter.place.encode()))


def _record(each: Sending, delivery: Delivery) -> RedriveOutcome:
    """Store and return the outcome of a claimed letter."""
    if delivery.place is not None:
        each.letter.mark_redriven(delivery.place.partition, delivery.place.offset)
        return RedriveOutcome(each, "redriven", place=delivery.place)
    if delivery.status == "unsent":
        each.letter.reopen()
        return RedriveOutcome(each, "unsent", delivery.text)
    return RedriveOutcome(each, "unknown", UNKNOWN)


def _look(bus: Bus, letter: DeadLetter) -> tuple[int | None, bool]:
    """Return the offset of the letter's new record, or None; and whether all of the log was read.

    Raises BusError.
    """
    place = (letter.new_topic, letter.new_partition or 0)
    end = bus.offsets([place[0]], REACH_S)[place][1]
    at = letter.sent_from or 0
    origin, deadline = letter.place.encode(), time.monotonic() + LOOK_S
    with closing(bus.reader({place: at})) as reader:
        while reader.positions()[place] < end and time.monotonic() < deadline:
            for message in reader.poll(0.5, 10_000):
                if dict(message.headers).get(REDRIVE_OF) == origin and message.offset >= at:
                    return message.offset, True
            if reader.gaps or reader.positions()[place] - at > LOOK_RECORDS:
                return None, False
        return None, reader.positions()[place] >= end


# ---- the audit ----------------------------------------------------------------------------------


def log_redriven(request: HttpRequest, outcomes: Sequence[RedriveOutcome]) -> None:
    """Record in the audit which letters were to be redriven, and what became of them."""
    letters = [outcome.sending.letter for outcome in outcomes]
    record(
        Actor.of(request),
        "letter.redriven",
        scenario=_scenario(letters),
        target=_target([letter.pk for letter in letters]),
        outcome=_said(Counter(outcome.became for outcome in outcomes)),
        letters=[letter.pk for letter in letters[:MAX_NAMED]],
        edited=[outcome.sending.letter.pk for outcome in outcomes if outcome.sending.edited]
        or None,
    )


def log_discarded(request: HttpRequest, letters: Sequence[int], done: int, why: str) -> None:
    """Record in the audit which letters were to be discarded, and how many were."""
    record(
        Actor.of(request),
        "letter.discarded",
        target=_target(letters),
        outcome=_said(Counter(discarded=done, taken=len(letters) - done)),
        letters=list(letters[:MAX_NAMED]),
        why=why,
    )


def _target(letters: Sequence[int]) -> str:
    return f"letter {letters[0]}" if len(letters) == 1 else f"{len(letters)} letters"


def _scenario(letters: Sequence[DeadLetter]) -> str:
    """Return the scenario that all these letters share, or ""."""
    scenarios = {letter.scenario for letter in letters}
    return scenarios.pop() if len(scenarios) == 1 else ""


def _said(counts: Counter[str]) -> str:
    return ", ".join(f"{n} {became}" for became, n in counts.items() if n) or "nothing"
