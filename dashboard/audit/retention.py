"""Pruning of entries past their time: the oldest ones, never one from between."""

from __future__ import annotations

from dashboard.audit.log import Actor, note
from dashboard.audit.models import AuditEntry
from dashboard.audit.triggers import KEPT_DAYS
from dashboard.core.retention import Thinning
from dashboard.core.times import DAY_MS, HOUR_MS

KEPT_MS = KEPT_DAYS * DAY_MS
# The database's clock, which decides, may be behind ours.
MARGIN_MS = HOUR_MS


def prune(now: int) -> int:
    """Drop the entries that are older than KEPT_DAYS at `now` (Unix ms). Returns how many.

    The entries about to go are logged first, with the digest that the first entry left follows
    from: so the chain can be checked from there.
    """
    before = now - KEPT_MS - MARGIN_MS
    kept = AuditEntry.objects.filter(at__gte=before).order_by("number").first()
    if kept is None:
        return 0
    old = AuditEntry.objects.filter(number__lt=kept.number)
    number = old.count()
    if not number:
        return 0
    note(
        Actor.system("worker"),
        "audit.pruned",
        target=f"{number} entries",
        last=kept.number - 1,
        digest=kept.previous,
        days=KEPT_DAYS,
    )
    old.delete()  # in one statement: the chain never begins in between
    return number


KEPT = (Thinning("audit", prune, KEPT_MS),)
