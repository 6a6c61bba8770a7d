"""`manage.py prepare`: bring the database up to date, and set up or remove the demo."""

from __future__ import annotations

from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand


class Command(BaseCommand):
    """Do in one process everything that must happen before the other processes start."""

    help = "Apply migrations; with the demo make its users, rule and labels, else let them go."

    def handle(self, *_args: Any, **_options: Any) -> None:
        """Apply migrations, then set up the demo's data or disable it."""
        call_command("migrate", interactive=False, verbosity=1, stdout=self.stdout)
        call_command("demo_users", stdout=self.stdout)
        call_command("demo_notifications", stdout=self.stdout)
        call_command("demo_labels", stdout=self.stdout)
