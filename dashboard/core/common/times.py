"""The current time, and times and durations as numbers, text and page elements.

A time is a number of ms since 1970 (Unix ms), a duration a number of ms. Text is in UTC; the
browser converts page elements to the viewer's time zone, and keeps durations ticking.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, tzinfo
from typing import overload
from zoneinfo import ZoneInfo

from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

SECOND_MS, MINUTE_MS, HOUR_MS, DAY_MS = 1_000, 60_000, 3_600_000, 86_400_000

# Returns the time, Unix ms.
Clock = Callable[[], int]


def now_ms() -> int:
    """Return the current time, Unix ms."""
    return unix_ms(timezone.now())


# ---- numbers from datetimes, and back -------------------------------------------------------


@overload
def unix_ms(at: datetime) -> int: ...
@overload
def unix_ms(at: datetime | None) -> int | None: ...
def unix_ms(at: datetime | None) -> int | None:
    """Return a datetime as Unix ms; without a time zone it is taken as UTC. None stays None."""
    if at is None:
        return None
    return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)


def utc_datetime(at: int) -> datetime:
    """Return a time as a datetime in UTC.

    Raises what `datetime.fromtimestamp` raises for a time outside the calendar.
    """
    return datetime.fromtimestamp(at / 1000, UTC)


# ---- times as text --------------------------------------------------------------------------


def utc(at: int) -> str:
    """Return a time to the second, `2026-01-31 14:03:59 UTC`."""
    return utc_datetime(at).strftime("%Y-%m-%d %H:%M:%S UTC")


def zoned(at: int, zone: ZoneInfo) -> str:
    """Return a time in a zone to the second, `2026-01-31 15:03:59 CET`."""
    return utc_datetime(at).astimezone(zone).strftime("%Y-%m-%d %H:%M:%S %Z")


def utc_minute(at: int) -> str:
    """Return a time to the minute, `2026-01-31 14:03 UTC`."""
    return utc_datetime(at).strftime("%Y-%m-%d %H:%M UTC")


def time_of_day(at: int) -> str:
    """Return the time of day, `14:03:59`."""
    return utc_datetime(at).strftime("%H:%M:%S")


def iso(at: int) -> str:
    """Return a time in ISO 8601, `2026-01-31T14:03:59.123Z`; as a number off the calendar."""
    try:
        return f"{utc_datetime(at):%Y-%m-%dT%H:%M:%S}.{at % 1000:03d}Z"
    except (OverflowError, ValueError, OSError):
        return str(at)


def iso_second(at: int) -> str:
    """Return a time to the second in ISO 8601, `2026-01-31T14:03:59Z`."""
    return utc_datetime(at).strftime("%Y-%m-%dT%H:%M:%SZ")


# Formats for form fields of type datetime-local.
FIELD_MINUTE, FIELD_SECOND = "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S"


def field_text(at: int, text_format: str = FIELD_MINUTE, zone: tzinfo = UTC) -> str:
    """Return a time for a field of type datetime-local, `2026-01-31T14:03`."""
    return utc_datetime(at).astimezone(zone).strftime(text_format)


# ---- durations as text ----------------------------------------------------------------------


def duration(ms: int) -> str:
    """Return a duration in its two largest units: `42 s`, `5 m 07 s`, `3 h 12 m`, `4 d 03 h`."""
    seconds = max(0, ms) // 1000
    for size, large, below, small in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "m")):
        if seconds >= size:
            return f"{seconds // size} {large} {seconds % size // below:02d} {small}"
    return f"{seconds // 60} m {seconds % 60:02d} s" if seconds >= 60 else f"{seconds} s"


def span(ms: int) -> str:
    """Return a duration in its largest fitting unit: `12 s`, `4 min`, `23 h`, `3 days`."""
    for unit, least, word in ((DAY_MS, 2, "days"), (HOUR_MS, 2, "h"), (MINUTE_MS, 2, "min")):
        if ms >= least * unit:
            return f"{ms // unit} {word}"
    return f"{ms // SECOND_MS} s"


def exact_span(ms: int) -> str:
    """Return a rule's duration to the second: `20 s`, `5 m`, `1 h 30 m`."""
    seconds = ms // 1000
    parts = ((seconds // 3600, "h"), (seconds // 60 % 60, "m"), (seconds % 60, "s"))
    parts_in_use = [f"{n} {unit}" for n, unit in parts if n]
    return " ".join(parts_in_use) if parts_in_use else f"{ms} ms"


# ---- marks of a page ------------------------------------------------------------------------

PAST_MS = 5_000
"""This long after its time, it is no longer known when something will happen."""


def moment(at: int, now: int) -> SafeString:
    """Return a time as a page element: the time of day, with the date if not today at `now`."""
    today = utc_datetime(at).date() == utc_datetime(now).date()
    text = f"{time_of_day(at)} UTC" if today else utc(at)
    return format_html('<time data-at="{}" datetime="{}">{}</time>', at, iso_second(at), text)


def since(at: int, now: int) -> SafeString:
    """Return how long ago a time was, as a page element."""
    return _ticking("since", at, duration(now - at))


def until(at: int, now: int) -> SafeString:
    """Return the time left until a time, as a page element.

    It is a dash if the time has passed with no record of it, as while the job is silent.
    """
    return _ticking("until", at, duration(at - now) if at - now >= -PAST_MS else "–")


def _ticking(kind: str, at: int, text: str) -> SafeString:
    return format_html(
        '<time data-{}="{}" datetime="{}" title="{}">{}</time>',
        kind,
        at,
        iso_second(at),
        utc(at),
        text,
    )
