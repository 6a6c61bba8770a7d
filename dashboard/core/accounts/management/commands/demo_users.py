"""`manage.py demo_users`: create the demo's users, or deactivate them if the demo is off."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from dashboard.core.accounts import users
from dashboard.core.common.access import whom_to_ask


class Command(BaseCommand):
    """Create missing demo users; without the demo, deactivate them."""

    help = "With the demo, make its users; without it, deactivate those whose password is its own."

    def handle(self, *_args: Any, **_options: Any) -> None:
        """Create or deactivate the users and print their names. Raises CommandError."""
        do = self._make if settings.TALLYBOARD.demo else self._retire
        try:
            do(settings.DATA_DIR)
        except (OSError, ValueError) as error:
            raise CommandError(f"The demo's users could not be set up: {error}") from error

    def _make(self, data_dir: Path) -> None:
        logins = users.ensure_demo_users(data_dir)
        self.stdout.write(f"Users {', '.join(logins)}: passwords in {data_dir / users.DEMO_LOGINS}")

    def _retire(self, data_dir: Path) -> None:
        gone = users.retire_demo_users(data_dir, timezone.now())
        if gone:
            self.stdout.write(f"The demo is off: deactivated {', '.join(gone)}")
        if not list(whom_to_ask()):
            self.stdout.write("No admin is active: make one with manage.py createsuperuser")
