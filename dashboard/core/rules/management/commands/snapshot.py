"""`manage.py snapshot`: take a snapshot of every bucket's fold now."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from bus.base import BusError
from dashboard.core.rules.log_replay import FoldProblem, snapshot_now


class Command(BaseCommand):
    """Take a snapshot of every bucket's fold, as the worker does once a day."""

    help = "Keeps a snapshot of every bucket's fold, as the worker does once a day."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add --plain and --kernel."""
        engine = parser.add_mutually_exclusive_group()
        engine.add_argument(
            "--plain", action="store_const", const=False, dest="kernel", help="fold in Python"
        )
        engine.add_argument(
            "--kernel", action="store_const", const=True, dest="kernel", help="fold in Spark"
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        """Take the snapshots and print how many. Raises CommandError."""
        try:
            self.stdout.write(f"{snapshot_now(kernel=options['kernel'])} buckets")
        except (BusError, FoldProblem) as error:
            raise CommandError(str(error)) from None
