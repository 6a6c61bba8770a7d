"""Subscribing, and ending a subscription. Times in Unix ms."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import User
from django.db import transaction

from dashboard.digests.models import Subscription


@transaction.atomic
def subscribe(user: User, scenario: str, plan: dict[str, Any], now: int) -> Subscription:
    """Subscribe a user to a scenario's digest, or change when it comes. Returns the subscription.

    A change from days to weeks, or back, begins anew: nothing that was due before comes.
    """
    known = Subscription.objects.filter(user=user, scenario=scenario).first()
    since = known.since if known and known.every == plan["every"] else now
    row, _ = Subscription.objects.update_or_create(
        user=user, scenario=scenario, defaults={**plan, "since": since}
    )
    return row


def end(user: User, scenario: str) -> bool:
    """End a user's subscription to a scenario. Returns whether there was one."""
    return bool(Subscription.objects.filter(user=user, scenario=scenario).delete()[0])
