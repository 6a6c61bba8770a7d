"""`manage.py judge_replay ID`: reconcile a replay's scenarios and store the outcome."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError, CommandParser

from dashboard.operate.requests.models import DONE, Replay
from dashboard.operate.requests.tasks import compare


class Command(BaseCommand):
    """Compare a replay with the log and store the outcome with the replay."""

    help = "Reconcile the scenarios of a replay, and store the result for its page."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the replay's id."""
        parser.add_argument("id", type=UUID, help="of the replay, as its page shows it")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Compare. Raises CommandError if that failed or found differences."""
        try:
            row = compare(options["id"])
        except Replay.DoesNotExist:
            raise CommandError(f"id: expected that of a replay, got {options['id']}") from None
        if row.reconcile != DONE or row.differences:
            raise CommandError(row.problem)
        self.stdout.write(f"{row.records:,} records, {row.compared:,} assets, 0 differences")
