"""Results of trials, into the database; in the materialiser's transaction."""

from __future__ import annotations

from uuid import UUID

import msgspec

from dashboard.core.models import named_fields
from dashboard.what_if.models import Fared, Trial
from wire.batch_query import MOST_DIFFERENT, Compared, Difference

CHUNK = 500
"""Rows written in one statement."""


def take_in(request: UUID, result: Compared, _now: int) -> None:
    """Store a part of a trial's result, if it was requested here."""
    trial = Trial.objects.filter(pk=request, complete=False).first()
    if trial is None:
        return
    known = Fared.objects.filter(trial=trial).count()
    rows = [_row(trial, known + at, row) for at, row in enumerate(result.rows)]
    room = max(0, MOST_DIFFERENT - known)
    Fared.objects.bulk_create(rows[:room], batch_size=CHUNK, ignore_conflicts=True)
    if result.last and result.totals is not None:
        trial.totals, trial.complete = msgspec.json.encode(result.totals).decode(), True
        trial.save(update_fields=["totals", "complete"])


def _row(trial: Trial, place: int, row: Difference) -> Fared:
    return Fared(
        trial=trial,
        place=place,
        **named_fields(row, ("asset", "gained", "lost", "earlier", "later", "shift")),
        record=msgspec.json.encode(row).decode(),
    )
