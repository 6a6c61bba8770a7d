"""`manage.py check_summaries`: check incidents, spans and sums against the changes of states."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from datetime import date, timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.times import DAY_MS, now_ms, utc
from dashboard.core.states.queries import consistent
from dashboard.notify.summaries.check import SumDifference, differences, row_differences
from dashboard.notify.summaries.models import ReportingZone
from dashboard.notify.summaries.raw_history import recounting
from dashboard.notify.summaries.rollups import first_day
from dashboard.notify.summaries.tasks import keep_answers
from dashboard.notify.summaries.times import reaches
from domain.history.periods import Span, begin_of


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
        number = sum(self._check(name, options["first"], options["last"]) for name in names)
        if options["last"] is None:
            number += self._check_answers()
        self.stdout.write(
            "Compared are incidents and spans since each asset's first change that retention "
            "keeps, sums of whole hours since then, and without --to the answers that are kept "
            "about what goes on."
        )
        self.stdout.write(f"{number} differences" if number else "No difference.")
        if number:
            sys.exit(1)

    def _check(self, scenario: str, first: date | None, last: date | None) -> int:
        """List a scenario's differences, and return how many there are."""
        zone, now = ReportingZone.objects.chosen(), now_ms()
        oldest = first_day(zone, now)
        begin = begin_of(max(first or oldest, oldest), zone)
        end = (
            begin_of(last + timedelta(days=1), zone) if last else now + DAY_MS
        )  # far enough for clocks that are ahead
        with consistent():
            number = self._list(row_differences(scenarios()[scenario], Span(begin, end)))
        reach = reaches([scenario]).get(scenario)
        if reach is None:
            self.stdout.write(f"{scenario}: nothing is summed up yet.")
            return number
        return number + self._list(differences(scenario, begin, min(end, reach.hours)))

    def _list(self, found: Iterable[SumDifference]) -> int:
        """List differences, and return how many there are."""
        number = 0
        for number, each in enumerate(found, 1):  # noqa: B007 - their number is returned
            figures = f"kept {each.kept}, counted {each.counted}"
            asset = f" {each.asset}" if each.asset else ""
            self.stdout.write(f"{each.scenario} {utc(each.begin)}{asset} {each.what}: {figures}")
        return number

    def _check_answers(self) -> int:
        """List the kept answers that change when they are computed again, and return how many."""
        with recounting() as keys:
            keep_answers(now_ms())
        for key in keys:
            self.stdout.write(f"kept answer {key}: another one is counted")
        return len(keys)
