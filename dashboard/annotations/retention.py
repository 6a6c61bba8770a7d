"""How long annotations are kept. Notes that are shown stay: they belong to the assets' names."""

from __future__ import annotations

from typing import Any

from django.db.models import Q, QuerySet

from dashboard.annotations.models import Acknowledgement, Handover, Mark, Note, Shift

KEPT_MS = 90 * 86_400_000
"""How long acknowledgements that have ended, deleted notes and shifts are kept, as history is."""
MARK_KEPT_MS = 86_400_000
"""How long a mark of nothing is kept: by then every live process has seen it."""
TEXTS = 1_000
"""Most texts of handovers, the newest."""
PORTION = 900
"""Rows deleted in one transaction."""


def thin(now: int) -> int:
    """Delete what is past its time at `now` (Unix ms). Returns how many."""
    before = now - KEPT_MS
    texts = Handover.objects.order_by("-at").values_list("pk", flat=True)[TEXTS:]
    marks = Mark.objects.filter(changed_at__lt=now - MARK_KEPT_MS, notes=0)
    return sum(
        map(
            _delete,
            (
                Acknowledgement.objects.filter(until__lt=before),
                Note.objects.filter(deleted_at__lt=before),
                Shift.objects.filter(began_at__lt=before),
                Handover.objects.filter(pk__in=list(texts)),
                marks.filter(Q(ack_until=None) | Q(ack_until__lt=now - MARK_KEPT_MS)),
            ),
        )
    )


def _delete(rows: QuerySet[Any]) -> int:
    """Delete a portion at a time, so that nobody waits long for the lock. Returns how many."""
    total = 0
    while portion := list(rows.values_list("pk", flat=True)[:PORTION]):
        total += rows.filter(pk__in=portion).delete()[0]
    return total
