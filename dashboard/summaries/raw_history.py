"""Raw history, read for adding up: what was on the board, bad, unconfirmed or in maintenance."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import date
from typing import NamedTuple

from django.db.models import Q, QuerySet

from dashboard.core.chunks import STATEMENT, chunks
from dashboard.core.overlap import ongoing, overlap
from dashboard.incidents.models import real
from dashboard.maintenance.windows import excluded_between
from dashboard.states.queries import listed
from dashboard.summaries.models import Alarm, HourRow, Presence, TroubleSpan
from dashboard.summaries.observation import gaps_between, observed_runs
from dashboard.summaries.targets import in_slots, slot_of
from domain.history.periods import Hour
from domain.history.sums import AssetSum, Classes, HourSum, Sources, Spans, Sums, Trouble


class Added(NamedTuple):
    """What some hours add up to. incidents, false_alarms: by the number of the hour."""

    hours: list[HourSum]
    assets: list[AssetSum]
    incidents: Counter[int]
    false_alarms: Counter[int]

    def rows(self, scenario: str) -> list[HourRow]:
        """Return the hours as rows."""
        return [
            HourRow(
                scenario=scenario,
                begin=each.hour.begin,
                end=each.hour.end,
                day=each.hour.day.toordinal(),
                slot=slot_of(each.hour),
                present=each.present,
                good=each.good,
                bad=each.bad,
                unconfirmed=each.unconfirmed,
                maintenance=each.maintenance,
                incidents=self.incidents[n],
                false_alarms=self.false_alarms[n],
            )
            for n, each in enumerate(self.hours)
        ]


def add_up(scenario: str, hours: Sequence[Hour], slots: frozenset[int]) -> Added:
    """Return what hours that follow each other add up to, by raw history. slots: service hours."""
    if not hours:
        return Added([], [], Counter(), Counter())
    begin, end = hours[0].begin, hours[-1].end
    by_hours, by_assets = observed_sums(scenario, hours, slots, _sources_of(scenario, begin))
    return Added(
        by_hours,
        by_assets,
        by_hour(hours, _begun(scenario, begin, end)),
        by_hour(hours, _false_alarms(scenario, begin, end)),
    )


def asset_sums(
    scenario: str,
    hours: Sequence[Hour],
    slots: frozenset[int],
    assets: Collection[str] | None = None,
) -> list[AssetSum]:
    """Return what hours add up to by asset and day, of all assets or of some."""
    if not hours:
        return []
    sources_of = _sources_of(scenario, hours[0].begin, assets)
    return observed_sums(scenario, hours, slots, sources_of)[1]


SourcesOf = Callable[[int, int], Sources]
"""Returns raw history between two times."""
Summed = tuple[list[HourSum], list[AssetSum]]


def observed_sums(
    scenario: str, hours: Sequence[Hour], slots: frozenset[int], sources_of: SourcesOf
) -> Summed:
    """Return what hours that follow each other add up to, by the hour, and by asset and day.

    What was not observed is of no class. The assets on the board are those that there are
    nevertheless.
    """
    whole, by_asset = _summed(hours, slots, sources_of(hours[0].begin, hours[-1].end))
    gaps = gaps_between(scenario, hours[0].begin, hours[-1].end)
    if not gaps:
        return whole, by_asset
    runs = [
        _summed(run, slots, sources_of(run[0].begin, run[-1].end))
        for run in observed_runs(hours, gaps)
    ]
    parts = [part for own, _ in runs for part in own]
    return _joined(whole, parts), _merged(each for _, own in runs for each in own)


def _summed(hours: Sequence[Hour], slots: frozenset[int], sources: Sources) -> Summed:
    sums = Sums(hours, in_slots(slots))
    sums.add(sources)
    return sums.by_hour(sources), sums.by_asset()


def _sources_of(scenario: str, begin: int, assets: Collection[str] | None = None) -> SourcesOf:
    """Return raw history of any part of a time, as a function. Sums within it may be older: of what
    does not begin with it, the assets on the board are counted."""

    def sources_of(at: int, until: int) -> Sources:
        sources = sources_between(scenario, at, until, assets)
        if at == begin or assets is not None:
            return sources
        return replace(sources, present=count_present(scenario, at))

    return sources_of


def _joined(whole: Sequence[HourSum], parts: Iterable[HourSum]) -> list[HourSum]:
    """Return hours with the classes of their parts added up."""
    begins = [each.hour.begin for each in whole]
    classes = [[0, 0, 0, 0] for _ in whole]
    for part in parts:
        own = classes[bisect_right(begins, part.hour.begin) - 1]
        for n, ms in enumerate((part.good, part.bad, part.unconfirmed, part.maintenance)):
            own[n] += ms
    return [
        HourSum(each.hour, good, bad, unconfirmed, maintenance, each.present)
        for each, (good, bad, unconfirmed, maintenance) in zip(whole, classes, strict=True)
    ]


def _merged(sums: Iterable[AssetSum]) -> list[AssetSum]:
    """Return sums with those of one asset and day added up."""
    by_place: dict[tuple[str, date], AssetSum] = {}
    for each in sums:
        place = each.asset, each.day
        known = by_place.get(place, AssetSum(*place, Classes(), Classes()))
        whole, service = plus(known.whole, each.whole), plus(known.service, each.service)
        by_place[place] = AssetSum(*place, whole, service)
    return list(by_place.values())


def plus(one: Classes, two: Classes) -> Classes:
    """Return both added up."""
    return Classes(*(a + b for a, b in zip(one, two, strict=True)))


def sources_between(
    scenario: str, begin: int, end: int, assets: Collection[str] | None = None
) -> Sources:
    """Return raw history between two times (Unix ms), of all assets or of some."""
    spans = Presence.objects.filter(scenario=scenario)
    troubles = TroubleSpan.objects.filter(scenario=scenario)
    if assets is not None:
        spans = spans.filter(asset__in=listed(assets))
        troubles = troubles.filter(asset__in=listed(assets))
    there = spans.filter(Q(end=None) | Q(end__gt=begin), begin__lt=end)
    windows = _windows(scenario, begin, end, there, assets)
    spells = _overlapping(troubles, begin, end) if assets is None else _own(troubles, begin, end)
    came = spans.filter(begin__gte=begin, begin__lt=end).values_list("begin", flat=True)
    went = spans.filter(end__gte=begin, end__lt=end).values_list("end", flat=True)
    return Sources(
        present_at(scenario, begin) if assets is None else 0,
        list(came),
        [at for at in went if at is not None],
        [
            Trouble(asset, since, end if until is None else until, unconfirmed)
            for asset, since, until, unconfirmed in spells
        ],
        windows,
        _on_board(there, list(windows), end),
    )


def _overlapping(troubles: QuerySet[TroubleSpan], begin: int, end: int) -> Iterator[Spell]:
    """Yield asset, begin, end and mark of the spans that overlap a time."""
    for condition in (Q(begin__gte=begin, begin__lt=end), *ongoing(begin, "begin", "end")):
        yield from troubles.filter(condition).values_list(*SPELL)


def _own(troubles: QuerySet[TroubleSpan], begin: int, end: int) -> Iterator[Spell]:
    """Yield the same of the spans of some assets."""
    yield from troubles.filter(overlap(begin, end, "begin", "end")).values_list(*SPELL)


SPELL = ("asset", "begin", "end", "unconfirmed")
Spell = tuple[str, int, int | None, bool]


def _windows(
    scenario: str,
    begin: int,
    end: int,
    there: QuerySet[Presence],
    assets: Collection[str] | None,
) -> dict[str, Spans]:
    """Return the times of maintenance by asset: of all that are on the board, where one covers
    them all."""
    everywhere, by_asset = excluded_between(scenario, begin, end)
    windows: dict[str, Spans] = {
        asset: [*everywhere, *times]
        for asset, times in by_asset.items()
        if assets is None or asset in assets
    }
    if everywhere:
        names = there.values_list("asset", flat=True).distinct()
        return dict.fromkeys(names, everywhere) | windows
    return windows


def present_at(scenario: str, at: int) -> int:
    """Return how many assets are on the board just before a time, Unix ms."""
    row = HourRow.objects.filter(scenario=scenario, end=at).values_list("present", flat=True)
    known = row.first()
    return count_present(scenario, at) if known is None else known


def count_present(scenario: str, at: int) -> int:
    """Return the same by the spans alone."""
    there = Presence.objects.filter(Q(end=None) | Q(end__gte=at), scenario=scenario, begin__lt=at)
    return there.count()


def _on_board(there: QuerySet[Presence], assets: Sequence[str], end: int) -> dict[str, Spans]:
    """Return when assets were on the board, up to `end` (Unix ms)."""
    times: dict[str, list[tuple[int, int]]] = {}
    for portion in chunks(assets, STATEMENT):
        rows = there.filter(asset__in=portion).values_list("asset", "begin", "end")
        for asset, since, until in rows:
            times.setdefault(asset, []).append((since, end if until is None else until))
    return dict(times)


def _begun(scenario: str, begin: int, end: int) -> Iterable[int]:
    rows = real().filter(scenario=scenario, began_at__gte=begin, began_at__lt=end)
    return rows.values_list("began_at", flat=True)


def _false_alarms(scenario: str, begin: int, end: int) -> Iterable[int]:
    rows = Alarm.objects.filter(scenario=scenario, end__gte=begin, end__lt=end, came_true=False)
    return (at for at in rows.values_list("end", flat=True) if at is not None)


def by_hour(hours: Sequence[Hour], times: Iterable[int]) -> Counter[int]:
    """Return how many of these times are in each hour, by its number."""
    begins = [hour.begin for hour in hours]
    return Counter(bisect_right(begins, at) - 1 for at in times)
