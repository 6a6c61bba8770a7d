"""The tables of a summary's page."""

from __future__ import annotations

from dashboard.core.tables import Column, Table

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
    Column.number("To acknowledge", "on average"),
    Column.number("To all-clear", "on average"),
    Column("Observed", "how much of the time up to now", name="observed"),
)


def _groups(title: str, name: str) -> Table:
    columns = tuple(
        Column("Change", each.hint) if each.name == "change" else each for each in _FIGURES
    )
    return Table(name, title, *columns, css="figures-table")


SCENARIOS = _groups("Scenario", "summary-scenarios")
LABELS = _groups("Value", "summary-labels")
WORST = Table(
    "summary-worst",
    "Asset",
    "Scenario",
    Column.number("In bad states"),
    Column("Change", "against the period before"),
    Column.number("Unconfirmed"),
    Column.number("Incidents"),
)
OVERRIDES = Table(
    "summary-overrides", "Asset", "Scenario", "To state", "By", "Why", Column.time("When"),
    Column.time("Until"),
)  # fmt: skip
RUNS = Table(
    "summary-runs", "Command", "Scenario", "By", "Why", Column.time("When"),
    Column.number("Matched"), Column.number("Applied"),
)  # fmt: skip
TIMELINES = Table(
    "", "Asset", Column("When", "the whole width is the period"), Column("In them", numeric=True),
    Column("Incidents", numeric=True), css="timelines",
)  # fmt: skip
