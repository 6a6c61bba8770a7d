"""Raw history for sums: what was observed in a period, and what people did in it."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import replace
from datetime import date
from itertools import pairwise
from typing import Any, NamedTuple

import msgspec
from django.db import connection
from django.db.models import Count, Q, QuerySet

from dashboard.core.common.models import LENGTHS_MS, overlap
from dashboard.core.common.sql import STATEMENT, chunks
from dashboard.core.common.times import now_ms
from dashboard.core.states.queries import listed
from dashboard.notify.summaries.figures import (
    MOST_ACTIONS,
    BulkRun,
    OverrideSpan,
    in_slots,
    slot_of,
)
from dashboard.notify.summaries.ingestion import GAP_MS, newest_heartbeats
from dashboard.notify.summaries.models import (
    Alarm,
    Gap,
    HourRow,
    ImpairedSpan,
    KeptSum,
    Presence,
    seal_of,
)
from dashboard.watch.bulk.models import APPLIED, ENDS_PINS, Item, Run
from dashboard.watch.commands.models import Command
from dashboard.watch.incidents.models import Incident, Window
from domain.history.periods import Hour, Span
from domain.history.runs import merged, without
from domain.history.sums import AssetSum, BadSpan, Classes, HourSum, Sources, Spans, Sums

# ---- kept sums -----------------------------------------------------------------------------------
# Sums that take long to compute, kept until something in their time changes.

SLOW_S = 0.03
"""Sums that take longer than this are kept."""


def kept(
    what: str, scenarios: Sequence[str], span: Span, stamp: str, compute: Callable[[], Any]
) -> Any:
    """Return the JSON-able data from `compute`, or the data that it returned before.

    what: identifies the sum, apart from scenarios and time; stamp: a change of it invalidates the
    kept data.
    """
    names = ",".join(sorted(scenarios))
    key = f"{what}|{names}|{span.begin}|{span.end}|{stamp}"
    row = KeptSum.objects.filter(key=key).first()
    if row is not None:
        _compare(key, row.data, compute)
        with suppress(msgspec.DecodeError):  # what is no JSON is computed again
            return msgspec.json.decode(row.data)
    begun = time.perf_counter()
    data = compute()
    if time.perf_counter() - begun > SLOW_S:
        text = msgspec.json.encode(data).decode()
        row = KeptSum(
            key=key, scenarios=f",{names},", begin=span.begin, end=span.end, computed_at=now_ms(),
            data=text,
        )  # fmt: skip
        columns = ("scenarios", "begin", "end", "computed_at", "data")
        defaults = {name: getattr(row, name) for name in columns}
        defaults["seal"] = seal_of(*row.sealed)
        KeptSum.objects.update_or_create(key=key, defaults=defaults)
    return data


_contradicted: ContextVar[list[str] | None] = ContextVar("contradicted", default=None)


@contextmanager
def recounting() -> Iterator[list[str]]:
    """Make `kept` compute everything again within the block. Yields a list that collects the keys
    of the answers that have changed."""
    keys: list[str] = []
    token = _contradicted.set(keys)
    try:
        yield keys
    finally:
        _contradicted.reset(token)


def _compare(key: str, data: str, compute: Callable[[], Any]) -> None:
    """Record the key of an answer that has changed, unless it was replaced meanwhile."""
    keys = _contradicted.get()
    if keys is None or key in keys:
        return
    counted = msgspec.json.decode(msgspec.json.encode(compute()))
    is_kept = KeptSum.objects.filter(key=key, data=data).exists()
    known = None
    with suppress(msgspec.DecodeError):
        known = msgspec.json.decode(data)
    if is_kept and counted != known:
        keys.append(key)


# ---- observation ---------------------------------------------------------------------------------
# What was observed: everything since a scenario's first record, except where the database received
# nothing from the job for longer than a restart takes.
#
# Times in Unix ms.

Gaps = Sequence[tuple[int, int]]


def gaps_between(scenario: str, begin: int, end: int) -> Gaps:
    """Return the times between two in which the database received nothing from the job, in order,
    including one that is still going on."""
    rows = Gap.objects.filter(scenario=scenario, begin__lt=end, end__gt=begin)
    gaps = list(rows.values_list("begin", "end"))
    received_at = newest_heartbeats([scenario]).get(scenario)
    if received_at is not None and now_ms() - received_at > GAP_MS:
        gaps.append((received_at, end))
    return merged([(max(low, begin), min(high, end)) for low, high in gaps if low < end])


def first_record(scenario: str) -> int | None:
    """Return when the first asset of a scenario came onto the board, or None if none ever did.

    If only sums remain from that time, it is accurate to the hour.
    """
    rows = Presence.objects.filter(scenario=scenario).order_by("begin")
    came = rows.values_list("begin", flat=True).first()
    anything = Q(present__gt=0) | Q(good__gt=0) | Q(bad__gt=0) | Q(unconfirmed__gt=0)
    hours = HourRow.objects.filter(anything | Q(maintenance__gt=0), scenario=scenario)
    hour = hours.order_by("begin").first()
    if hour is None or (came is not None and came < hour.end):
        return came
    return hour.begin


def unobserved(firsts: Mapping[str, int | None], span: Span) -> Gaps:
    """Return the parts of a time that were not observed, in order: those before the scenarios'
    first record, and every gap of a scenario that had begun. firsts: their first records."""
    begun = {name: at for name, at in firsts.items() if at is not None}
    first = min(begun.values(), default=span.end)
    parts = [(span.begin, min(first, span.end))]
    for name, at in begun.items():
        parts += gaps_between(name, max(at, span.begin), span.end)
    return merged([(low, high) for low, high in parts if low < high])


def ms_within(spans: Gaps, begin: int, end: int) -> int:
    """Return how much of the time between two lies in these spans, ms."""
    return sum(max(0, min(high, end) - max(low, begin)) for low, high in spans)


def rest(spans: Gaps, span: Span) -> Gaps:
    """Return the parts of a time that are not in these spans."""
    edges = [span.begin, *(at for each in spans for at in each), span.end]
    return [(low, high) for low, high in list(pairwise(edges))[::2] if low < high]


# ---- hours ------------------------------------------------------------------------------------


def pieces(hours: Iterable[Hour], gaps: Gaps) -> Iterator[tuple[Hour, bool]]:
    """Yield hours, split where gaps begin and end, and whether each piece was observed."""
    for hour in hours:
        kept, gone = without((hour.begin, hour.end), gaps)
        for (low, high), is_kept in sorted(
            [*((part, True) for part in kept), *((part, False) for part in gone)]
        ):
            yield hour._replace(begin=low, end=high), is_kept


def observed_runs(hours: Iterable[Hour], gaps: Gaps) -> list[list[Hour]]:
    """Return the observed pieces of hours, grouped where one follows another without a break."""
    runs: list[list[Hour]] = []
    for piece, is_kept in pieces(hours, gaps):
        if not is_kept:
            continue
        if runs and runs[-1][-1].end == piece.begin:
            runs[-1].append(piece)
        else:
            runs.append([piece])
    return runs


# ---- raw history ---------------------------------------------------------------------------------
# Raw history for sums: what was on the board, bad, unconfirmed or in maintenance.


class Added(NamedTuple):
    """The sums of some hours. incidents, false_alarms: by index of the hour."""

    hours: list[HourSum]
    assets: list[AssetSum]
    incidents: Counter[int]
    false_alarms: Counter[int]

    def rows(self, scenario: str) -> list[HourRow]:
        """Return the hours as unsaved rows."""
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
    """Return the sums of consecutive hours from raw history. slots: service hours."""
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
    """Return the sums of hours by asset and day, of all assets or of some."""
    if not hours:
        return []
    sources_of = _sources_of(scenario, hours[0].begin, assets)
    return observed_sums(scenario, hours, slots, sources_of)[1]


SourcesOf = Callable[[int, int], Sources]
"""Returns the raw history between two times."""
Summed = tuple[list[HourSum], list[AssetSum]]


def observed_sums(
    scenario: str, hours: Sequence[Hour], slots: frozenset[int], sources_of: SourcesOf
) -> Summed:
    """Return the sums of consecutive hours, by the hour, and by asset and day.

    Time that was not observed belongs to no class. Assets count as on the board regardless of it.
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
    """Return a function that returns the raw history of any part of a time.

    Sums within that time may be outdated, so for a part that does not start with it the assets on
    the board are counted.
    """

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
    """Return sums with those of the same asset and day added up."""
    by_place: dict[tuple[str, date], AssetSum] = {}
    for each in sums:
        place = each.asset, each.day
        known = by_place.get(place, AssetSum(*place, Classes(), Classes()))
        whole, service = plus(known.whole, each.whole), plus(known.service, each.service)
        by_place[place] = AssetSum(*place, whole, service)
    return list(by_place.values())


def plus(one: Classes, two: Classes) -> Classes:
    """Return the sum of both."""
    return Classes(*(a + b for a, b in zip(one, two, strict=True)))


def sources_between(
    scenario: str, begin: int, end: int, assets: Collection[str] | None = None
) -> Sources:
    """Return the raw history between two times (Unix ms), of all assets or of some."""
    spans = Presence.objects.filter(scenario=scenario)
    if assets is not None:
        spans = spans.filter(asset__in=listed(assets))
    there = spans.filter(Q(end=None) | Q(end__gt=begin), begin__lt=end)
    windows = _windows(scenario, begin, end, there, assets)
    span = Span(begin, end)
    spells = _overlapping(scenario, span) if assets is None else _own(scenario, span, assets)
    came = spans.filter(begin__gte=begin, begin__lt=end).values_list("begin", flat=True)
    went = spans.filter(end__gte=begin, end__lt=end).values_list("end", flat=True)
    return Sources(
        present_at(scenario, begin) if assets is None else 0,
        list(came),
        [at for at in went if at is not None],
        [
            BadSpan(asset, since, end if until is None else until, unconfirmed)
            for asset, since, until, unconfirmed in spells
        ],
        windows,
        _on_board(there, list(windows), end),
    )


def _overlapping(scenario: str, span: Span) -> Sequence[Spell]:
    """Return asset, begin, end and mark of the spans that overlap a time."""
    begun: list[Any] = [scenario, *span]
    lasting = [
        each for ms in LENGTHS_MS for each in (scenario, span.begin, span.begin, span.begin - ms)
    ]
    longest: list[Any] = [scenario, span.begin, span.begin]
    with connection.cursor() as cursor:
        cursor.execute(OVERLAPPING, [*begun, scenario, span.begin, *lasting, *longest])
        return list(cursor.fetchall())


def _own(scenario: str, span: Span, assets: Collection[str]) -> Iterable[Spell]:
    """Return the same for the spans of some assets."""
    own = ImpairedSpan.objects.filter(scenario=scenario, asset__in=listed(assets))
    return own.filter(overlap(*span, "begin", "end")).values_list(*SPELL)


SPELL = ("asset", "begin", "end", "unconfirmed")
Spell = tuple[str, int, int | None, bool]
_OVERLAPPING = (
    "begin >= %s AND begin < %s",
    'begin + 0 < %s AND "end" IS NULL',
    *(
        f'begin < %s AND "end" > %s AND begin > %s AND length_class {n}'
        for n in ("IS NULL", *(f"= {n}" for n in range(1, len(LENGTHS_MS))))
    ),
    f'begin < %s AND "end" > %s AND length_class = {len(LENGTHS_MS)}',
)
"""Those begun in a time, and those of `ongoing` when it begins; an index answers each."""
OVERLAPPING = " UNION ALL ".join(
    'SELECT asset, begin, "end", unconfirmed FROM summaries_impairedspan '  # noqa: S608 - our own
    f"WHERE scenario = %s AND {condition}"
    for condition in _OVERLAPPING
)


def _windows(
    scenario: str,
    begin: int,
    end: int,
    there: QuerySet[Presence],
    assets: Collection[str] | None,
) -> dict[str, Spans]:
    """Return the times of maintenance by asset. A window that covers all assets is given for every
    asset on the board."""
    everywhere, by_asset = Window.objects.excluded(scenario, begin, end)
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
    """Return the same from the spans alone."""
    there = Presence.objects.filter(Q(end=None) | Q(end__gte=at), scenario=scenario, begin__lt=at)
    return there.count()


def _on_board(there: QuerySet[Presence], assets: Sequence[str], end: int) -> dict[str, Spans]:
    """Return when each asset was on the board, up to `end` (Unix ms)."""
    times: dict[str, list[tuple[int, int]]] = {}
    for portion in chunks(assets, STATEMENT):
        rows = there.filter(asset__in=portion).values_list("asset", "begin", "end")
        for asset, since, until in rows:
            times.setdefault(asset, []).append((since, end if until is None else until))
    return dict(times)


def _begun(scenario: str, begin: int, end: int) -> Iterable[int]:
    rows = Incident.objects.real().filter(scenario=scenario, began_at__gte=begin, began_at__lt=end)
    return rows.values_list("began_at", flat=True)


def _false_alarms(scenario: str, begin: int, end: int) -> Iterable[int]:
    rows = Alarm.objects.filter(scenario=scenario, end__gte=begin, end__lt=end, came_true=False)
    return (at for at in rows.values_list("end", flat=True) if at is not None)


def by_hour(hours: Sequence[Hour], times: Iterable[int]) -> Counter[int]:
    """Return how many of these times lie in each hour, by index of the hour."""
    begins = [hour.begin for hour in hours]
    return Counter(bisect_right(begins, at) - 1 for at in times)


# ---- actions -------------------------------------------------------------------------------------
# Actions by people in a period that affect its figures: overrides and bulk runs.


def overrides(scenarios: Sequence[str], span: Span) -> tuple[OverrideSpan, ...]:
    """Return the states that were pinned in a time, newest first, at most MOST_ACTIONS."""
    rows = _overrides(scenarios, span).order_by("-created_at", "pk")[:MOST_ACTIONS]
    columns = ("created_at", "scenario", "asset", "state", "username", "reason", "until")
    pins = [OverrideSpan(*row) for row in rows.values_list(*columns)]
    return tuple(pin._replace(ended=at) for pin, at in zip(pins, _ends(pins), strict=True))


def _ends(pins: Sequence[OverrideSpan]) -> Iterator[int | None]:
    """Yield when another command ended each of these pins; None if none did before its end."""
    assets = listed({pin.asset for pin in pins})
    commands = Command.objects.filter(
        kind__in=ENDS_PINS, status="answered", outcome="applied", asset__in=assets
    )
    items = Item.objects.filter(run__kind__in=ENDS_PINS, outcome=APPLIED, asset__in=assets)
    ends: dict[tuple[str, str], list[int]] = {}
    for scenario, asset, at in (
        *commands.values_list("scenario", "asset", "created_at"),
        *items.values_list("run__scenario", "asset", "answered_at"),
    ):
        ends.setdefault((scenario, asset), []).append(at or 0)
    for pin in pins:
        later = [at for at in ends.get((pin.scenario, pin.asset), ()) if at > pin.at]
        ended = min(later, default=None)
        yield None if ended is None or (pin.until or ended + 1) <= ended else ended


def overrides_total(scenarios: Sequence[str], span: Span) -> int:
    """Return how many states were pinned in a time."""
    return _overrides(scenarios, span).count()


def runs(scenarios: Sequence[str], span: Span) -> tuple[BulkRun, ...]:
    """Return the bulk runs that were started in a time, newest first, at most MOST_ACTIONS."""
    applied = Count("items", filter=Q(items__outcome=APPLIED))
    rows = _runs(scenarios, span).annotate(applied_items=applied).order_by("-started_at", "pk")
    return tuple(
        BulkRun(
            str(run.pk),
            run.started_at or 0,
            run.scenario,
            run.kind,
            run.state,
            run.sender_name,
            run.reason,
            run.matched,
            run.tallies.get(APPLIED, run.applied_items),
        )
        for run in rows[:MOST_ACTIONS]
    )


def runs_total(scenarios: Sequence[str], span: Span) -> int:
    """Return how many bulk runs were started in a time."""
    return _runs(scenarios, span).count()


def _overrides(scenarios: Sequence[str], span: Span) -> QuerySet[Command]:
    return Command.objects.filter(
        scenario__in=scenarios,
        kind="set",
        status="answered",
        outcome="applied",
        created_at__gte=span.begin,
        created_at__lt=span.end,
    )


def _runs(scenarios: Sequence[str], span: Span) -> QuerySet[Run]:
    return Run.objects.filter(
        scenario__in=scenarios, started_at__gte=span.begin, started_at__lt=span.end
    )
