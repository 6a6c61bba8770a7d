"""Users' subscriptions: made by their browsers, removed by them or when their push service says."""

from __future__ import annotations

from typing import NamedTuple

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import F, QuerySet

from dashboard.core.rate_limits import Limit
from dashboard.core.tables import Column, Table
from dashboard.push.models import MAX_AGENT, PushSubscription

MOST = 20
"""Most browsers of one user."""
LIMIT = Limit("push", 30)
TABLE = Table(
    "", "Browser", "Since", "Last reached", Column("Failures in a row", numeric=True),
    Column.unseen("Remove"),
)  # fmt: skip


class TooManyBrowsers(ValueError):
    """A user has as many subscriptions as there may be."""


def of_user(user: User) -> QuerySet[PushSubscription]:
    """Return a user's subscriptions, the newest first; none of a user who is not active."""
    return PushSubscription.objects.filter(user=user, user__is_active=True).order_by("-pk")


class Subscribed(NamedTuple):
    """A stored subscription, and whose it was before; None if nobody's, or the same user's."""

    row: PushSubscription
    former: User | None


@transaction.atomic
def subscribe(
    user: User, endpoint: str, p256dh: str, auth: str, agent: str, now: int
) -> Subscribed:
    """Store a browser's subscription, which is that user's from now on. Raises TooManyBrowsers, or
    TooMany."""
    LIMIT.take(user.pk, now)
    if PushSubscription.objects.filter(user=user).exclude(endpoint=endpoint).count() >= MOST:
        raise TooManyBrowsers(f"At most {MOST} browsers: remove one first.")
    known = PushSubscription.objects.select_for_update().filter(endpoint=endpoint)
    before = known.exclude(user=user).first()
    former = before.user if before else None
    row, _ = PushSubscription.objects.update_or_create(
        endpoint=endpoint,
        defaults={
            "user": user,
            "p256dh": p256dh,
            "auth": auth,
            "agent": agent[:MAX_AGENT],
            "failures": 0,
            "created_at": now,
            "reached_at": None,
        },
    )
    return Subscribed(row, former)


def note_reached(row: PushSubscription, now: int) -> None:
    """Store that a message was accepted for a browser."""
    PushSubscription.objects.filter(pk=row.pk).update(reached_at=now, failures=0)


def note_failed(row: PushSubscription) -> None:
    """Store that none was."""
    PushSubscription.objects.filter(pk=row.pk).update(failures=F("failures") + 1)
