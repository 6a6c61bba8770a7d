"""The time, and times and durations as numbers, as text, and as marks of a page.

A time is a number of ms since 1970 (Unix ms), a duration a number of ms. Text is in UTC; the
browser puts marks into the viewer's zone, and lets durations tick.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import overload

from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

SECOND_MS, MINUTE_MS, HOUR_MS, DAY_MS = 1_000, 60_000, 3_600_000, 86_400_000

# Returns the time, Unix ms.
Clock = Callable[[], int]


def now_ms() -> int:
    """Return the time, Unix ms."""
    return unix_ms(timezone.now())


# ---- numbers from datetimes, and back -------------------------------------------------------


@overload
def unix_ms(at: datetime) -> int: ...
@overload
def unix_ms(at: datetime | None) -> int | None: ...
def unix_ms(at: datetime | None) -> int | None:
    """Return a datetime as Unix ms; one without a zone is in UTC. None stays None."""
    if at is None:
        return None
    return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)


def utc_datetime(at: int) -> datetime:
    """Return a time as a datetime in UTC. Raises what `datetime.fromtimestamp` does where no
    calendar has it."""
    return datetime.fromtimestamp(at / 1000, UTC)


# ---- times as text --------------------------------------------------------------------------


def utc(at: int) -> str:
    """Return a time to the second, `2026-01-31 14:03:59 UTC`."""
    return utc_datetime(at).strftime("%Y-%m-%d %H:%M:%S UTC")


def utc_minute(at: int) -> str:
    """Return a time to the minute, `2026-01-31 14:03 UTC`."""
    return utc_datetime(at).strftime("%Y-%m-%d %H:%M UTC")


def time_of_day(at: int) -> str:
    """Return the time of day, `14:03:59`."""
    return utc_datetime(at).strftime("%H:%M:%S")


def iso(at: int) -> str:
    """Return a time as ISO 8601 has it, `2026-01-31T14:03:59.123Z`; as the number that it is where
    no calendar has it."""
    try:
        return f"{utc_datetime(at):%Y-%m-%dT%H:%M:%S}.{at % 1000:03d}Z"
    except (OverflowError, ValueError, OSError):
        return str(at)


def iso_second(at: int) -> str:
    """Return a time to the second as ISO 8601 has it, `2026-01-31T14:03:59Z`."""
    return utc_datetime(at).strftime("%Y-%m-%dT%H:%M:%SZ")


# Times as a form's field of type datetime-local has them.
FIELD_MINUTE, FIELD_SECOND = "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S"


def field_text(at: int, text_format: str = FIELD_MINUTE) -> str:
    """Return a time as a field of type datetime-local has it, `2026-01-31T14:03`."""
    return utc_datetime(at).strftime(text_format)


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
    """Return a duration of a rule to the second: `20 s`, `5 m`, `1 h 30 m`."""
    seconds = ms // 1000
    parts = ((seconds // 3600, "h"), (seconds // 60 % 60, "m"), (seconds % 60, "s"))
    parts_in_use = [f"{n} {unit}" for n, unit in parts if n]
    return " ".join(parts_in_use) if parts_in_use else f"{ms} ms"


# ---- marks of a page ------------------------------------------------------------------------

PAST_MS = 5_000
"""So long after its time nobody knows any more when something will be."""


def moment(at: int, now: int) -> SafeString:
    """Return a mark of a time: its time of day, with the date unless that is today's at `now`."""
    today = utc_datetime(at).date() == utc_datetime(now).date()
    text = f"{time_of_day(at)} UTC" if today else utc(at)
    return format_html('<time data-at="{}" datetime="{}">{}</time>', at, iso_second(at), text)


def since(at: int, now: int) -> SafeString:
    """Return a mark of how long ago a time was."""
    return _ticking("since", at, duration(now - at))


def until(at: int, now: int) -> SafeString:
    """Return a mark of the time left until a time; a dash if it has passed without a record of it,
    as while the job is silent."""
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
