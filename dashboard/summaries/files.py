"""The tables of a summary as files. Times in Unix ms, or as ISO 8601 in CSV; durations in ms."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from dashboard.summaries.figures import Delays, Figures, Group, Summary

Rows = Iterable[dict[str, Any]]

FIGURES = (
    "good_ms", "bad_ms", "unconfirmed_ms", "maintenance_ms", "availability", "target_percent",
    "budget_ms", "budget_left_ms", "attacks", "assets", "acknowledged", "acknowledged_mean_ms",
    "acknowledged_p95_ms", "cleared", "cleared_mean_ms", "cleared_p95_ms", "flapping",
    "false_alarms",
)  # fmt: skip


def figures(of: Figures) -> dict[str, Any]:
    """Return figures as a line of a file."""
    times, budget = of.times, of.budget
    return {
        "good_ms": times.good,
        "bad_ms": times.bad,
        "unconfirmed_ms": times.unconfirmed,
        "maintenance_ms": times.maintenance,
        "availability": times.availability,
        "target_percent": budget.target if budget else None,
        "budget_ms": budget.whole if budget else None,
        "budget_left_ms": budget.left if budget else None,
        "attacks": of.attacks,
        "assets": of.assets,
        **_delays("acknowledged", of.acknowledged),
        **_delays("cleared", of.cleared),
        "flapping": of.flapping,
        "false_alarms": of.false_alarms,
    }


def _delays(name: str, of: Delays) -> dict[str, Any]:
    return {name: of.count, f"{name}_mean_ms": of.mean, f"{name}_p95_ms": of.p95}


def _whole(found: Summary) -> Rows:
    for which, of in (("now", found.whole.now), ("before", found.whole.before)):
        span = found.span if which == "now" else found.before
        yield {"period": which, "begin": span.begin, "end": span.end, **figures(of)}


def _groups(groups: Iterable[Group], name: str) -> Rows:
    for group in groups:
        for which, of in (("now", group.now), ("before", group.before)):
            yield {name: group.name, "period": which, **figures(of)}


def _days(found: Summary) -> Rows:
    return ({"day": str(each.day), "bad_ms": each.bad} for each in found.heat)


def _hours(found: Summary) -> Rows:
    return (
        {"weekday": weekday + 1, "hour": hour, "bad_ms": ms}
        for weekday, day in enumerate(found.week)
        for hour, ms in enumerate(day)
    )


WORST = ("scenario", "asset", "bad", "unconfirmed", "attacks", "before")
INCIDENTS = (
    "id", "scenario", "asset", "label", "worst", "began_at", "ended_at", "acknowledged_at",
    "acknowledged_by", "within",
)  # fmt: skip
OVERRIDES = ("at", "scenario", "asset", "state", "username", "reason", "until")
RUNS = ("id", "at", "scenario", "kind", "state", "username", "reason", "matched", "applied")

# By the file's name: its columns, and its rows.
FILES: dict[str, tuple[tuple[str, ...], Callable[[Summary], Rows]]] = {
    "figures": (("period", "begin", "end", *FIGURES), _whole),
    "scenarios": (
        ("scenario", "period", *FIGURES), lambda found: _groups(found.scenarios, "scenario"),
    ),
    "labels": (("value", "period", *FIGURES), lambda found: _groups(found.labels, "value")),
    "days": (("day", "bad_ms"), _days),
    "hours": (("weekday", "hour", "bad_ms"), _hours),
    "assets": (WORST, lambda found: (each._asdict() for each in found.worst)),
    "incidents": (INCIDENTS, lambda found: (each._asdict() for each in found.incidents)),
    "overrides": (OVERRIDES, lambda found: (each._asdict() for each in found.overrides)),
    "runs": (RUNS, lambda found: (each._asdict() for each in found.runs)),
}  # fmt: skip
TITLES = {
    "figures": "Figures",
    "scenarios": "By scenario",
    "labels": "By label",
    "days": "By day",
    "hours": "By weekday and hour",
    "assets": "Worst assets",
    "incidents": "Incidents",
    "overrides": "Overrides",
    "runs": "Bulk runs",
}
