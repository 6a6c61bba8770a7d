"""`manage.py check_summaries`: check incidents, spans and sums against the changes of states."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from datetime import date, timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.times import DAY_MS, now_ms
from dashboard.core.states.queries import consistent
from dashboard.notify.summaries.check import (
    SumDifference,
    broken_answers,
    differences,
    other_differences,
    row_differences,
    target_differences,
    zone_differences,
)
from dashboard.notify.summaries.models import MOST_LINES, FigureCheck, ReportingZone
from dashboard.notify.summaries.phrases import count
from dashboard.notify.summaries.raw_history import recounting
from dashboard.notify.summaries.rollups import first_day
from dashboard.notify.summaries.tasks import keep_answers
from dashboard.notify.summaries.times import reaches
from domain.history.periods import Span, begin_of

COMPARED = (
    "Compared are incidents, their acknowledgements, alarms and spans since each asset's first "
    "change that retention keeps, sums of whole hours since then, zone and targets with the audit, "
    "and without --to the answers that are kept."
)


class Command(BaseCommand):
    """List each row and sum that contradicts the changes of states; exit code 1 if any does."""

    help = "Counts the changes of states again, and lists each incident, span and sum that differs."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add --scenario, --from and --to."""
        parser.add_argument("--scenario", help="only this one (all)")
        parser.add_argument(
            "--from", dest="first", type=date.fromisoformat, help="first day (of raw history)"
        )
        parser.add_argument("--to", dest="last", type=date.fromisoformat, help="last day (today)")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Compare and exit. Exit code 0: no difference, 1: differences. Raises CommandError."""
        names = [options["scenario"]] if options["scenario"] else list(scenarios())
        if unknown := [name for name in names if name not in scenarios()]:
            known = ", ".join(scenarios())
            raise CommandError(f"--scenario: expected one of {known}, got {unknown[0]}")
        self.lines: list[str] = []
        self.number = 0
        self.pages: set[str] = set()
        whole = not any(options[name] for name in ("scenario", "first", "last"))
        check = FigureCheck.objects.create(begun_at=now_ms()) if whole else None
        self._list(zone_differences(now_ms()))
        for name in names:
            self._check(name, options["first"], options["last"])
        if options["last"] is None:
            self._check_answers()
        self._conclude()
        if check is not None:
            check.end(self.number, self.lines, self.pages, now_ms())
        if self.number:
            sys.exit(1)

    def _conclude(self) -> None:
        """Write which pages showed differences, what was compared, and how many there are."""
        for page in sorted(self.pages)[:MOST_LINES]:
            self.stdout.write(f"Shown by {page}")
        self.stdout.write(COMPARED)
        number = count(self.number, "difference") if self.number else "No difference"
        self.stdout.write(f"{number}.")

    def _check(self, scenario: str, first: date | None, last: date | None) -> None:
        """List a scenario's differences."""
        zone, now = ReportingZone.objects.chosen(), now_ms()
        oldest = first_day(zone, now)
        begin = begin_of(max(first or oldest, oldest), zone)
        end = (
            begin_of(last + timedelta(days=1), zone) if last else now + DAY_MS
        )  # far enough for clocks that are ahead
        span = Span(begin, end)
        with consistent():
            self._list(row_differences(scenarios()[scenario], span))
            self._list(other_differences(scenario, span))
        self._list(target_differences(scenario, now))
        reach = reaches([scenario]).get(scenario)
        if reach is None:
            self.stdout.write(f"{scenario}: nothing is summed up yet.")
            return
        self._list(differences(scenario, begin, min(end, reach.hours)))

    def _list(self, sum_differences: Iterable[SumDifference]) -> None:
        """List differences, and keep their words and pages."""
        for each in sum_differences:
            self._note(each.words)
            if len(self.pages) < MOST_LINES:
                self.pages.update(each.pages)

    def _note(self, line: str) -> None:
        self.number += 1
        if len(self.lines) < MOST_LINES:
            self.lines.append(line)
        self.stdout.write(line)

    def _check_answers(self) -> None:
        """List the kept answers that change when they are computed again, or that are not as they
        were stored."""
        with recounting() as keys:
            keep_answers(now_ms())
        for key in keys:
            self._note(f"kept answer {key}: another one is counted")
        for row in broken_answers():
            if row.key not in keys:
                self._note(f"kept answer {row.key}: not as it was stored")
