"""`manage.py snapshot`: take a snapshot of every bucket's fold now."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from bus.base import BusError
from dashboard.core.rules.log_replay import snapshot_now


class Command(BaseCommand):
    """Take a snapshot of every bucket's fold, as the worker does once a day."""

    help = "Keeps a snapshot of every bucket's fold, as the worker does once a day."

    def handle(self, *_args: Any, **_options: Any) -> None:
        """Take the snapshots and print how many. Raises CommandError."""
        try:
            self.stdout.write(f"{snapshot_now()} buckets")
        except BusError as error:
            raise CommandError(str(error)) from None
