"""`manage.py prepare`: the database brought up to date, with the demo's users."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand


class Command(BaseCommand):
    """Does in one process what every start needs before the others."""

    help = "Apply migrations and, with the demo, make its users."

    def handle(self, *_args: Any, **_options: Any) -> None:
        """Apply migrations, then make the demo's users."""
        call_command("migrate", interactive=False, verbosity=1, stdout=self.stdout)
        if settings.TALLYBOARD.demo:
            call_command("demo_users", stdout=self.stdout)
