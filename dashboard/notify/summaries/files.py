"""The tables of a summary, on its page and as files."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from dashboard.core.common.tables import Column, Table
from dashboard.notify.summaries.figures import Delays, FigureGroup, Figures, Observed, PeriodSummary
from dashboard.notify.summaries.phrases import NOT_OBSERVED

# ---- files ---------------------------------------------------------------------------------------
# The tables of a summary as files. Times in Unix ms, or as ISO 8601 in CSV; durations in ms.
#
# Time that was not observed has no figures, and is marked as such.

Rows = Iterable[dict[str, Any]]

FIGURES = (
    "observed", "observed_ms", "observed_share", "good_ms", "bad_ms", "unconfirmed_ms",
    "maintenance_ms", "availability", "target_percent", "target_met", "budget_ms",
    "budget_left_ms", "incidents", "assets", "acknowledged", "acknowledged_mean_ms",
    "acknowledged_median_ms", "acknowledged_p95_ms", "cleared", "cleared_mean_ms",
    "cleared_median_ms", "cleared_p95_ms", "flapping", "false_alarms",
)  # fmt: skip


WHOLLY, PARTLY = "wholly", "partly"
"""How much of a time was observed, besides NOT_OBSERVED."""


def figures(of: Figures) -> dict[str, Any]:
    """Return figures as a row of a file; without values if nothing was observed."""
    own = of.observed
    seen = {
        "observed": how_observed(own),
        "observed_ms": own.ms,
        "observed_share": own.share,
    }
    known = _figures(of) if own.seen else dict.fromkeys(FIGURES)
    return known | seen


def how_observed(own: Observed) -> str:
    """Return whether a time was observed wholly, partly, or not."""
    if not own.seen:
        return NOT_OBSERVED
    return WHOLLY if own.complete else PARTLY


def days(summary: PeriodSummary) -> Rows:
    """Yield the days of a summary."""
    for each in summary.heat:
        observed = NOT_OBSERVED if each.bad is None else PARTLY if each.unobserved else WHOLLY
        share = {"observed": observed, "observed_share": each.share}
        yield {"day": str(each.day), "bad_ms": each.bad, **share}


def _figures(of: Figures) -> dict[str, Any]:
    times, budget = of.times, of.budget
    return {
        "good_ms": times.good,
        "bad_ms": times.bad,
        "unconfirmed_ms": times.unconfirmed,
        "maintenance_ms": times.maintenance,
        "availability": times.availability,
        "target_percent": budget.target if budget else None,
        "target_met": of.target_met,
        "budget_ms": budget.whole if budget else None,
        "budget_left_ms": budget.left if budget else None,
        "incidents": of.incidents,
        "assets": of.assets,
        **_delays("acknowledged", of.acknowledged),
        **_delays("cleared", of.cleared),
        "flapping": of.flapping,
        "false_alarms": of.false_alarms,
    }


def _delays(name: str, of: Delays) -> dict[str, Any]:
    return {
        name: of.count,
        f"{name}_mean_ms": of.mean,
        f"{name}_median_ms": of.median,
        f"{name}_p95_ms": of.p95,
    }


def _whole(summary: PeriodSummary) -> Rows:
    for which, of in (("now", summary.whole.now), ("before", summary.whole.before)):
        span = summary.span if which == "now" else summary.before
        yield {"period": which, "begin": span.begin, "end": span.end, **figures(of)}


def _groups(groups: Iterable[FigureGroup], name: str) -> Rows:
    for group in groups:
        for which, of in (("now", group.now), ("before", group.before)):
            yield {name: group.name, "period": which, **figures(of)}


def _hours(summary: PeriodSummary) -> Rows:
    for weekday, (day, gone) in enumerate(zip(summary.week, summary.week_unobserved, strict=True)):
        for hour, (ms, unobserved) in enumerate(zip(day, gone, strict=True)):
            observed = NOT_OBSERVED if ms is None else PARTLY if unobserved else WHOLLY
            yield {"weekday": weekday + 1, "hour": hour, "bad_ms": ms, "observed": observed}


BURNS = ("burn_1h", "burn_6h", "burn_3d")
TARGETS = (
    "scenario", "observed", "observed_ms", "observed_share", "availability", "target_percent",
    "target_met", "budget_ms", "budget_left_ms", *BURNS,
)  # fmt: skip


def _targets(summary: PeriodSummary) -> Rows:
    for each in summary.targets:
        burns = dict.fromkeys(BURNS) | {
            name: own.rate for name, own in zip(BURNS, each.burn, strict=False)
        }
        row = {"scenario": each.scenario, **figures(each.figures), **burns}
        yield {name: row[name] for name in TARGETS}


def _budgets(summary: PeriodSummary) -> Rows:
    for each in summary.targets:
        for at, left, seen in each.line:
            observed = WHOLLY if seen else NOT_OBSERVED
            yield {"scenario": each.scenario, "at": at, "left_ms": left, "observed": observed}


WORST_FIELDS = ("scenario", "asset", "bad", "unconfirmed", "incidents", "before")
INCIDENTS = (
    "id", "scenario", "asset", "label", "worst", "began_at", "ended_at", "acknowledged_at",
    "acknowledged_by", "within",
)  # fmt: skip
OVERRIDE_FIELDS = ("at", "scenario", "asset", "state", "username", "reason", "until", "ended")
RUN_FIELDS = ("id", "at", "scenario", "kind", "state", "username", "reason", "matched", "applied")

# The columns and the rows of each file, by its name.
FILES: dict[str, tuple[tuple[str, ...], Callable[[PeriodSummary], Rows]]] = {
    "figures": (("period", "begin", "end", *FIGURES), _whole),
    "scenarios": (
        ("scenario", "period", *FIGURES), lambda summary: _groups(summary.scenarios, "scenario"),
    ),
    "targets": (TARGETS, _targets),
    "budgets": (("scenario", "at", "left_ms", "observed"), _budgets),
    "labels": (("value", "period", *FIGURES), lambda summary: _groups(summary.labels, "value")),
    "days": (("day", "bad_ms", "observed", "observed_share"), days),
    "hours": (("weekday", "hour", "bad_ms", "observed"), _hours),
    "assets": (WORST_FIELDS, lambda summary: (each._asdict() for each in summary.worst)),
    "incidents": (INCIDENTS, lambda summary: (each._asdict() for each in summary.incidents)),
    "overrides": (OVERRIDE_FIELDS, lambda summary: (each._asdict() for each in summary.overrides)),
    "runs": (RUN_FIELDS, lambda summary: (each._asdict() for each in summary.runs)),
}  # fmt: skip
TITLES = {
    "figures": "Figures",
    "scenarios": "By scenario",
    "targets": "Targets",
    "budgets": "Error budgets",
    "labels": "By label",
    "days": "By day",
    "hours": "By weekday and hour",
    "assets": "Worst assets",
    "incidents": "Incidents",
    "overrides": "Overrides",
    "runs": "Bulk runs",
}


# ---- tables --------------------------------------------------------------------------------------
# The tables of a summary's page.

_FIGURES = (
    Column.number("Availability", "good time of good and bad time", name="availability"),
    Column("", "against the period before", name="change", hidden=True),
    Column.number("Target"),
    Column.number("Budget left", "of the error budget, the time that may be bad by the target"),
    Column.number("Incidents"),
    Column.number("Assets", "that had any"),
    Column.number("In bad states", "all assets together"),
    Column.number("Unconfirmed"),
    Column.number("Maintenance"),
    Column.number("To acknowledge", "half of them took no longer"),
    Column.number("To all-clear", "half of them took no longer"),
    Column("Observed", "how much of the time up to now", name="observed"),
)


def _table_groups(title: str, name: str) -> Table:
    columns = tuple(
        Column("Change", each.hint) if each.name == "change" else each for each in _FIGURES
    )
    return Table(name, title, *columns, css="figures-table")


SCENARIO_TABLE = _table_groups("Scenario", "summary-scenarios")
LABEL_TABLE = _table_groups("Value", "summary-labels")
TARGET_TABLE = Table(
    "",
    "Scenario",
    "Target",
    Column("Budget over the period", "the whole of it at first; below the dashed line it is spent"),
    Column.number("Left"),
    Column.number("Burn 1 h", "1: spends just the budget; of the last hour"),
    Column.number("6 h", "the same, of the last six hours"),
    Column.number("3 d", "the same, of the last three days"),
    css="budgets",
)
WORST_TABLE = Table(
    "summary-worst",
    "Asset",
    "Scenario",
    Column.number("In bad states"),
    Column("Change", "against the period before"),
    Column.number("Unconfirmed"),
    Column.number("Incidents"),
)
OVERRIDE_TABLE = Table(
    "summary-overrides", "Asset", "Scenario", "To state", "By", "Why", Column.time("When"),
    Column.time("Until"),
)  # fmt: skip
RUN_TABLE = Table(
    "summary-runs", "Command", "Scenario", "By", "Why", Column.time("When"),
    Column.number("Matched"), Column.number("Applied"),
)  # fmt: skip
TIMELINE_TABLE = Table(
    "", "Asset", Column("When", "the whole width is the period"), Column("In them", numeric=True),
    Column("Incidents", numeric=True), css="timelines",
)  # fmt: skip
