"""Results of recounts, into the database; in the materialiser's transaction."""

from __future__ import annotations

from uuid import UUID

import msgspec

from dashboard.core.models import named_fields
from dashboard.recounts.models import CountedHour, Recount
from wire.batch_query import Recounted

FIELDS = ("begin", "good", "bad", "unconfirmed", "maintenance", "incidents")
CHUNK = 500
"""Rows written in one statement."""


def take_in(request: UUID, result: Recounted, _now: int) -> None:
    """Store a part of a recount's result, if it was requested here."""
    recount = Recount.objects.filter(pk=request, complete=False).first()
    if recount is None:
        return
    rows = [CountedHour(recount=recount, **named_fields(row, FIELDS)) for row in result.rows]
    CountedHour.objects.bulk_create(rows, batch_size=CHUNK, ignore_conflicts=True)
    if result.last and result.totals is not None:
        recount.totals, recount.complete = msgspec.json.encode(result.totals).decode(), True
        recount.save(update_fields=["totals", "complete"])
