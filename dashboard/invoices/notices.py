"""Notices of earned points: into the outbox, from which the notifier sends them."""

from __future__ import annotations

from collections.abc import Iterable

from django.conf import settings

from dashboard.checkpoints import counts
from dashboard.core.times import DAY_MS
from dashboard.notifications.delivery import DELIVERED
from dashboard.notifications.outbox import Draft, put, targets_of_named
from wire.invoice import EarnedPoints

KIND = "points"
LATE_MS = DAY_MS
"""Nobody is told of points of so long ago: a log that is read again brings them again."""
LATE = "points of long ago"
"""Counted where there is no notice, among what became of messages."""
WHY = "points earned, by TALLYBOARD_POINTS_CHANNEL"


def put_notices(points: Iterable[EarnedPoints], now: int) -> None:
    """Put a notice of each into the outbox, in the caller's transaction; none where no channel is
    named, or none of that name is there. now: Unix ms.

    The channel's own limit says how many go out in which time; those beyond it wait, or are told
    in one.
    """
    earned = [each for each in points if each.earned]
    targets = targets_of_named(settings.TALLYBOARD.points_target)
    if not targets or not earned:
        return
    timely = [each for each in earned if now - each.at < LATE_MS]
    counts.add({(DELIVERED, LATE): len(earned) - len(timely)})
    for each in timely:
        for number, target in enumerate(targets):
            put(target, draft(each), now, dedupe=f"{KIND}:{each.invoice}:{number}")


def draft(points: EarnedPoints) -> Draft:
    """Return what a customer is told: short enough for an SMS, and of the card its end alone."""
    card = points.card[-4:]
    unit = "point" if points.earned == 1 else "points"
    text = (
        f"You have earned {points.earned:,} {unit} with invoice {points.invoice}. "
        f"Your card ending in {card} now has {points.total:,}."
    )
    payload = {
        "kind": KIND,
        "invoice": points.invoice,
        "customer": points.customer,
        "earned": points.earned,
        "total": points.total,
    }
    return Draft(KIND, f"{points.earned:,} {unit} earned", text, payload=payload, why=WHY)
