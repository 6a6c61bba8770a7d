"""Checks of sums, incidents, spans and kept answers against the changes of states."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from itertools import groupby, islice
from typing import Any, NamedTuple, cast
from zoneinfo import ZoneInfo

from django.db.models import Exists, OuterRef, Q, QuerySet
from django.urls import reverse

from dashboard.core.audit.log import bounded_facts
from dashboard.core.audit.models import AuditEntry
from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.sql import STATEMENT
from dashboard.core.common.times import utc
from dashboard.core.states.ingestion import StateChange as StateMove
from dashboard.core.states.models import CHANGE, CONFIRMED, Transition
from dashboard.core.states.models import UNCONFIRMED as MARK_UNCONFIRMED
from dashboard.core.states.queries import listed
from dashboard.notify.summaries.figures import Question, slot_of
from dashboard.notify.summaries.forms import address
from dashboard.notify.summaries.ingestion import KINDS, Condition, Move, came_true, follow
from dashboard.notify.summaries.models import (
    Alarm,
    AssetDay,
    HourRow,
    ImpairedSpan,
    KeptSum,
    Presence,
    ReportingZone,
    Target,
    seals_of,
)
from dashboard.notify.summaries.raw_history import by_hour, observed_sums, sources_between
from dashboard.notify.summaries.rollups import OF_ASSET
from dashboard.notify.summaries.times import CLASSES, reaches
from dashboard.watch.annotations.models import Acknowledgement
from dashboard.watch.incidents.ingestion import follow as follow_incidents
from dashboard.watch.incidents.models import Incident
from domain.history.periods import UNITS, Hour, Span, begin_of, containing, day_of, hours
from domain.history.runs import Run, Step, Track
from domain.history.sums import AssetSum, BadSpan, HourSum, Sources
from domain.scenario import Scenario

# ---- check ---------------------------------------------------------------------------------------
# Sums compared with raw history, taken from the changes of states themselves instead of spans.


class CheckedChange(NamedTuple):
    """A stored change of an asset. at: Unix ms; unconfirmed: the mark after the change."""

    asset: str
    place: str
    at: int
    state: str
    unconfirmed: bool | None
    kind: str
    previous: str


class SumDifference(NamedTuple):
    """A sum or a row that differs from raw history. begin: of its hour, its day or its time, Unix
    ms; asset: "" for sums by the hour; kept: None if there is no sum."""

    scenario: str
    begin: int
    what: str
    kept: Any
    counted: Any
    asset: str = ""

    @property
    def words(self) -> str:
        """Return it as a line: where, what was kept, and what is counted."""
        place = f"{self.scenario} {utc(self.begin)}{self.asset and ' '}{self.asset}"
        return f"{place} {self.what}: kept {self.kept}, counted {self.counted}"

    @property
    def pages(self) -> list[str]:
        """Return the addresses of the summaries that show it: of its day, week, month, quarter and
        year."""
        day = day_of(self.begin, ReportingZone.objects.current())
        asked = (Question((self.scenario,), containing(unit, day)) for unit in UNITS)
        return [f"{reverse('summaries:summary')}?{address(each)}" for each in asked]


class RawFigures(NamedTuple):
    """Figures from raw history. incidents, false_alarms: when incidents began, and when false
    alarms ended, Unix ms."""

    sources: Sources
    incidents: list[int]
    false_alarms: list[int]


def differences(scenario: str, begin: int, end: int) -> Iterator[SumDifference]:
    """Yield where stored sums between two times (Unix ms) differ from the changes of states.

    It checks the sums by the hour, and by asset and day, with today's rule. Do not ask for hours
    before the oldest stored changes, nor for an `end` after which hours are still to be summed up
    again.
    """
    these = list(hours(begin, end, ReportingZone.objects.chosen()))
    if not these:
        return
    known = scenarios()[scenario]
    whole = these[0].begin, these[-1].end
    figures = from_transitions(known, *whole)

    def sources_of(*part: int) -> Sources:
        return (figures if part == whole else from_transitions(known, *part)).sources

    slots = Target.objects.slots(scenario)
    by_hours, by_assets = observed_sums(scenario, these, slots, sources_of)
    yield from _of_hours(scenario, by_hours, figures)
    yield from _of_days(scenario, these, by_assets)


def _of_hours(scenario: str, sums: list[HourSum], figures: RawFigures) -> Iterator[SumDifference]:
    these = [each.hour for each in sums]
    incidents, false_alarms = (
        by_hour(these, figures.incidents),
        by_hour(these, figures.false_alarms),
    )
    rows = HourRow.objects.filter(
        scenario=scenario, begin__gte=these[0].begin, begin__lt=these[-1].end
    )
    kept = {row.begin: row for row in rows}
    for n, each in enumerate(sums):
        row = kept.get(each.hour.begin)
        counted = {name: getattr(each, name) for name in CLASSES}
        counted |= {"incidents": incidents[n], "false_alarms": false_alarms[n]}
        counted["present"] = each.present
        if row is not None:
            counted |= {"end": each.hour.end, "day": each.hour.day.toordinal()}
            counted["slot"] = slot_of(each.hour)
        for name, number in counted.items():
            known = None if row is None else getattr(row, name)
            if known != number and (number or row is not None):
                yield SumDifference(scenario, each.hour.begin, name, known, number)
        kept.pop(each.hour.begin, None)
    for begin, row in sorted(kept.items()):
        yield SumDifference(scenario, begin, "hour", f"one up to {utc(row.end)}", "none")


def _of_days(
    scenario: str, these: Sequence[Hour], sums: Iterable[AssetSum]
) -> Iterator[SumDifference]:
    """Yield the differences of the days that these hours cover completely."""
    zone = ReportingZone.objects.chosen()
    days = {day.toordinal(): begin_of(day, zone) for day in _whole_days(scenario, these, zone)}
    rows = AssetDay.objects.filter(scenario=scenario, day__in=listed(days))
    kept = {(day, asset): own for day, asset, *own in rows.values_list("day", "asset", *OF_ASSET)}
    counted = {
        (each.day.toordinal(), each.asset): (*each.whole, *each.service)
        for each in sums
        if each.day.toordinal() in days
    }
    nothing = (0,) * len(OF_ASSET)
    for day, asset in sorted(kept.keys() | counted.keys()):
        numbers = counted.get((day, asset), nothing)
        known = kept.get((day, asset), (None,) * len(OF_ASSET))
        for name, one, other in zip(OF_ASSET, known, numbers, strict=True):
            if one != other and (other or one is not None):
                yield SumDifference(scenario, days[day], name, one, other, asset)


def _whole_days(scenario: str, these: Sequence[Hour], zone: ZoneInfo) -> set[date]:
    """Return the days whose sums by asset cover exactly these hours. The last day may already be
    summed up further than that."""
    days = {hour.day for hour in these}
    first, last, end = these[0], these[-1].day, these[-1].end
    if first.begin != begin_of(first.day, zone):
        days.discard(first.day)
    reach = reaches([scenario]).get(scenario)
    is_whole = end == begin_of(last + timedelta(days=1), zone)
    return days if is_whole or (reach and reach.days == end) else days - {last}


def from_transitions(scenario: Scenario, begin: int, end: int) -> RawFigures:
    """Return what the changes of states say about the time between two times, Unix ms: what was on
    the board, bad or unconfirmed, which incidents began, and which alarms ended without the state
    that was pending.

    Maintenance and pending states are taken as recorded, since the changes do not contain them.
    Before its first stored change, an asset is taken from its spans and incidents.
    """
    history = _History()
    alarms = _alarms(scenario.name, begin, end)
    for asset, changes in histories(scenario.name, end):
        history.add(scenario, asset, changes, end)
        history.judge(scenario, changes, alarms.pop(asset, []))
    for own in alarms.values():
        history.judge(scenario, [], own)
    planned = sources_between(scenario.name, begin, end)
    history.add_older(scenario.name, begin, end)
    there = history.on_board
    sources = replace(
        planned,
        present=sum(low < begin and (high is None or high >= begin) for low, high in there),
        came=[low for low, _ in there if begin <= low < end],
        went=[high for _, high in there if high is not None and begin <= high < end],
        impaired=history.impaired,
    )
    incidents = [at for at in history.incidents if begin <= at < end]
    return RawFigures(sources, incidents, history.false_alarms)


@dataclass
class _History:
    """Figures from raw history. first: when the first stored change of each asset was."""

    first: dict[str, int] = field(default_factory=dict)
    on_board: list[tuple[int, int | None]] = field(default_factory=list)
    impaired: list[BadSpan] = field(default_factory=list)
    incidents: list[int] = field(default_factory=list)
    false_alarms: list[int] = field(default_factory=list)

    def add(self, scenario: Scenario, asset: str, changes: list[CheckedChange], end: int) -> None:
        """Add the changes of an asset, at least one, up to `end` (Unix ms)."""
        on_board, impaired = _runs(scenario, changes)
        self.first[asset] = changes[0].at
        self.on_board += ((run.begin, run.end) for run in on_board)
        self.impaired += (
            BadSpan(asset, run.begin, _end(run.end, end), run.key == UNCONFIRMED)
            for run in impaired
        )
        self.incidents += _incident_begins(scenario, changes)

    def judge(self, scenario: Scenario, changes: list[CheckedChange], alarms: list[Alarm]) -> None:
        """Add the asset's alarms that were not followed by the pending state."""
        for alarm in alarms:
            states = [each.state for each in changes if each.place <= alarm.end_place]
            came = came_true(scenario, states[-1], alarm.state) if states else alarm.came_true
            if not came and alarm.end is not None:
                self.false_alarms.append(alarm.end)

    def add_older(self, scenario: str, begin: int, end: int) -> None:
        """Add what is recorded about the time before the stored changes."""
        overlap = Q(end=None) | Q(end__gt=begin)
        there = Presence.objects.filter(overlap, scenario=scenario, begin__lt=end)
        for asset, low, high in there.values_list("asset", "begin", "end"):
            first = self.first.get(asset)
            if first is None or low < first:
                self.on_board.append((low, high if first is None else min(first, _end(high, end))))
        impaired = ImpairedSpan.objects.filter(overlap, scenario=scenario, begin__lt=end)
        for asset, low, high, unconfirmed in impaired.values_list(
            "asset", "begin", "end", "unconfirmed"
        ):
            until = min(_end(high, end), self.first.get(asset, end))
            if low < until:
                self.impaired.append(BadSpan(asset, low, until, unconfirmed))
        incidents = Incident.objects.real().filter(
            scenario=scenario, began_at__gte=begin, began_at__lt=end
        )
        for asset, at in incidents.values_list("asset", "began_at"):
            if at < self.first.get(asset, end):
                self.incidents.append(at)


def _alarms(scenario: str, begin: int, end: int) -> dict[str, list[Alarm]]:
    """Return the alarms that ended between two times, by asset."""
    alarms: dict[str, list[Alarm]] = {}
    for row in Alarm.objects.filter(scenario=scenario, end__gte=begin, end__lt=end):
        alarms.setdefault(row.asset, []).append(row)
    return alarms


def _incident_begins(scenario: Scenario, changes: list[CheckedChange]) -> list[int]:
    """Return when unbroken times outside good states began, leaving out those of no length.

    The first is left out too if the state before it was not good either, as it then began before
    the stored changes.
    """
    track = Track()
    for each in changes:
        bad = bool(each.state) and not scenario.is_good(each.state)
        track.take(Step(each.place, each.at, bad or None))
    first = changes[0]
    older = first.kind != CHANGE or (first.previous and not scenario.is_good(first.previous))
    return [
        run.begin
        for run in track.runs.values()
        if run.begin != run.end and not (older and run.place == first.place)
    ]


def _end(at: int | None, end: int) -> int:
    return end if at is None else at


BAD, UNCONFIRMED = "bad", "unconfirmed"


def histories(scenario: str, end: int | None = None) -> Iterator[tuple[str, list[CheckedChange]]]:
    """Yield each asset with its changes in order, only those before `end` if it is given."""
    rows = Transition.objects.filter(scenario=scenario).order_by("asset", "place")
    if end is not None:
        rows = rows.filter(at__lt=end)
    changes = map(
        CheckedChange._make, rows.values_list(*CheckedChange._fields).iterator(chunk_size=20_000)
    )
    for asset, steps in groupby(changes, key=lambda change: change.asset):
        yield asset, list(steps)


def _runs(scenario: Scenario, changes: list[CheckedChange]) -> tuple[list[Run], list[Run]]:
    """Return the runs of an asset on the board, and those in which it was bad or unconfirmed."""
    on_board, impaired = Track(), Track()
    for _, place, at, state, unconfirmed, _, _ in changes:
        kind = UNCONFIRMED if unconfirmed else None if scenario.is_good(state) else BAD
        on_board.take(Step(place, at, bool(state) or None))
        impaired.take(Step(place, at, kind if state else None))
    return list(on_board.runs.values()), list(impaired.runs.values())


# ---- span check ----------------------------------------------------------------------------------
# Incidents and spans compared with the changes of states that they result from.

PRESENCE, IMPAIRED, _ = KINDS
RUN = ("begin", "end", "end_place")
INCIDENT = ("began_at", "ended_at", "state", "worst", "changes")
Row = tuple[Any, ...]
Rows = dict[str, Row]
"""Rows by place. The first field of a row is when it begins, Unix ms, the second when it ends."""


class CheckedKind(NamedTuple):
    """A kind of rows. fields: those to compare."""

    what: str
    rows: QuerySet[Any]
    fields: tuple[str, ...]


def row_differences(scenario: Scenario, span: Span) -> Iterator[SumDifference]:
    """Yield where incidents and spans that began in a time differ from those that the changes give.

    It applies today's rule, and only compares what began with an asset's first stored change or
    later.
    """
    kinds = (
        CheckedKind("incident", Incident.objects.real(), INCIDENT),
        CheckedKind("time on the board", Presence.objects.all(), RUN),
        CheckedKind("time of trouble", ImpairedSpan.objects.all(), (*RUN, "state", "unconfirmed")),
    )
    changes = histories(scenario.name)
    while portion := dict(islice(changes, STATEMENT)):
        made = {asset: _made(scenario, own) for asset, own in portion.items()}
        for number, kind in enumerate(kinds):
            known = _known(kind, scenario.name, portion)
            for asset, own in portion.items():
                pair = made[asset][number], known.get(asset, {})
                yield from _compared(scenario.name, asset, kind, own[0].place, pair, span)
    for kind in kinds:
        yield from _invented(scenario.name, kind, span)


def _invented(scenario: str, kind: CheckedKind, span: Span) -> Iterator[SumDifference]:
    """Yield the rows of assets that have no change at all."""
    begin, own = kind.fields[0], {"scenario": scenario, "asset": OuterRef("asset")}
    rows = kind.rows.filter(~Exists(Transition.objects.filter(**own)), scenario=scenario)
    rows = rows.filter(**{f"{begin}__gte": span.begin, f"{begin}__lt": span.end})
    for asset, at in rows.values_list("asset", begin):
        yield SumDifference(scenario, at, kind.what, "one", "none", asset)


def other_differences(scenario: str, span: Span) -> Iterator[SumDifference]:
    """Yield the alarms of a time whose seal does not match, and the incidents whose acknowledgement
    is not the first that people gave."""
    ended = Alarm.objects.filter(Q(end=None) | Q(end__gte=span.begin), scenario=scenario)
    for row in ended.filter(begin__lt=span.end).iterator():
        if not row.is_sealed:
            what = f"alarm {row.place}"
            yield SumDifference(scenario, row.begin, what, "another", "as sealed", row.asset)
    yield from _acknowledgements(scenario, span)


def _acknowledgements(scenario: str, span: Span) -> Iterator[SumDifference]:
    """Yield the incidents whose acknowledgement is not the first one that people gave."""
    given: dict[str, list[tuple[int, str]]] = {}
    rows = Acknowledgement.objects.filter(scenario=scenario, at__gte=span.begin).order_by(
        "at", "pk"
    )
    for asset, at, name in rows.values_list("asset", "at", "username"):
        given.setdefault(asset, []).append((at, name))
    incidents = Incident.objects.real().filter(scenario=scenario)
    incidents = incidents.filter(began_at__gte=span.begin, began_at__lt=span.end)
    known = Q(acknowledged_at__isnull=False) | Q(asset__in=listed(list(given)))
    columns = ("asset", "began_at", "ended_at", "acknowledged_at", "acknowledged_by")
    for asset, began, ended, *kept in incidents.filter(known).values_list(*columns):
        own = [each for each in given.get(asset, ()) if ended is None or each[0] < ended]
        counted = next(([at, name] for at, name in own if at >= began), [None, ""])
        behind = [[began, name] for at, name in own if at < began]  # by another clock
        ended_unseen = given.get(asset, ()) if counted[0] is None else ()
        if kept != counted and kept not in behind and tuple(kept) not in ended_unseen:
            one, other = _words(kept, counted)
            yield SumDifference(scenario, began, "acknowledgement", one, other, asset)


def _words(*acknowledgements: list[Any]) -> list[str]:
    return [f"by {name}, {utc(at)}" if at else "none" for at, name in acknowledgements]


def zone_differences(now: int) -> Iterator[SumDifference]:
    """Yield the reporting zone if it is not the one that the audit says somebody set last."""
    zone = ReportingZone.objects.chosen().key
    last = AuditEntry.objects.filter(action="summary.zone").order_by("-number").first()
    if last is not None and last.target != zone:
        yield SumDifference("", now, "reporting zone", zone, last.target)


def target_differences(scenario: str, now: int) -> Iterator[SumDifference]:
    """Yield target and hours if they are not what the audit says that somebody set last."""
    targets = AuditEntry.objects.filter(action="summary.target", scenario=scenario)
    last = targets.order_by("-number").first()
    if last is None:
        return
    target = Target.objects.filter(scenario=scenario).first()
    facts = json.loads(last.facts)
    kept = json.loads(bounded_facts(target.facts)) if target else {}
    if any(kept.get(name) != facts.get(name) for name in ("percent", "hours")):
        yield SumDifference(scenario, now, "target", kept, facts)


def broken_answers() -> list[KeptSum]:
    """Return the kept answers that are not as they were stored."""
    rows = KeptSum.objects.order_by("key").iterator()
    return [row for row in rows if row.seal not in seals_of(*row.sealed)]


def _known(kind: CheckedKind, scenario: str, assets: Iterable[str]) -> dict[str, Rows]:
    """Return the stored rows of assets."""
    by_asset: dict[str, Rows] = {}
    rows = kind.rows.filter(scenario=scenario, asset__in=listed(list(assets)))
    for asset, place, *own in rows.values_list("asset", "place", *kind.fields):
        by_asset.setdefault(asset, {})[place] = tuple(own)
    return by_asset


def _compared(
    scenario: str, asset: str, kind: CheckedKind, first: str, pair: tuple[Rows, Rows], span: Span
) -> Iterator[SumDifference]:
    """Yield the differences of one asset's rows of a kind. pair: counted and stored rows."""
    counted, kept = pair
    for place in sorted(counted.keys() | {each for each in kept if each >= first}):
        one, other = counted.get(place), kept.get(place)
        begin = (other or one or (0,))[0]
        if one == other or not span.begin <= begin < span.end:
            continue
        if one is None or other is None:
            counts = ("none", "one") if other is None else ("one", "none")
            yield SumDifference(scenario, begin, kind.what, *counts, asset)
            continue
        for name, expected, stored in zip(kind.fields, one, other, strict=True):
            if expected != stored:
                what = f"{kind.what}, {name}"
                yield SumDifference(scenario, begin, what, stored, expected, asset)


# ---- what changes make --------------------------------------------------------------------------


def _made(scenario: Scenario, changes: list[CheckedChange]) -> tuple[Rows, Rows, Rows]:
    """Return the incidents, times on the board and times of trouble that result from an asset's
    changes, leaving out those that began before the first of them."""
    first = changes[0]
    moves = [
        Move(each.place, each.at, Condition(each.state, bool(each.unconfirmed)), anew=False)
        for each in changes
    ]
    there = {
        place: (run.begin, run.end, run.end_place)
        for place, run in follow(PRESENCE, scenario, (), moves).runs.items()
    }
    impaired = {
        place: (run.begin, run.end, run.end_place, *_kind_of(run))
        for place, run in follow(IMPAIRED, scenario, (), moves).runs.items()
    }
    if first.previous:
        there.pop(first.place, None)
    if first.kind not in (CHANGE, MARK_UNCONFIRMED, CONFIRMED):
        impaired.pop(first.place, None)
    return _incidents(scenario, changes), there, impaired


def _kind_of(run: Run) -> tuple[str, bool]:
    """Return the state and the mark of a time of trouble."""
    state, unconfirmed = cast("tuple[str, bool]", run.key)
    return state, unconfirmed


def _incidents(scenario: Scenario, changes: list[CheckedChange]) -> Rows:
    moves = [
        StateMove(scenario.name, each.asset, each.place, each.at, each.state, each.previous)
        for each in changes
        if each.kind == CHANGE
    ]
    if not moves:
        return {}
    incidents = {
        each.place: (each.began_at, each.ended_at, each.state, each.worst, each.changes)
        for each in follow_incidents(scenario, [], moves)[0]
        if each.began_at != each.ended_at
    }
    if moves[0].previous and not scenario.is_good(moves[0].previous):
        incidents.pop(moves[0].place, None)
    return incidents
