"""Sums of a history by hour, and by asset and day.

At each moment an asset's time on the board belongs to one class: maintenance if a window that
counts covers it, else unconfirmed, else bad or good. Good time is the remainder, and is never
looked up asset by asset.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from itertools import accumulate
from typing import NamedTuple

from domain.history.periods import Hour
from domain.history.runs import merged, without

Spans = Sequence[tuple[int, int]]


class BadSpan(NamedTuple):
    """A time in which an asset was unconfirmed or, if not, bad. Unix ms."""

    asset: str
    begin: int
    end: int
    unconfirmed: bool


class Classes(NamedTuple):
    """Time by class, except good, ms."""

    bad: int = 0
    unconfirmed: int = 0
    maintenance: int = 0


BAD, UNCONFIRMED, MAINTENANCE = range(3)


@dataclass(frozen=True)
class Sources:
    """The input of the sums, for a time from the start of the first hour to the end of the last.

    present: number of assets on the board at the start; came, went: times at which assets joined
    and left the board in between; impaired: the bad spans that overlap the time; windows:
    maintenance times that count, by asset; on_board: when assets with windows were on the board.
    """

    present: int
    came: Sequence[int] = ()
    went: Sequence[int] = ()
    impaired: Iterable[BadSpan] = ()
    windows: Mapping[str, Spans] = field(default_factory=dict)
    on_board: Mapping[str, Spans] = field(default_factory=dict)


class HourSum(NamedTuple):
    """The sums of an hour, ms over all assets. present: assets on the board at its end."""

    hour: Hour
    good: int
    bad: int
    unconfirmed: int
    maintenance: int
    present: int


class AssetSum(NamedTuple):
    """The sums of an asset on a day, ms: over all hours, and over service hours."""

    asset: str
    day: date
    whole: Classes
    service: Classes


class Sums:
    """The sums over consecutive hours."""

    def __init__(self, hours: Sequence[Hour], in_service: Callable[[Hour], bool]) -> None:
        self._hours = hours
        self._edges = [hour.begin for hour in hours]
        self._end = hours[-1].end if hours else 0
        self._by_hour = [[0, 0, 0] for _ in hours]
        self._whole_hours = [[0, 0, 0] for _ in range(len(hours) + 1)]
        self._by_asset: dict[tuple[str, date], list[list[int]]] = {}
        self._days = _days(hours)
        self._service = Mask(hours, in_service)

    def add(self, sources: Sources) -> None:
        """Add everything except good time."""
        windows = {asset: merged(spans) for asset, spans in sources.windows.items()}
        for each in sources.impaired:
            kind = UNCONFIRMED if each.unconfirmed else BAD
            cut_out = windows.get(each.asset)
            pieces = (
                [(each.begin, each.end)]
                if not cut_out
                else without((each.begin, each.end), cut_out)[0]
            )
            for piece in pieces:
                self._add(each.asset, kind, piece)
        for asset, cut_out in windows.items():
            for span in merged(sources.on_board.get(asset, ())):
                for piece in without(span, cut_out)[1]:
                    self._add(asset, MAINTENANCE, piece)

    def by_hour(self, sources: Sources) -> list[HourSum]:
        """Return the sums of each hour."""
        present = sources.present
        came, went = sorted(sources.came), sorted(sources.went)
        whole = [list(accumulate(row[kind] for row in self._whole_hours)) for kind in range(3)]
        sums = []
        i = j = 0
        for n, hour in enumerate(self._hours):
            length = hour.end - hour.begin
            time = present * length
            while i < len(came) and came[i] < hour.end:
                time += hour.end - max(came[i], hour.begin)
                present += 1
                i += 1
            while j < len(went) and went[j] < hour.end:
                time -= hour.end - max(went[j], hour.begin)
                present -= 1
                j += 1
            bad, unconfirmed, maintenance = (
                self._by_hour[n][kind] + whole[kind][n] * length for kind in range(3)
            )
            good = time - bad - unconfirmed - maintenance
            sums.append(HourSum(hour, good, bad, unconfirmed, maintenance, present))
        return sums

    def by_asset(self) -> list[AssetSum]:
        """Return the sums of each asset and day that has any."""
        return [
            AssetSum(asset, day, Classes(*whole), Classes(*service))
            for (asset, day), (whole, service) in self._by_asset.items()
        ]

    def _add(self, asset: str, kind: int, piece: tuple[int, int]) -> None:
        if not self._hours:
            return
        begin, end = max(piece[0], self._edges[0]), min(piece[1], self._end)
        if end <= begin:
            return
        self._add_to_hours(kind, begin, end)
        first = bisect_right(self._days.begins, begin) - 1
        last = bisect_right(self._days.begins, end - 1) - 1
        for n in range(first, last + 1):
            low, high = max(begin, self._days.begins[n]), min(end, self._days.ends[n])
            kept = self._by_asset.setdefault((asset, self._days.days[n]), [[0] * 3, [0] * 3])
            kept[0][kind] += high - low
            kept[1][kind] += self._service.ms(low, high)

    def _add_to_hours(self, kind: int, begin: int, end: int) -> None:
        first = bisect_right(self._edges, begin) - 1
        last = bisect_right(self._edges, end - 1) - 1
        if first == last:
            self._by_hour[first][kind] += end - begin
            return
        self._by_hour[first][kind] += self._hours[first].end - begin
        self._by_hour[last][kind] += end - self._edges[last]
        self._whole_hours[first + 1][kind] += 1
        self._whole_hours[last][kind] -= 1


class _Days(NamedTuple):
    days: list[date]
    begins: list[int]
    ends: list[int]


def _days(hours: Sequence[Hour]) -> _Days:
    """Return the days of the hours, each with the begin and end of its hours."""
    days = _Days([], [], [])
    for hour in hours:
        if not days.days or days.days[-1] != hour.day:
            days.days.append(hour.day)
            days.begins.append(hour.begin)
            days.ends.append(hour.end)
        days.ends[-1] = hour.end
    return days


class Mask:
    """Measures how much of a time lies in chosen hours."""

    def __init__(self, hours: Sequence[Hour], chosen: Callable[[Hour], bool]) -> None:
        self._edges = [hour.begin for hour in hours]
        self._chosen = [chosen(hour) for hour in hours]
        lengths = (
            (hour.end - hour.begin) * is_in for hour, is_in in zip(hours, self._chosen, strict=True)
        )
        self._before = [0, *accumulate(lengths)]
        self._end = hours[-1].end if hours else 0

    def ms(self, begin: int, end: int) -> int:
        """Return how much of the time from `begin` to `end` lies in the chosen hours, ms."""
        return self._upto(end) - self._upto(begin)

    def _upto(self, at: int) -> int:
        if not self._edges or at <= self._edges[0]:
            return 0
        if at >= self._end:
            return self._before[-1]
        n = bisect_right(self._edges, at) - 1
        return self._before[n] + (at - self._edges[n]) * self._chosen[n]
