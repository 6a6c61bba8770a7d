"""Second factors: their secrets are sealed in the database."""

from __future__ import annotations

from typing import Any

import structlog
from allauth.mfa.adapter import DefaultMFAAdapter
from django.core.exceptions import ValidationError

from dashboard.accounts.encryption import NoKey, seal, unseal

log = structlog.get_logger(__name__)

# Under these names the login library keeps what codes are made from.
SECRETS = ("secret", "seed")


class SealedFactors(DefaultMFAAdapter):
    """The login library's hooks."""

    def encrypt(self, text: str) -> str:
        """Return the text as the database keeps it."""
        return seal(text)

    def decrypt(self, encrypted_text: str) -> str:
        """Return the text that was sealed.

        Raises ValidationError, which a form of codes shows, without a key.
        """
        try:
            return unseal(encrypted_text)
        except NoKey as error:
            log.exception("a second factor cannot be read", why=str(error))
            raise ValidationError(
                "This second factor cannot be read any more: its key is missing. "
                "An admin can remove the factor."
            ) from None


def resealed(data: dict[str, Any]) -> dict[str, Any]:
    """Return a factor's data with its secrets sealed with the first key. Raises NoKey."""
    again: dict[str, Any] = {name: seal(unseal(data[name])) for name in SECRETS if name in data}
    if isinstance(codes := data.get("migrated_codes"), list):
        again["migrated_codes"] = [seal(unseal(code)) for code in codes]
    return {**data, **again}
