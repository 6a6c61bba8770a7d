"""Retention of maintenance windows: as long as the figures that they are left out of."""

from __future__ import annotations

from django.db.models import QuerySet

from dashboard.core.retention import Retention, delete_in_portions, delete_rows
from dashboard.core.times import DAY_MS
from dashboard.maintenance.models import Window, WindowAsset

KEPT_MS = 3650 * DAY_MS


def _delete(windows: QuerySet[Window]) -> int:
    """Delete windows, their assets a portion at a time before them. Returns how many windows."""
    for pk in list(windows.values_list("pk", flat=True)):
        delete_in_portions(WindowAsset.objects.filter(window=pk))
    return delete_rows(windows)


KEPT = (Retention("maintenance windows", Window, "end", KEPT_MS, delete=_delete),)
