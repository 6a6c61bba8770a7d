"""How long letters are kept, and how many."""

from __future__ import annotations

from django.db import transaction
from django.db.models import F, Max, QuerySet

from dashboard.dead_letters.models import DeadLetter, LetterCount

KEPT_MS = 30 * 86_400_000
"""How long a letter is kept after it was appended: longer than its topic holds it."""
MAX_LETTERS = 50_000
"""Most letters kept: the oldest go first."""
PORTION = 900
"""Rows deleted in one statement."""


def thin(now: int) -> int:
    """Delete letters that were noted too long before `now` (ms). Returns how many."""
    old = DeadLetter.objects.filter(noted_at__lt=now - KEPT_MS)
    total = 0
    while portion := _delete(old):
        total += portion
    return total + bound()


def bound() -> int:
    """Delete what is over the bound, oldest first. Returns how many.

    Numbers rise as letters come, so the newest number tells which are within the bound, without
    counting them.
    """
    newest = DeadLetter.objects.aggregate(newest=Max("id"))["newest"]
    if newest is None or newest <= MAX_LETTERS:
        return 0
    over = DeadLetter.objects.filter(id__lte=newest - MAX_LETTERS)
    total = 0
    while portion := _delete(over):
        total += portion
    return total


def thinned() -> int:
    """How many letters were deleted, ever."""
    return LetterCount.objects.filter(what="thinned").values_list("n", flat=True).first() or 0


def _delete(rows: QuerySet[DeadLetter]) -> int:
    """Delete and count one portion. Returns how many there were."""
    with transaction.atomic():
        portion = list(rows.order_by("id").values_list("id", flat=True)[:PORTION])
        if not portion:
            return 0
        gone, _ = DeadLetter.objects.filter(id__in=portion).delete()
        LetterCount.objects.get_or_create(what="thinned")
        LetterCount.objects.filter(what="thinned").update(n=F("n") + gone)
    return gone
