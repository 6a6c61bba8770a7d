"""Trials as the pages show them. Times in Unix ms."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.http import urlencode

from dashboard.batch_queries.snapshots import snapshots_before
from dashboard.core.tables import Column, Table
from dashboard.core.times import exact_span, moment
from dashboard.states.board_rows import asset_path
from dashboard.what_if.models import Fared, Trial
from dashboard.what_if.timeline_bars import bars, told_span
from domain.scenario import Scenario, ScenarioError
from domain.scenario_parser import scenario_from_plain
from wire.batch_query import Difference, Snapshot, StateTotal, Totals, lead_time

PAGE = 50
"""Assets of one page."""
STATES = Table(
    "whatif-states",
    "State",
    Column.number("Time as it is"),
    Column.number("Time proposed"),
    Column.number("Difference"),
    Column("Side by side"),
    Column.number("Times entered, as it is"),
    Column.number("Proposed"),
    Column.number("Difference", name="difference in entries"),
)


def totals_of(trial: Trial) -> Totals | None:
    """Return what a trial comes to, None while it is under way."""
    return msgspec.json.decode(trial.totals, type=Totals) if trial.totals else None


def proposed(totals: Totals, known: Scenario) -> Scenario:
    """Return the scenario that was tried, to show its states by.

    It is the known one where the tried one cannot be read.
    """
    try:
        return scenario_from_plain(totals.rules[1])
    except ScenarioError:
        return known


@dataclass(frozen=True, slots=True)
class Beginning:
    """The beginning of some partitions: with what, from which time to which, and why so."""

    means: str
    partitions: Sequence[int]
    first: int
    last: int
    why: str


def began_of(totals: Totals) -> list[Beginning]:
    """Return what both runs began with; those with a state first. None of a trial of long ago."""
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
    """Return from when on histories are compared, Unix ms: not before the log's first record."""
    first = min((began.at for began in totals.began.values()), default=0)
    return max(totals.since, first)


def earlier(running: Scenario) -> str:
    """Return how long before its window a trial starts that begins with nothing, in words; empty
    where that is the log's beginning."""
    if running.lifetime is None:
        return ""
    longest_hold = max((running.holds or {"": 0}).values())
    return exact_span(running.lifetime + (running.forget_delay or 0) + longest_hold)


def states_of(totals: Totals, scenario: Scenario) -> list[dict[str, Any]]:
    """Return per state how long assets were in it under each rule, and how often one got there."""
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
    """Return the table of assets. axis: times that the timelines' head marks, Unix ms."""
    marks = format_html_join("", "<span>{}</span>", ((moment(at, now),) for at in axis))
    timelines = format_html(
        'Timelines: above as it is, below proposed<span class="timeline-axis">{}</span>', marks
    )
    figures = ("Gained", "Lost", "Earlier", "Later", "Shift in all")
    return Table(
        "fared", "Asset", *map(Column.number, figures), Column(timelines), "Ends in", css="fared"
    )


def rows_of(
    trial: Trial, rows: Iterable[Fared], scenario: Scenario, totals: Totals
) -> tuple[list[dict[str, Any]], tuple[int, int, int]]:
    """Return assets that would have fared otherwise, with their timelines, and the span of these.

    The span is the begin, middle and end that they are drawn over, Unix ms.
    """
    pairs = [(row, msgspec.json.decode(row.record, type=Difference)) for row in rows]
    since, until = told_span((each for _, each in pairs), totals.since, totals.until)
    drawn = [_row_of(trial, row, each, scenario, since, until) for row, each in pairs]
    return drawn, (since, (since + until) // 2, until)


def _row_of(
    trial: Trial, row: Fared, difference: Difference, scenario: Scenario, since: int, until: int
) -> dict[str, Any]:
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


def propose_url(trial: Trial) -> str:
    """Return where the tried rule can be proposed, with its keys filled in."""
    return f"{reverse('rules:change', args=[trial.scenario])}?{urlencode({'rule': trial.keys})}"


def again_url(trial: Trial) -> str:
    """Return where the same can be tried once more, or otherwise."""
    query = urlencode({"scenario": trial.scenario, "rule": trial.keys})
    return f"{reverse('what_if:trials')}?{query}"


def snapshots(running: Scenario, proposed: Scenario, since: int) -> dict[str, Snapshot]:
    """Return by bucket the newest snapshot that lies far enough before the window for the rules.

    Whether it still meets the log, and was made by the rule that is running, the job sees.
    """
    lead = lead_time(running, (running, proposed))
    if lead is None:
        return {}
    return snapshots_before(running, since - lead)
