"""Times that users type, in their own zones."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from django import forms
from django.utils import timezone

from dashboard.core.times import unix_ms


def typed_end(typed: str, zone: str, now: int) -> int:
    """Return the moment (Unix ms) of a date and time in the viewer's zone.

    Raises ValidationError for what is none, or past.
    """
    try:
        at = datetime.fromisoformat(typed)
        until = unix_ms(at if at.tzinfo else at.replace(tzinfo=_zone(zone)))
    except (ValueError, OverflowError):
        raise forms.ValidationError(
            "Expected a date and a time, such as 2030-01-31T18:00."
        ) from None
    if until <= now:
        raise forms.ValidationError("This time is past; expected a future one.")
    return until


def _zone(name: str) -> tzinfo:
    try:
        return ZoneInfo(name) if name else timezone.get_current_timezone()
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return UTC
