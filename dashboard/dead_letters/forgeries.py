"""Commands that were refused for their signature: counted, audited and answered.

Within the materialiser's transaction, of each record once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from django.db.models import F

from dashboard.audit.log import Actor, note
from dashboard.audit.models import AuditEntry
from dashboard.checkpoints.models import Counted
from dashboard.commands.models import Command
from dashboard.core.times import MINUTE_MS, now_ms
from dashboard.dead_letters.diagnosis import ADVICE, fields_of
from dashboard.dead_letters.models import DeadLetter
from dashboard.dead_letters.stored_records import value_of
from wire.signature import FAULTS

ACTION = "command.refused"
MOST_A_MINUTE = 20
"""Most entries that the audit gets of these: a flood must not become its content."""
CLAIMED = ("type", "action", "user", "id", "state", "agent", "reason")
"""Fields of a refused command that its entry repeats, as what they are: claims."""


def take_in(fresh: Sequence[DeadLetter]) -> None:
    """Look for refused commands among letters that were not known before."""
    refused = [letter for letter in fresh if letter.reason in FAULTS]
    if not refused:
        return
    _count(refused)
    _audit(refused)
    for letter in refused:
        settle(letter)


class Refused(NamedTuple):
    """How many records of a topic were refused for one reason, ever."""

    topic: str
    reason: str
    n: int


def refused() -> list[Refused]:
    """Return how many records were refused, by topic and reason, the most first."""
    rows = Counted.objects.filter(name__in=FAULTS).order_by("-n")
    return [
        Refused(topic, reason, n) for topic, reason, n in rows.values_list("topic", "name", "n")
    ]


def _count(refused: Sequence[DeadLetter]) -> None:
    for (reason, topic), n in Counter((each.reason, each.topic) for each in refused).items():
        Counted.objects.get_or_create(name=reason, topic=topic, defaults={"n": 0})
        Counted.objects.filter(name=reason, topic=topic).update(n=F("n") + n)


def _audit(refused: Sequence[DeadLetter]) -> None:
    """Write an audit entry for each, as far as there is room; then one for all the others."""
    minute_ago = now_ms() - MINUTE_MS
    room = MOST_A_MINUTE - AuditEntry.objects.filter(action=ACTION, at__gt=minute_ago).count()
    one_by_one = refused if len(refused) <= room else refused[: max(0, room - 1)]
    for letter in one_by_one:
        _note(letter)
    others = refused[len(one_by_one) :]
    if others and room > 0:
        note(
            Actor.system("job"),
            ACTION,
            target=f"{len(others)} more records",
            outcome="refused",
            reasons=dict(Counter(each.reason for each in others)),
            first=_place(others[0]),
            last=_place(others[-1]),
        )


def _note(letter: DeadLetter) -> None:
    fields = fields_of(value_of(letter))
    claims = {name: fields[name].value for name in CLAIMED if name in fields}
    note(
        Actor.system("job"),
        ACTION,
        scenario=letter.scenario,
        target=letter.asset,
        outcome=letter.reason,
        place=_place(letter),
        appended_at=letter.appended_at,
        claims=claims,
        means=ADVICE[letter.reason].means,
    )


def _place(letter: DeadLetter) -> str:
    return f"{letter.topic}/{letter.partition}/{letter.offset}"


def settle(letter: DeadLetter) -> None:
    """Mark a command of the board's own as refused, if this record is the one it sent."""
    rows = Command.objects.filter(
        scenario=letter.scenario, partition=letter.partition, offset=letter.offset
    )
    rows.exclude(status="answered").update(
        status="answered",
        outcome=f"refused: {letter.reason}",
        answered_at=now_ms(),
    )


def settle_sent(row: Command) -> None:
    """Mark a command as refused, whose place is known only after its letter has come."""
    at_all = DeadLetter.objects.filter(scenario=row.scenario, reason__in=FAULTS)
    if row.partition is None or row.offset is None:
        return
    for letter in at_all.filter(partition=row.partition, offset=row.offset)[:1]:
        settle(letter)
