"""`manage.py prepare`: the database brought up to date, with what is the demo's or without."""

from __future__ import annotations

from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand


class Command(BaseCommand):
    """A command that does in one process what every start needs before the other processes."""

    help = "Apply migrations; with the demo make its users, rule and labels, else let them go."

    def handle(self, *_args: Any, **_options: Any) -> None:
        """Apply migrations, then make what is the demo's, or switch it off."""
        call_command("migrate", interactive=False, verbosity=1, stdout=self.stdout)
        call_command("demo_users", stdout=self.stdout)
        call_command("demo_notifications", stdout=self.stdout)
        call_command("demo_labels", stdout=self.stdout)
