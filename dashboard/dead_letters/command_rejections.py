"""Commands of the board's own that the job refused for their signature: told to their sender."""

from __future__ import annotations

from dashboard.commands.models import Command
from dashboard.core.times import now_ms
from dashboard.dead_letters.models import DeadLetter
from wire.signature import FAULTS


def settle(letter: DeadLetter) -> None:
    """Tell a command of the board's own that it was refused, if this record is the one it sent."""
    rows = Command.objects.filter(
        scenario=letter.scenario, partition=letter.partition, offset=letter.offset
    )
    rows.exclude(status="answered").update(
        status="answered",
        outcome=f"refused: {letter.reason}",
        answered_at=now_ms(),
    )


def settle_sent(row: Command) -> None:
    """The same, of a command whose place is known only after its letter has come."""
    at_all = DeadLetter.objects.filter(scenario=row.scenario, reason__in=FAULTS)
    if row.partition is None or row.offset is None:
        return
    for letter in at_all.filter(partition=row.partition, offset=row.offset)[:1]:
        settle(letter)
