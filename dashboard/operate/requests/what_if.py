"""Trials of a rule on the log, as their page shows them. Times in Unix ms."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from django.utils.html import format_html, format_html_join

from dashboard.core.common.tables import Column, Table
from dashboard.core.common.times import exact_span, moment
from dashboard.core.states.board_rows import asset_path
from dashboard.operate.requests.batch_queries import snapshots_before
from dashboard.operate.requests.models import Trial, TrialResult
from domain.scenario import Scenario, ScenarioError, StateSpec
from domain.scenario_parser import scenario_from_plain
from wire.batch_query import (
    MOST_MOMENTS,
    Difference,
    Moment,
    Snapshot,
    StateTotal,
    Totals,
    lead_time,
)

# ---- timeline bars -------------------------------------------------------------------------------
# Timelines as bars: one segment for each period an asset spends in a state. Times in Unix ms.

# Width of a bar, in its own units.
WIDTH = 1000


@dataclass(frozen=True, slots=True)
class BarSegment:
    """A segment of a bar: its position, width and state, and the times it covers."""

    x: float
    width: float
    spec: StateSpec
    begun: int
    ended: int


@dataclass(frozen=True, slots=True)
class RuleTimeline:
    """One rule's timeline. cut: there are more changes than are listed."""

    pieces: tuple[BarSegment, ...]
    steps: tuple[tuple[int, StateSpec | None], ...]
    cut: bool


def shown_span(differences: Iterable[Difference], since: int, until: int) -> tuple[int, int]:
    """Return the part of a window in which any of these assets has a timeline.

    Nothing is drawn before it.
    """
    begins = [
        since if before is not None else moments[0][0]
        for each in differences
        for before, moments in zip(each.before, (each.running, each.proposed), strict=True)
        if before is not None or moments
    ]
    return max(since, min(begins, default=since)), until


def bars(
    scenario: Scenario, difference: Difference, since: int, until: int
) -> tuple[RuleTimeline, RuleTimeline]:
    """Return an asset's timelines under the running and the proposed rule."""
    sides = zip(difference.before, (difference.running, difference.proposed), strict=True)
    running, other = (_bar(scenario, before, moments, since, until) for before, moments in sides)
    return running, other


def _bar(
    scenario: Scenario, before: str | None, moments: Sequence[Moment], since: int, until: int
) -> RuleTimeline:
    cut = len(moments) >= MOST_MOMENTS
    end = moments[-1][0] if cut else until
    marks = [(since, before), *moments, (max(end, since), None)]
    span = max(1, until - since)
    pieces = []
    for (begun, state), (ended, _) in pairwise(marks):
        if state is not None and ended > begun:
            x, width = WIDTH * (begun - since) / span, WIDTH * (ended - begun) / span
            spec = scenario.spec(state)
            pieces.append(BarSegment(round(x, 1), max(1.0, round(width, 1)), spec, begun, ended))
    steps = tuple((at, None if state is None else scenario.spec(state)) for at, state in moments)
    return RuleTimeline(tuple(pieces), steps, cut)


# ---- what if -------------------------------------------------------------------------------------
# Trials as the pages show them. Times in Unix ms.

PAGE = 50
"""Assets per page."""
STATES = Table(
    "whatif-states",
    "State",
    Column.number("Time now"),
    Column.number("Time proposed"),
    Column.number("Difference"),
    Column("Side by side"),
    Column.number("Times entered, now"),
    Column.number("Proposed"),
    Column.number("Difference", name="difference in entries"),
)


def proposed(totals: Totals, known: Scenario) -> Scenario:
    """Return the tried scenario, whose states label the results.

    Returns the known scenario if the tried one cannot be read.
    """
    try:
        return scenario_from_plain(totals.rules[1])
    except ScenarioError:
        return known


@dataclass(frozen=True, slots=True)
class Beginning:
    """How some partitions began: with what state, the range of times, and why."""

    means: str
    partitions: Sequence[int]
    first: int
    last: int
    why: str


def began_of(totals: Totals) -> list[Beginning]:
    """Return what both runs began with, those with a state first; empty for very old trials."""
    groups: dict[tuple[str, str], dict[int, int]] = {}
    for partition, began in sorted(totals.began.items()):
        groups.setdefault((began.means, began.why), {})[partition] = began.at
    order = sorted(groups.items(), key=lambda group: (_MEANS.index(group[0][0]), group[0][1]))
    return [
        Beginning(means, list(ats), min(ats.values()), max(ats.values()), why)
        for (means, why), ats in order
    ]


_MEANS = ("snapshot", "log", "empty")


def begun_at(totals: Totals) -> int:
    """Return when the compared histories begin, Unix ms; not before the log's first record."""
    first = min((began.at for began in totals.began.values()), default=0)
    return max(totals.since, first)


def earlier(running: Scenario) -> str:
    """Return how long before its window a trial without a snapshot starts, in words.

    Returns an empty string if it starts at the beginning of the log.
    """
    if running.lifetime is None:
        return ""
    longest_hold = max((running.holds or {"": 0}).values())
    return exact_span(running.lifetime + (running.forget_delay or 0) + longest_hold)


def states_of(totals: Totals, scenario: Scenario) -> list[dict[str, Any]]:
    """Return, per state, the time assets spent in it and how often they entered it, by rule."""
    longest = max((max(total.running_ms, total.proposed_ms) for total in totals.states), default=0)
    return [_state(total, scenario, max(1, longest)) for total in totals.states]


def _state(total: StateTotal, scenario: Scenario, longest: int) -> dict[str, Any]:
    return {
        "is": total,
        "spec": scenario.spec(total.state),
        "more_ms": total.proposed_ms - total.running_ms,
        "more": total.proposed - total.running,
        "running_bar": round(100 * total.running_ms / longest, 1),
        "proposed_bar": round(100 * total.proposed_ms / longest, 1),
    }


def asset_table(axis: Iterable[int], now: int) -> Table:
    """Return the table of assets. axis: times marked above the timelines, Unix ms."""
    marks = format_html_join("", "<span>{}</span>", ((moment(at, now),) for at in axis))
    timelines = format_html(
        'Timelines: now above, proposed below<span class="timeline-axis">{}</span>', marks
    )
    figures = ("Gained", "Lost", "Earlier", "Later", "Shift in all")
    return Table(
        "trial-results",
        "Asset",
        *map(Column.number, figures),
        Column(timelines),
        "Ends in",
        css="trial-results",
    )


def rows_of(
    trial: Trial, rows: Iterable[TrialResult], scenario: Scenario, totals: Totals
) -> tuple[list[dict[str, Any]], tuple[int, int, int]]:
    """Return the assets whose history would differ, with their timelines, and the span drawn.

    The span is its begin, middle and end, Unix ms.
    """
    rows = list(rows)
    since, until = shown_span((row.difference for row in rows), totals.since, totals.until)
    drawn = [_row_of(trial, row, scenario, since, until) for row in rows]
    return drawn, (since, (since + until) // 2, until)


def _row_of(
    trial: Trial, row: TrialResult, scenario: Scenario, since: int, until: int
) -> dict[str, Any]:
    difference = row.difference
    running, other = bars(scenario, difference, since, until)
    ends = [
        moments[-1][1] if moments else before
        for before, moments in zip(
            difference.before, (difference.running, difference.proposed), strict=True
        )
    ]
    return {
        "is": row,
        "url": asset_path(trial.scenario, row.asset),
        "bars": (("running", running), ("proposed", other)),
        "ends": [None if end is None else scenario.spec(end) for end in ends],
        "other_end": ends[0] != ends[1],
    }


def snapshots(running: Scenario, proposed: Scenario, since: int) -> dict[str, Snapshot]:
    """Return, by bucket, the newest snapshot far enough before the window for both rules.

    The job checks whether it still matches the log and was made by the running rule.
    """
    lead = lead_time(running, (running, proposed))
    if lead is None:
        return {}
    return snapshots_before(running, since - lead)
