"""The users in whose name a run goes on: who started it, then who took it over."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import User
from django.db.models import Min

from dashboard.bulk.models import READY, SENDING, Item, Run


def sent_as(run: Run, user: User, now: int) -> dict[str, Any]:
    """Return the fields of a run that goes on in this user's name from `now` (ms).

    What was claimed and not stored as sent goes with the rest: sent twice, it is one command to the
    job.
    """
    if run.sender_id == user.pk:
        return {}
    left = Item.objects.filter(run=run, fate__in=(READY, SENDING))
    first = left.aggregate(first=Min("number"))["first"] or 0
    sender = {"name": user.get_username(), "since": now, "first": first}
    return {"sender": user, "senders": [*run.senders, sender]}
