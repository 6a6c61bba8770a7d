"""`manage.py audit_verify`: whether the audit's chain is whole."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from dashboard.audit.hash_chain import verify


class Command(BaseCommand):
    """Looks along the whole chain."""

    help = "Look along the audit's chain of digests; ends with 1 where it is not whole."

    def handle(self, *_args: Any, **_options: Any) -> None:
        """Say what was found. Raises CommandError where the chain is not whole."""
        found = verify()
        if found.fault:
            raise CommandError(
                f"The chain is not whole: {found.fault}. Before that, {found.entries} entries are."
            )
        self.stdout.write(
            f"Whole: {found.entries} entries, {found.first} to {found.last}, digest {found.digest}"
        )
