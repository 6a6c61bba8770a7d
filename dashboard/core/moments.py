"""Moments as marks of a page, in UTC; the browser puts them into the viewer's zone."""

from __future__ import annotations

from datetime import UTC, datetime

from django.utils.html import format_html
from django.utils.safestring import SafeString


def moment(at: int, now: int) -> SafeString:
    """The moment `at` (Unix ms): its time of day, with the date unless that is today's at `now`."""
    when, today = _utc(at), _utc(now).date()
    text = when.strftime("%H:%M:%S UTC" if when.date() == today else "%Y-%m-%d %H:%M:%S UTC")
    iso = when.strftime("%Y-%m-%dT%H:%M:%SZ")
    return format_html('<time data-at="{}" datetime="{}">{}</time>', at, iso, text)


def iso(at: int) -> str:
    """The moment `at` (Unix ms) in UTC as ISO 8601 has it: `2026-01-31T14:03:59.123Z`; as the
    number that it is where no calendar has it."""
    try:
        return f"{_utc(at):%Y-%m-%dT%H:%M:%S}.{at % 1000:03d}Z"
    except (OverflowError, ValueError, OSError):
        return str(at)


def _utc(at: int) -> datetime:
    return datetime.fromtimestamp(at / 1000, UTC)
