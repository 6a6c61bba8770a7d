"""`manage.py cache rebuild`: the cache of orders, built again from the log."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from bus.base import BusError
from dashboard.core.kafka_gateway import gateway
from dashboard.orders.cache import configured, rebuild
from stores.base import StoreProblem


class Command(BaseCommand):
    """The command that builds the cache of orders again."""

    help = "Empties the cache of orders, and reads the whole log into it."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add what is to be done."""
        parser.add_argument("action", choices=["rebuild"])

    def handle(self, *_args: Any, **_options: Any) -> None:
        """Rebuild. Raises CommandError where there is no cache, or something does not answer."""
        if not configured():
            raise CommandError("No cache is configured: set TALLYBOARD_REDIS_URL.")
        try:
            rebuilt = rebuild(gateway().bus)
        except (BusError, StoreProblem) as problem:
            raise CommandError(f"Not rebuilt: {problem}") from None
        self.stdout.write(f"{rebuilt.orders:,} active orders, in {rebuilt.took_s:.1f} s")
