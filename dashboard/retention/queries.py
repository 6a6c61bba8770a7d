"""The table of what is kept: how long, how much there is, and what the last run did."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from dashboard.core.scenarios import scenarios
from dashboard.core.tables import Column, Table
from dashboard.core.times import DAY_MS
from dashboard.retention.application import Declared, periods_of
from dashboard.retention.kept import KEPT
from dashboard.retention.models import Remainder


class Line(NamedTuple):
    """A kind of rows, or of a scenario those of its own time. days: by default; own: the
    scenario's own days, None without; left: after the last run, None before the first."""

    what: str
    scenario: str
    days: int | None
    at_most: int | None
    own: int | None
    left: Remainder | None

    @property
    def key(self) -> str:
        """Its name among the table's rows."""
        return f"{self.what}/{self.scenario}"


def lines() -> list[Line]:
    """Return what is kept, in the order in which it is applied; scenarios below their kind."""
    left = {(row.what, row.scenario): row for row in Remainder.objects.all()}
    return [line for each in KEPT for line in _lines(each, left)]


def _lines(each: Declared, left: dict[tuple[str, str], Remainder]) -> Iterator[Line]:
    days = _days(each.kept_ms)
    yield Line(each.what, "", days, each.at_most, None, left.get((each.what, "")))
    own = periods_of(each)
    for name, scenario in scenarios().items():
        rest = left.get((each.what, name))
        if rest or name in own:
            yield Line(each.what, scenario.title, days, None, _days(own.get(name)), rest)


def _days(ms: int | None) -> int | None:
    return None if ms is None else ms // DAY_MS


KEPT_TABLE = Table(
    "",
    "What",
    "Scenario",
    Column("Days", "how long it is kept, by default", numeric=True),
    Column("Own", "days of this scenario in place of the default", numeric=True),
    Column("At most", "rows; then the oldest go", numeric=True),
    Column("Rows", "after the last run", numeric=True),
    "Oldest",
    "Last run",
    Column("Deleted", "rows, by the last run", numeric=True),
)
