"""`manage.py token USER`: API tokens from the command line."""

from __future__ import annotations

from argparse import ArgumentParser
from datetime import datetime
from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from dashboard.accounts import tokens
from dashboard.accounts.models import ApiToken


class Command(BaseCommand):
    """Issues, lists and revokes a user's API tokens."""

    help = "Print a new API token of USER (shown this once), or list or revoke USER's tokens."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """One user, and what to do."""
        parser.add_argument("user", help="the user's name")
        parser.add_argument("--label", default="", help="what the token is for")
        what = parser.add_mutually_exclusive_group()
        what.add_argument("--list", action="store_true", help="list the user's tokens")
        what.add_argument("--revoke", metavar="PREFIX", help="revoke the token with this prefix")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Do it; a wrong user or prefix is a CommandError."""
        user = User.objects.filter(username=options["user"]).first()
        if user is None:
            raise CommandError(f"There is no user {options['user']!r}.")
        if options["list"]:
            self._list(user)
        elif options["revoke"]:
            self._revoke(user, options["revoke"])
        else:
            self.stdout.write(tokens.issue(user, timezone.now(), options["label"]))

    def _list(self, user: User) -> None:
        for row in ApiToken.objects.filter(user=user).order_by("created_at"):
            state = f"revoked {_at(row.revoked_at)}" if row.revoked_at else "in force"
            self.stdout.write(
                f"{row.prefix}  {state}  made {_at(row.created_at)}  "
                f"last used {_at(row.last_used_at)}  {row.label}".rstrip()
            )

    def _revoke(self, user: User, prefix: str) -> None:
        if not tokens.revoke(user, prefix, timezone.now()):
            raise CommandError(
                f"{user.username} has no token {prefix!r} in force; see manage.py token "
                f"{user.username} --list."
            )
        self.stdout.write(f"Token {prefix} of {user.username} is revoked.")


def _at(when: datetime | None) -> str:
    return f"{when:%Y-%m-%d %H:%M} UTC" if when else "never"
