"""Messages of tasks that notified, which a higher package offers."""

from __future__ import annotations

from dashboard.core.extension_point import Provider
from dashboard.schedules.models import ScheduledTask


def _nothing(row: ScheduledTask) -> str:  # noqa: ARG001 - as those who register have it
    return ""


messages_url = Provider(_nothing)
"""Returns the address of the list of messages about a task; empty where there is no such list."""
