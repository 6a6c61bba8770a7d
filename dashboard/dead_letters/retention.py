"""How long letters are kept, and how many. Those that go are counted."""

from __future__ import annotations

from django.db import transaction
from django.db.models import F, Max, QuerySet

from dashboard.core.retention import Retention, Thinning, delete_in_portions, delete_rows
from dashboard.core.times import DAY_MS
from dashboard.dead_letters.models import DeadLetter, LetterCount

# How long a letter is kept after it was noted: longer than its topic holds it.
KEPT_MS = 30 * DAY_MS
MAX_LETTERS = 50_000


def delete_surplus(_now: int = 0) -> int:
    """Delete what is over the bound, oldest first. Returns how many.

    Numbers rise as letters come, so the newest number tells which are within the bound, without
    counting them.
    """
    newest = DeadLetter.objects.aggregate(newest=Max("id"))["newest"]
    if newest is None or newest <= MAX_LETTERS:
        return 0
    surplus = DeadLetter.objects.filter(id__lte=newest - MAX_LETTERS)
    return delete_in_portions(surplus.order_by("id"), _delete_counted)


def deleted_count() -> int:
    """Return how many letters were deleted, ever."""
    return LetterCount.objects.filter(what="thinned").values_list("n", flat=True).first() or 0


@transaction.atomic
def _delete_counted(rows: QuerySet[DeadLetter]) -> int:
    gone = delete_rows(rows)
    LetterCount.objects.get_or_create(what="thinned")
    LetterCount.objects.filter(what="thinned").update(n=F("n") + gone)
    return gone


KEPT = (
    Retention("dead letters", DeadLetter, "noted_at", KEPT_MS, delete=_delete_counted),
    Thinning("dead letters, the newest", delete_surplus, at_most=MAX_LETTERS),
)
