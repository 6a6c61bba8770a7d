"""`manage.py check_summaries`: kept sums, held against the changes of states."""

from __future__ import annotations

import sys
from datetime import date, timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from dashboard.core.scenarios import scenarios
from dashboard.core.times import now_ms, utc
from dashboard.summaries.check import differences
from dashboard.summaries.rollups import first_day
from dashboard.summaries.targets import reporting_zone
from dashboard.summaries.times import reaches
from domain.history.periods import begin_of


class Command(BaseCommand):
    """The command that lists each sum that raw history contradicts; exit code 1 if any."""

    help = "Adds raw history up again, and lists every difference from the kept sums."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add --scenario, --from and --to."""
        parser.add_argument("--scenario", help="only this one (all)")
        parser.add_argument(
            "--from", dest="first", type=date.fromisoformat, help="first day (of raw history)"
        )
        parser.add_argument("--to", dest="last", type=date.fromisoformat, help="last day (today)")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Compare. Exit code 0: no difference, 1: differences. Raises CommandError."""
        names = [options["scenario"]] if options["scenario"] else list(scenarios())
        if unknown := [name for name in names if name not in scenarios()]:
            known = ", ".join(scenarios())
            raise CommandError(f"--scenario: expected one of {known}, got {unknown[0]}")
        number = sum(self._check(name, options["first"], options["last"]) for name in names)
        self.stdout.write(f"{number} differences" if number else "No difference.")
        if number:
            sys.exit(1)

    def _check(self, scenario: str, first: date | None, last: date | None) -> int:
        """List a scenario's differences. Returns how many."""
        zone, reach = reporting_zone(), reaches([scenario]).get(scenario)
        if reach is None:
            self.stdout.write(f"{scenario}: nothing is summed up yet.")
            return 0
        oldest = first_day(zone, now_ms())
        begin = begin_of(max(first or oldest, oldest), zone)
        end = begin_of(last + timedelta(days=1), zone) if last else reach.hours
        number = 0
        for each in differences(scenario, begin, min(end, reach.hours)):
            number += 1
            figures = f"kept {each.kept}, counted {each.counted}"
            asset = f" {each.asset}" if each.asset else ""
            self.stdout.write(f"{scenario} {utc(each.begin)}{asset} {each.what}: {figures}")
        return number
