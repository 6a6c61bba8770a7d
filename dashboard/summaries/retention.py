"""Retention: raw history of summaries as long as the changes, their sums for years."""

from __future__ import annotations

from dashboard.core.retention import Retention, Thinning, delete_in_portions
from dashboard.core.times import DAY_MS, utc_datetime
from dashboard.states.retention import HISTORY_KEPT_MS
from dashboard.summaries.models import (
    Alarm,
    AssetDay,
    Gap,
    HourRow,
    KeptSum,
    Presence,
    TroubleSpan,
)

SUMS_KEPT_MS = 3_653 * DAY_MS
KEPT_SUMS_MS = 14 * DAY_MS
"""Kept sums are made again when they are asked for."""


def raw_edge(now: int) -> int:
    """Return the time from which on raw history is whole, Unix ms, as of `now`."""
    return now - HISTORY_KEPT_MS


def delete_old_days(now: int) -> int:
    """Delete the sums of assets and days that are too old at `now` (Unix ms). Returns how many."""
    edge = utc_datetime(now - SUMS_KEPT_MS).date().toordinal()
    return delete_in_portions(AssetDay.objects.filter(day__lt=edge))


KEPT = (
    Retention("spans of bad and unconfirmed time", TroubleSpan, "end", HISTORY_KEPT_MS),
    Retention("spans of time on the board", Presence, "end", HISTORY_KEPT_MS),
    Retention("pending states that came true or not", Alarm, "end", HISTORY_KEPT_MS),
    Retention("sums by the hour", HourRow, "end", SUMS_KEPT_MS, by_scenario=True),
    Retention("times in which nothing was heard of the job", Gap, "end", SUMS_KEPT_MS),
    Thinning("sums by asset and day", delete_old_days, SUMS_KEPT_MS),
    Retention("kept answers of summaries", KeptSum, "computed_at", KEPT_SUMS_MS),
)
