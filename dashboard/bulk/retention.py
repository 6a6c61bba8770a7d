"""The time for which runs are kept, and how many."""

from __future__ import annotations

from django.db.models import Q, QuerySet, Sum

from dashboard.bulk.models import REVIEW, Item, Run
from dashboard.core.retention import (
    Retention,
    Thinning,
    delete_in_portions,
    delete_rows,
    delete_surplus,
)
from dashboard.core.times import DAY_MS

KEPT_MS = 90 * DAY_MS
REVIEW_KEPT_MS = DAY_MS
MOST_RUNS = 1_000
MOST_ITEMS = 3_000_000
# Most reviews of one user that wait to be confirmed: the newest.
MOST_REVIEWS = 5


def delete(runs: QuerySet[Run]) -> int:
    """Delete runs with their assets, a portion at a time. Returns how many runs."""
    gone = 0
    for pk in list(runs.values_list("pk", flat=True)):
        delete_in_portions(Item.objects.filter(run=pk))
        gone += delete_rows(Run.objects.filter(pk=pk))
    return gone


def delete_surplus_reviews(username: str) -> None:
    """Delete a user's reviews but for the newest."""
    mine = Run.objects.filter(status=REVIEW, username=username).order_by("-created_at")
    delete_surplus(mine, MOST_REVIEWS, delete)


def _delete_surplus_items(_now: int) -> int:
    """Delete the oldest ended runs until all have few enough assets. Returns how many runs."""
    surplus = []
    total = Run.objects.aggregate(n=Sum("matched"))["n"] or 0
    ended = Run.objects.exclude(ended_at=None).order_by("created_at", "pk")
    for pk, matched in ended.values_list("pk", "matched"):
        if total <= MOST_ITEMS:
            break
        surplus.append(pk)
        total -= matched
    return delete(Run.objects.filter(pk__in=surplus))


KEPT = (
    Retention("runs of many commands", Run, "created_at", KEPT_MS, delete=delete),
    Retention(
        "reviews that nobody confirmed",
        Run,
        "created_at",
        REVIEW_KEPT_MS,
        condition=Q(status=REVIEW),
        delete=delete,
    ),
    Retention(
        "bulk runs that have ended",
        Run,
        "created_at",
        at_most=MOST_RUNS,
        condition=Q(ended_at__isnull=False),
        delete=delete,
    ),
    Thinning("assets of runs", _delete_surplus_items, at_most=MOST_ITEMS),
)
