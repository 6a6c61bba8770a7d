"""`manage.py audit_verify`: check whether the audit's hash chain is intact."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from dashboard.core.audit.hash_chain import verify


class Command(BaseCommand):
    """Check the whole chain."""

    help = "Check the audit's chain of digests; exit code 1 if it is broken."

    def handle(self, *_args: Any, **_options: Any) -> None:
        """Print the result. Raises CommandError if the chain is broken."""
        chain = verify()
        if chain.fault:
            raise CommandError(
                f"The chain is broken: {chain.fault}. Before that, {chain.entries} entries are."
            )
        self.stdout.write(
            f"Whole: {chain.entries} entries, {chain.first} to {chain.last}, digest {chain.digest}"
        )
