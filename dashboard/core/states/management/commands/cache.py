"""`manage.py cache rebuild`: rebuild the cache of states from the log."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from bus.base import BusError
from dashboard.core.common.kafka import gateway
from dashboard.core.states.stores import configured, rebuild, stored_scenarios
from stores.base import StoreProblem


class Command(BaseCommand):
    """Rebuild the cache of states."""

    help = "Empties the cache of each scenario's states, and reads the whole log into it."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the action."""
        parser.add_argument("action", choices=["rebuild"])

    def handle(self, *_args: Any, **_options: Any) -> None:
        """Rebuild the cache. Raises CommandError if no cache is configured or something is down."""
        if not configured():
            raise CommandError("No cache is configured: set TALLYBOARD_REDIS_URL.")
        for name in stored_scenarios():
            try:
                rebuilt = rebuild(gateway().bus, name)
            except (BusError, StoreProblem) as problem:
                raise CommandError(f"{name}: not rebuilt: {problem}") from None
            self.stdout.write(f"{name}: {rebuilt.assets:,} active, in {rebuilt.took_s:.1f} s")
