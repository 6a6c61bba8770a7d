"""How long runs are kept, and how many."""

from __future__ import annotations

from django.db import transaction
from django.db.models import QuerySet, Sum

from dashboard.bulk.models import REVIEW, Item, Run

KEPT_MS = 90 * 86_400_000
"""How long a run is kept after it was made."""
REVIEW_KEPT_MS = 86_400_000
"""How long a review is kept that nobody confirms."""
MOST_RUNS = 1_000
MOST_ITEMS = 3_000_000
"""Most runs and assets of runs that are kept: the oldest go first."""
MOST_REVIEWS = 5
"""Most reviews of one user that wait to be confirmed: the newest."""
PORTION = 900
"""Rows deleted in one statement."""


def thin(now: int) -> int:
    """Delete runs that are too old at `now` (ms) or too many. Returns how many."""
    old = Run.objects.filter(created_at__lt=now - KEPT_MS)
    unconfirmed = Run.objects.filter(status=REVIEW, created_at__lt=now - REVIEW_KEPT_MS)
    return delete(old) + delete(unconfirmed) + delete(_over())


def thin_reviews(username: str) -> None:
    """Delete a user's older reviews."""
    mine = Run.objects.filter(status=REVIEW, username=username).order_by("-created_at")
    delete(Run.objects.filter(pk__in=list(mine.values_list("pk", flat=True)[MOST_REVIEWS:])))


def delete(runs: QuerySet[Run]) -> int:
    """Delete runs with their assets, a portion at a time. Returns how many runs."""
    gone = 0
    for pk in list(runs.values_list("pk", flat=True)):
        while _delete_items(Item.objects.filter(run=pk)):
            pass
        gone += Run.objects.filter(pk=pk).delete()[0] > 0
    return gone


def _over() -> QuerySet[Run]:
    """Ended runs beyond what is kept."""
    ended = Run.objects.exclude(ended_at=None).order_by("-created_at")
    over = list(ended.values_list("pk", flat=True)[MOST_RUNS:])
    total = Run.objects.aggregate(n=Sum("matched"))["n"] or 0
    for pk, matched in reversed(ended.values_list("pk", "matched")[:MOST_RUNS]):
        if total <= MOST_ITEMS:
            break
        over.append(pk)
        total -= matched
    return Run.objects.filter(pk__in=over)


def _delete_items(items: QuerySet[Item]) -> int:
    with transaction.atomic():
        portion = list(items.values_list("pk", flat=True)[:PORTION])
        return Item.objects.filter(pk__in=portion).delete()[0] if portion else 0
