"""Retention: how long rows are kept, and how many, declared once per kind; rows go in portions."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.db import models
from django.db.models import Q, QuerySet

from dashboard.core.common.times import DAY_MS

PORTION = 900
"""Rows deleted per transaction: few, so that nobody waits long for the lock."""
LONGEST_PAUSE_S = 0.25
"""Longest pause after a portion, s.

The pause is as long as the portion took, so that others waiting for the lock get it: SQLite does
not queue them.
"""


def delete_rows(rows: QuerySet[Any]) -> int:
    """Delete rows and those that refer to them. Returns how many, not counting the latter."""
    return rows.delete()[1].get(rows.model._meta.label, 0)  # noqa: SLF001 - Django's documented API


@dataclass(frozen=True, slots=True)
class Retention:
    """How long rows are kept after `time`, and at most how many; beyond that the oldest go."""

    what: str
    """What is kept, as docs/operations.md calls it."""
    model: type[models.Model]
    time: str
    kept_ms: int | None = None
    at_most: int | None = None
    condition: Q = field(default_factory=Q)
    also_past: str = ""
    """Another time field that, if a row has it, must be as long ago too."""
    unit_ms: int = 1
    """The unit of the times, in ms."""
    delete: Callable[[Any], int] = delete_rows
    """Deletes a portion, and returns how many rows."""
    by_scenario: bool = False
    """Whether a scenario may have its own period; an index then begins with its column."""
    least_ms: int = DAY_MS
    """Shortest such period."""

    def apply(self, now: int, periods: Mapping[str, int] | None = None) -> int:
        """Delete rows that have expired at `now` (Unix ms) or exceed the limit. Returns how many.

        periods: by scenario, for those with their own period, ms.
        """
        expired = sum(delete_in_portions(rows, self.delete) for rows in self._expired(now, periods))
        return expired + (0 if self.at_most is None else self._delete_surplus(self.at_most))

    @property
    def key(self) -> str:
        """The database key of what is kept."""
        return self.model._meta.label_lower  # noqa: SLF001 - Django's documented API

    def before(self, scenario: str, edge: int) -> QuerySet[Any]:
        """Return a scenario's rows from before a time (Unix ms)."""
        return self._before(edge).filter(scenario=scenario)

    def scenarios(self) -> Iterator[str]:
        """Yield the scenarios that have rows, and "" if rows belong to several or none.

        Each takes one index lookup.
        """
        rows = self.model._default_manager.order_by("scenario")  # noqa: SLF001 - documented API
        name: str | None = ""
        if rows.filter(scenario="").exists():
            yield ""
        while name := rows.filter(scenario__gt=name).values_list("scenario", flat=True).first():
            yield name

    def _expired(self, now: int, periods: Mapping[str, int] | None) -> Iterator[QuerySet[Any]]:
        if self.by_scenario:
            for name in self.scenarios():
                kept_ms = (periods or {}).get(name, self.kept_ms)
                if kept_ms is not None:
                    yield self.before(name, now - kept_ms)
        elif self.kept_ms is not None:
            yield self._before(now - self.kept_ms)

    def _before(self, before: int) -> QuerySet[Any]:
        edge = before // self.unit_ms
        rows = self._rows.filter(**{f"{self.time}__lt": edge})
        if self.also_past:
            unset, past = {self.also_past: None}, {f"{self.also_past}__lt": edge}
            rows = rows.filter(Q(**unset) | Q(**past))
        return rows

    def _delete_surplus(self, at_most: int) -> int:
        return delete_surplus(self._rows.order_by(f"-{self.time}", "-pk"), at_most, self.delete)

    @property
    def _rows(self) -> QuerySet[Any]:
        return self.model._default_manager.filter(self.condition)  # noqa: SLF001 - documented API


@dataclass(frozen=True, slots=True)
class Thinning:
    """Rows that are deleted by a function of their own."""

    what: str
    """What is kept, as docs/operations.md calls it."""
    apply: Callable[[int], int]
    """Deletes what is too old or too much at a time (Unix ms), and returns how many rows."""
    kept_ms: int | None = None
    at_most: int | None = None


def delete_in_portions(
    rows: QuerySet[Any], delete: Callable[[Any], int] = delete_rows, begin: int = 0
) -> int:
    """Delete rows from position `begin` of their order on, in portions. Returns how many."""
    total = 0
    while portion := list(rows.values_list("pk", flat=True)[begin : begin + PORTION]):
        begun = time.monotonic()
        total += delete(rows.filter(pk__in=portion))
        if len(portion) == PORTION:
            time.sleep(min(time.monotonic() - begun, LONGEST_PAUSE_S))
    return total


def delete_surplus(
    ordered: QuerySet[Any], at_most: int, delete: Callable[[Any], int] = delete_rows
) -> int:
    """Delete all but the first `at_most` rows. Returns how many."""
    return delete_in_portions(ordered, delete, begin=at_most)
