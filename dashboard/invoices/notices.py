"""Notices of points, earned and taken back: into the outbox, from which the notifier sends them."""

from __future__ import annotations

from collections.abc import Iterable

from django.conf import settings

from dashboard.checkpoints import counts
from dashboard.core.times import DAY_MS
from dashboard.notifications.delivery import DELIVERED
from dashboard.notifications.mail import MailKind, is_address
from dashboard.notifications.outbox import Draft, Target, put, targets_of_named
from wire.invoice import EarnedPoints

KIND = "points"
LATE_MS = DAY_MS
"""Nobody is told of points of so long ago: a log that is read again brings them again."""
LATE = "points of long ago"
"""Counted where there is no notice, among what became of messages."""
WHY = "points earned or taken back, by TALLYBOARD_POINTS_CHANNEL"
WHY_OWN = "points earned or taken back, to the customer's own address, by consent"


def put_notices(points: Iterable[EarnedPoints], now: int) -> None:
    """Put a notice of each into the outbox, in the caller's transaction; none where no channel is
    named, or none of that name is there. now: Unix ms.

    It goes to the customer's own address where the record has one, as it does by consent alone,
    else to the channel. The channel's own limit says how many go out by it in which time; those
    beyond it wait, or are told in one.
    """
    earned = [each for each in points if each.earned]
    targets = targets_of_named(settings.TALLYBOARD.points_target)
    if not targets or not earned:
        return
    timely = [each for each in earned if now - each.at < LATE_MS]
    counts.add({(DELIVERED, LATE): len(earned) - len(timely)})
    for each in timely:
        own = own_target(each)
        for number, target in enumerate(targets if own is None else [own]):
            drafted = draft(each, WHY if own is None else WHY_OWN)
            put(target, drafted, now, dedupe=f"{KIND}:{each.invoice}:{number}")


def own_target(points: EarnedPoints) -> Target | None:
    """Return the customer's own address, None where the record has none that is one."""
    return Target(MailKind.name, points.email) if is_address(points.email) else None


def draft(points: EarnedPoints, why: str) -> Draft:
    """Return what a customer is told: short enough for an SMS, and of the card its end alone."""
    card, number = points.card[-4:], abs(points.earned)
    counted = f"{number:,} {'point' if number == 1 else 'points'}"
    what = f"You have earned {counted} with invoice {points.invoice}."
    subject = f"{counted} earned"
    if points.earned < 0:
        were = "was" if number == 1 else "were"
        what = f"{counted} {were} taken back for your return, invoice {points.invoice}."
        subject = f"{counted} taken back"
    text = f"{what} Your card ending in {card} now has {points.total:,}."
    payload = {
        "kind": KIND,
        "invoice": points.invoice,
        "customer": points.customer,
        "earned": points.earned,
        "total": points.total,
    }
    return Draft(KIND, subject, text, payload=payload, why=why)
