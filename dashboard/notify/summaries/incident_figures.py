"""Figures about the incidents of a period: in total, by scenario, and by a label's value."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappush, heapreplace
from itertools import chain
from typing import Any, NamedTuple

from django.db.models import Count

from dashboard.core.common.models import ongoing, overlap
from dashboard.core.common.times import DAY_MS
from dashboard.notify.summaries.figures import MOST_INCIDENTS, Delays
from dashboard.watch.incidents.models import FLAP_MS, Incident
from domain.history.delays import mean, percentile
from domain.history.periods import Span


class Spell(NamedTuple):
    """An incident, with the end of the asset's previous one (None: there was none).

    ended_at: None while it goes on. Times in Unix ms.
    """

    pk: int
    scenario: str
    asset: str
    began_at: int
    ended_at: int | None
    acknowledged_at: int | None
    last_ended_at: int | None = None

    def is_over(self, at: int) -> bool:
        """Return whether it has ended by a time; an end at exactly that time counts."""
        return self.ended_at is not None and self.ended_at <= at


COLUMNS = ("pk", "scenario", "asset", "began_at", "ended_at", "acknowledged_at")


@dataclass
class IncidentTally:
    """The figures of a group of incidents, which must be added in the order of their beginnings.

    reach: by scenario, up to when at least one of them has been going on without a break.
    """

    incidents: int = 0
    merged: int = 0
    assets: set[tuple[str, str]] = field(default_factory=set)
    acknowledged: list[int] = field(default_factory=list)
    cleared: list[int] = field(default_factory=list)
    flapping: int = 0
    reach: dict[str, float] = field(default_factory=dict)

    def add(self, spell: Spell, span: Span) -> None:
        """Count an incident that overlaps the span, or whose delays belong to it."""
        began, ended = spell.began_at, spell.ended_at
        if ended is not None and span.begin <= ended < span.end:
            self.cleared.append(ended - began)
        if spell.is_over(span.begin):
            return
        self.incidents += 1
        self.assets.add((spell.scenario, spell.asset))
        until = float("inf") if ended is None else ended
        reach = self.reach.get(spell.scenario, float("-inf"))
        self.merged += began > reach
        self.reach[spell.scenario] = max(reach, until)
        if span.begin <= began < span.end:
            if spell.acknowledged_at is not None:
                self.acknowledged.append(spell.acknowledged_at - began)
            last = spell.last_ended_at
            self.flapping += last is not None and began - last < FLAP_MS

    def plain(self) -> IncidentTotals:
        """Return the plain figures."""
        return IncidentTotals(
            self.incidents,
            self.merged,
            len(self.assets),
            delays_of(self.acknowledged),
            delays_of(self.cleared),
            self.flapping,
        )


class IncidentTotals(NamedTuple):
    """The figures of a group. merged: unbroken times with at least one incident of a scenario
    going on."""

    incidents: int = 0
    merged: int = 0
    assets: int = 0
    acknowledged: Delays = Delays()
    cleared: Delays = Delays()
    flapping: int = 0


class Longest:
    """Collects the incidents with the longest part in a span, MOST_INCIDENTS of them."""

    def __init__(self, span: Span) -> None:
        self._span = span
        self._heap: list[tuple[int, int]] = []

    def add(self, spell: Spell) -> None:
        """Consider an incident."""
        entry = (within(spell, self._span), -spell.pk)
        if len(self._heap) < MOST_INCIDENTS:
            heappush(self._heap, entry)
        elif entry > self._heap[0]:
            heapreplace(self._heap, entry)

    def ids(self) -> list[int]:
        """Return their ids, the longest first."""
        return [-pk for _, pk in sorted(self._heap, reverse=True)]


class IncidentFigures(NamedTuple):
    """The figures in total, by scenario, and by value of a label ("": without the label); longest:
    the ids of the incidents with the longest part in the period, in order."""

    whole: IncidentTotals
    scenarios: dict[str, IncidentTotals]
    labels: dict[str, IncidentTotals]
    longest: list[int]


def delays_of(delays: Sequence[int]) -> Delays:
    """Return the count, the mean, the 95th percentile and the median of delays, ms."""
    ranked = sorted(delays)
    return Delays(len(ranked), mean(ranked), percentile(ranked, 95), percentile(ranked, 50))


def spells(scenarios: Sequence[str], span: Span) -> Iterator[Spell]:
    """Yield the incidents that overlap a span or end as it begins, in the order of their
    beginnings."""
    # Reach back far enough to know whether one of these flaps after the asset's previous incident.
    begin = span.begin - FLAP_MS
    last: dict[tuple[str, str], int | None] = {}
    for row in chain(_running(scenarios, begin), _begun(scenarios, begin, span.end)):
        place, ended_at = row[1:3], row[4]
        if ended_at is None or ended_at >= span.begin:
            yield Spell._make((*row, last.get(place)))
        last[place] = ended_at


def _begun(scenarios: Sequence[str], begin: int, end: int) -> Iterator[tuple[Any, ...]]:
    """Yield the incidents that began between two times, in order. They are queried day by day, as
    databases sort many small portions faster than a large one."""
    rows = (
        Incident.objects.real()
        .filter(scenario__in=scenarios)
        .order_by("began_at", "pk")
        .values_list(*COLUMNS)
    )
    for since in range(begin, end, DAY_MS):
        yield from rows.filter(began_at__gte=since, began_at__lt=min(since + DAY_MS, end))


def _running(scenarios: Sequence[str], at: int) -> list[tuple[Any, ...]]:
    """Return the incidents that began before a time and had not ended by then, in order."""
    rows = Incident.objects.filter(scenario__in=scenarios).values_list(*COLUMNS)
    running = [
        row for condition in ongoing(at, "began_at", "ended_at") for row in rows.filter(condition)
    ]
    return sorted(running, key=lambda row: (row[3], row[0]))


def incident_figures(
    scenarios: Sequence[str],
    span: Span,
    value_of: Callable[[str, str], str] | None = None,
    *,
    counting: Collection[str],
) -> IncidentFigures:
    """Return the figures of the incidents that overlap a span. value_of: returns the value of the
    label to group by, for a scenario and an asset; counting: the scenarios that make up the total.
    """
    whole = IncidentTally()
    by_scenario: dict[str, IncidentTally] = {name: IncidentTally() for name in scenarios}
    by_value: dict[str, IncidentTally] = {}
    longest = Longest(span)
    for spell in spells(scenarios, span):
        by_scenario[spell.scenario].add(spell, span)
        if spell.scenario not in counting:
            continue
        if not spell.is_over(span.begin):
            longest.add(spell)
        whole.add(spell, span)
        if value_of is not None:
            by_value.setdefault(value_of(spell.scenario, spell.asset), IncidentTally()).add(
                spell, span
            )
    return IncidentFigures(whole.plain(), _plain(by_scenario), _plain(by_value), longest.ids())


def _plain(tallies: Mapping[str, IncidentTally]) -> dict[str, IncidentTotals]:
    return {name: tally.plain() for name, tally in tallies.items()}


# ---- single ones --------------------------------------------------------------------------------


def numbers_of(scenario: str, assets: Sequence[str], span: Span) -> dict[str, int]:
    """Return how many incidents of each asset overlap a span; assets without any are left out."""
    in_span = overlap(*span, "began_at", "ended_at")
    rows = Incident.objects.real().filter(in_span, scenario=scenario, asset__in=assets).order_by()
    return dict(rows.values_list("asset").annotate(n=Count("pk")))


def within(spell: Spell | Incident, span: Span) -> int:
    """Return how much of an incident lies in a span, ms."""
    end = span.end if spell.ended_at is None else min(spell.ended_at, span.end)
    return end - max(spell.began_at, span.begin)


def rows_of(ids: Sequence[int]) -> list[Incident]:
    """Return the incidents with these ids, in their order."""
    rows = Incident.objects.in_bulk(ids)
    return [rows[pk] for pk in ids if pk in rows]


# ---- as JSON ------------------------------------------------------------------------------------


def to_json(figures: IncidentFigures) -> dict[str, Any]:
    """Return figures as JSON-able data."""
    groups = ("scenarios", "labels")
    return {
        "whole": _row(figures.whole),
        "longest": figures.longest,
        **{g: {name: _row(each) for name, each in getattr(figures, g).items()} for g in groups},
    }


def from_json(data: Mapping[str, Any]) -> IncidentFigures:
    """Return the figures from the data that `to_json` returned."""
    by_scenario, by_value = (
        {name: _counted(row) for name, row in data[group].items()}
        for group in ("scenarios", "labels")
    )
    return IncidentFigures(_counted(data["whole"]), by_scenario, by_value, data["longest"])


def _row(counted: IncidentTotals) -> list[Any]:
    return [
        [each.count, each.mean, each.p95, each.median] if isinstance(each, Delays) else each
        for each in counted
    ]


def _counted(row: list[Any]) -> IncidentTotals:
    incidents, merged, assets, acknowledged, cleared, flapping = row
    return IncidentTotals(
        incidents, merged, assets, Delays(*acknowledged), Delays(*cleared), flapping
    )
