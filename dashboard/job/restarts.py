"""A query's restarts, counted from what it reported: a process that is killed counts none itself.

Times in Unix ms.
"""

from __future__ import annotations

from typing import NamedTuple

from dashboard.job.models import JobProgress
from dashboard.job.retention import KEPT_MS

ENDED = ("stopped", "failed")
"""What a process reports last that ends by itself."""
TROUBLES = ("restarting", "waiting", "failed")
KILLED = "its process ended without a word (killed?)"
LISTED = 20


class Restart(NamedTuple):
    """A restart: when it was reported, what the query said of itself, why, and the whole error."""

    key: int
    at: int
    status: str
    why: str
    error: str


class Restarts(NamedTuple):
    """The restarts that are kept: how many, and the newest."""

    n: int
    newest: list[Restart]


def restarts(query: str, now: int) -> Restarts:
    """Return a query's restarts of the last 30 days, the newest first.

    A process that starts without its predecessor having ended in order is one, too; a start that is
    reported again, with something else that became known, is not.
    """
    reports = JobProgress.objects.filter(query=query, batch="", at__gte=now - KEPT_MS)
    rows = reports.order_by("id").values_list("id", "at", "status", "since", "message", named=True)
    made: list[Restart] = []
    before = ("", 0)
    for row in rows.iterator():
        reported = (row.status, row.since)
        if row.status in TROUBLES:
            made.append(Restart(row.id, row.at, row.status, row.message, ""))
        elif row.status == "starting" and before[0] not in ("", *ENDED) and reported != before:
            made.append(Restart(row.id, row.at, "restarted", KILLED, ""))
        before = reported
    newest = made[: -LISTED - 1 : -1]
    errors = dict(
        JobProgress.objects.filter(pk__in=[each.key for each in newest]).values_list("id", "error")
    )
    return Restarts(len(made), [each._replace(error=errors[each.key]) for each in newest])
