"""`manage.py demo_users`: one user per role."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from dashboard.accounts import demo


class Command(BaseCommand):
    """Makes the demo's users where they are missing."""

    help = "Make the users operator, admin and manager; their passwords are kept in a file."

    def handle(self, *_args: Any, **_options: Any) -> None:
        """Make the users and say where their passwords are."""
        data_dir = settings.DATA_DIR
        try:
            logins = demo.ensure(data_dir)
        except (OSError, ValueError) as error:
            raise CommandError(f"The demo's users could not be made: {error}") from error
        self.stdout.write(f"Users {', '.join(logins)}: passwords in {data_dir / demo.FILE}")
