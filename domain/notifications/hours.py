"""Hours of the week in a time zone, used for a rule's hours and for quiet hours."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import cached_property
from zoneinfo import ZoneInfo

from domain.wall_clock import wall_time

DAY_MINUTES = 24 * 60


@dataclass(frozen=True)
class Hours:
    """The same hours on certain days of each week.

    zone: an IANA name; days: 0 is Monday; begin, end: minutes after midnight. If the end is not
    after the begin, the hours continue into the next day; from midnight to midnight is the whole
    day.
    """

    zone: str
    days: frozenset[int]
    begin: int
    end: int

    def contain(self, at: int) -> bool:
        """Return whether a time, Unix ms, is within the hours."""
        day = self._local(at).date()
        spans = (self._span(day - timedelta(1)), self._span(day))
        return any(span is not None and span[0] <= at < span[1] for span in spans)

    def next_edge(self, at: int) -> int:
        """Return when the hours next begin or end after a time, Unix ms."""
        first = self._local(at).date() - timedelta(1)
        return min(edge for edge in self._edges(first) if edge > at)

    @cached_property
    def _tz(self) -> ZoneInfo:
        return ZoneInfo(self.zone)

    def _local(self, at: int) -> datetime:
        return datetime.fromtimestamp(at / 1000, UTC).astimezone(self._tz)

    def _edges(self, first: date) -> Iterator[int]:
        for n in range(10):
            yield from self._span(first + timedelta(n)) or ()

    def _span(self, day: date) -> tuple[int, int] | None:
        """Return the hours that begin on a day, Unix ms, or None if none do."""
        if day.weekday() not in self.days:
            return None
        later = 1 if self.end <= self.begin else 0
        return self._at(day, self.begin), self._at(day + timedelta(later), self.end)

    def _at(self, day: date, minutes: int) -> int:
        days, minute = divmod(minutes, DAY_MINUTES)
        return wall_time(day + timedelta(days), time(minute // 60, minute % 60), self._tz)
