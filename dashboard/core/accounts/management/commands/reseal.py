"""`manage.py reseal`: encrypt the database's secrets with the first key."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from allauth.mfa.models import Authenticator
from django.core.management.base import BaseCommand, CommandError
from django.db import transaction

from dashboard.core.accounts.encryption import OTHER_SECRETS, NoKey, resealed
from dashboard.core.audit.log import Actor, record


class Command(BaseCommand):
    """Encrypt every secret again, and name those that no key can decrypt."""

    help = "Encrypt all secrets with the first key, so that the others can be removed."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add the option that removes second factors that no key can decrypt."""
        parser.add_argument(
            "--forget",
            action="store_true",
            help="remove the factors that no key opens: their users log in with the password alone",
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        """Encrypt all secrets again. Raises CommandError if one is left that no key can decrypt."""
        factors = Authenticator.objects.select_related("user")
        lost = [factor for factor in factors if not _reseal(factor)]
        if options["forget"]:
            for factor in lost:
                factor.delete()
                name = factor.user.get_username()
                record(Actor.shell(), "factor.removed", target=name, by="reseal")
        elif lost:
            names = ", ".join(sorted({factor.user.get_username() for factor in lost}))
            raise CommandError(
                f"No key opens second factors of {names}: put the key back into "
                "TALLYBOARD_DATA_KEYS or the file data-key, or remove them with --forget."
            )
        others = [reseal() for reseal in OTHER_SECRETS]
        sealed = Authenticator.objects.count() + sum(n for n, _ in others)
        if unread := [name for _, names in others for name in names]:
            raise CommandError(f"No key opens {', '.join(unread)}: enter their secrets again.")
        self.stdout.write(f"Encrypted again: {sealed}; removed: {len(lost)}.")


@transaction.atomic
def _reseal(factor: Authenticator) -> bool:
    """Encrypt a factor again. Return False if no key can decrypt it."""
    # Read again under a lock: a login stores in it which code was used.
    row = Authenticator.objects.select_for_update().filter(pk=factor.pk).first()
    if row is None:
        return True
    try:
        row.data = resealed(row.data)
    except NoKey:
        return False
    row.save(update_fields=["data"])
    return True
