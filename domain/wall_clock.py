"""Times of day by the clocks of a zone, which are put forward and back."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

MOST_WEEKS = 53
"""How many weeks ahead something may be planned that recurs."""


def wall_time(day: date, clock: time, zone: ZoneInfo) -> int:
    """Return when the clocks of a zone show a time of a day, Unix ms.

    Where they are put forward past it, it is the moment at which they are. Of a time that they show
    twice, it is the first one.
    """
    shown = datetime.combine(day, clock.replace(fold=0), zone)
    before, after = shown.utcoffset(), shown.replace(fold=1).utcoffset()
    assert before is not None
    assert after is not None
    if before >= after:
        return int(shown.timestamp() * 1000)
    plain = shown.replace(tzinfo=UTC).timestamp()
    seconds = range(int(plain - after.total_seconds()), int(plain - before.total_seconds()))
    put_forward = bisect_left(
        seconds, True, key=lambda at: datetime.fromtimestamp(at, zone).utcoffset() == after
    )
    return (seconds.start + put_forward) * 1000


def weekly(
    begin: int, end: int, zone: str, last: date, without: Collection[date] = (), every: int = 1
) -> list[tuple[int, int]]:
    """Return when something begins and ends that happens every so many weeks, Unix ms.

    begin, end: of the first time, Unix ms; zone: an IANA name, by whose clocks it begins and ends
    at the same times of day; last: the last day there on which it may begin; without: days there
    on which it does not. Where clocks are put forward past all of it, it is as long as the first.
    """
    tz = ZoneInfo(zone)
    first, first_end = (
        datetime.fromtimestamp(at / 1000, UTC).astimezone(tz) for at in (begin, end)
    )
    days = first_end.date() - first.date()
    spans = []
    for week in range(0, MOST_WEEKS, every):
        day = first.date() + timedelta(weeks=week)
        if day > last or day in without:
            continue
        begins, ends = (
            (begin, end)
            if week == 0
            else (wall_time(day, first.time(), tz), wall_time(day + days, first_end.time(), tz))
        )
        spans.append((begins, ends if ends > begins else begins + end - begin))
    return spans
