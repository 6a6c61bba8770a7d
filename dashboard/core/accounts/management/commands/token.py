"""`manage.py token USER`: API tokens from the command line."""

from __future__ import annotations

from argparse import ArgumentParser
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from dashboard.core.accounts import tokens
from dashboard.core.accounts.models import ApiToken
from dashboard.core.audit.log import Actor, record

MAX_DAYS = 3650
MAX_LABEL = 100


class Command(BaseCommand):
    """Issue, list and revoke a user's API tokens."""

    help = "Print a new API token of USER (shown this once), or list or revoke USER's tokens."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add the user's name and the options."""
        parser.add_argument("user", help="the user's name")
        parser.add_argument("--label", default="", help="what the token is for")
        parser.add_argument(
            "--scope",
            action="append",
            choices=list(tokens.SCOPES),
            help="what it may be used for; may be repeated (default: all that the role allows)",
        )
        parser.add_argument("--days", type=int, help="how long it is good for (default: no end)")
        what = parser.add_mutually_exclusive_group()
        what.add_argument("--list", action="store_true", help="list the user's tokens")
        what.add_argument("--revoke", metavar="PREFIX", help="revoke the token with this prefix")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Issue, list or revoke tokens. Raises CommandError for an invalid argument."""
        user = User.objects.filter(username=options["user"]).first()
        if user is None:
            raise CommandError(f"There is no user {options['user']!r}.")
        if options["list"]:
            self._list(user)
        elif options["revoke"]:
            self._revoke(user, options["revoke"])
        else:
            self._issue(user, options)

    def _issue(self, user: User, options: dict[str, Any]) -> None:
        now, days, label = timezone.now(), options["days"], options["label"]
        if days is not None and not 1 <= days <= MAX_DAYS:
            raise CommandError(f"--days is {days}: expected 1 to {MAX_DAYS}.")
        if len(label) > MAX_LABEL or not label.isprintable():
            raise CommandError(f"--label: expected at most {MAX_LABEL} printable characters.")
        expires_at = None if days is None else now + timedelta(days=days)
        try:
            token = tokens.issue(
                user, now, label, options["scope"] or tuple(tokens.SCOPES), expires_at
            )
        except tokens.TooManyTokens as error:
            raise CommandError(str(error)) from error
        tokens.log_issued(Actor.shell(), token)
        self.stdout.write(token)

    def _list(self, user: User) -> None:
        now = timezone.now()
        for row in user.api_tokens.order_by("created_at", "pk"):
            self.stdout.write(
                f"{row.prefix}  {_state(row, now)}  made {_at(row.created_at)}  "
                f"last used {_at(row.last_used_at)}  ends {_at(row.expires_at)}  "
                f"[{row.scopes}]  {row.label}".rstrip()
            )

    def _revoke(self, user: User, prefix: str) -> None:
        if not user.api_tokens.revoke(prefix, timezone.now()):
            raise CommandError(
                f"{user.username} has no token {prefix!r} in force; see manage.py token "
                f"{user.username} --list."
            )
        record(Actor.shell(), "token.revoked", target=user.username, token=prefix)
        self.stdout.write(f"Token {prefix} of {user.username} is revoked.")


def _state(row: ApiToken, now: datetime) -> str:
    if row.revoked_at:
        return f"revoked {_at(row.revoked_at)}"
    return "expired" if row.expired(now) else "in force"


def _at(when: datetime | None) -> str:
    return f"{when:%Y-%m-%d %H:%M} UTC" if when else "never"
