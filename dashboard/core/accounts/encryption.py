"""Encryption of secrets in the database with keys kept outside it, and of second factors."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Callable
from functools import lru_cache
from hashlib import sha256
from typing import Any

import structlog
from allauth.core.internal.cryptokit import compare_user_code
from allauth.mfa.adapter import DefaultMFAAdapter
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.internal import auth
from allauth.mfa.utils import decrypt
from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings
from django.core.exceptions import ValidationError

from config.settings import Settings

# ---- encryption ----------------------------------------------------------------------------------
# Encryption of secrets in the database, with keys kept outside it.
#
# A text is encrypted with the first key and decrypted with any of them. So keys are rotated in
# three steps: put a new key before the old one, encrypt everything with it by `manage.py reseal`,
# and remove the old one.

# The prefix of an encrypted text. Secrets of second factors, base 32 or hexadecimal, never have it.
SEALED = "gAAAA"


Resealed = tuple[int, list[str]]
"""How many secrets were encrypted again, and the names of those that no key can decrypt."""
OTHER_SECRETS: list[Callable[[], Resealed]] = []
"""Functions that encrypt the secrets of higher packages again; these register them at startup."""


class NoKey(Exception):
    """None of the keys decrypts a text."""


def seal(text: str) -> str:
    """Return the text encrypted with the first key."""
    return _box(settings.TALLYBOARD).encrypt(text.encode()).decode()


def unseal(text: str) -> str:
    """Return the decrypted text; a text that was never encrypted is returned unchanged.

    Raises NoKey.
    """
    if not text.startswith(SEALED):
        return text
    try:
        return _box(settings.TALLYBOARD).decrypt(text.encode()).decode()
    except InvalidToken:
        raise NoKey(
            "No key in TALLYBOARD_DATA_KEYS, or in the file data-key in the data "
            "directory, opens this."
        ) from None


@lru_cache(maxsize=4)
def _box(tallyboard: Settings) -> MultiFernet:
    return MultiFernet([_fernet(key) for key in tallyboard.sealing_keys()])


def _fernet(key: str) -> Fernet:
    """Return Fernet for a key, which may be any long random text: Fernet gets a digest of it."""
    return Fernet(urlsafe_b64encode(sha256(key.encode()).digest()))


# ---- one time codes ------------------------------------------------------------------------------
# One-time codes of second factors, each accepted only once (RFC 6238, 5.2).
#
# A code is accepted for a while before and after its half minute. So the factor's row stores the
# counter of the newest code accepted, and neither that code nor an older one is accepted again.

NEWEST = "newest_counter"
"""The name, in a factor's data, of the counter of the newest code accepted."""


def accepts(factor: Authenticator, code: str) -> bool:
    """Return whether a code of a factor is valid now, and use it up if so.

    Raises ValidationError if no key decrypts the factor's secret.
    """
    if factor.type != Authenticator.Type.TOTP:
        return bool(factor.wrap().validate_code(code))
    counter = counter_of(decrypt(factor.data["secret"]), code)
    return counter is not None and use(factor, counter)


def counter_of(secret: str, code: str) -> int | None:
    """Return the counter of a code: its half minute since 1970.

    None if the code is not one of those accepted now.
    """
    counter: int
    for counter in auth.yield_hotp_counters_from_time():
        expected = auth.format_hotp_value(auth.hotp_value(secret, counter))
        if compare_user_code(actual=code, expected=expected):
            return counter
    return None


def use(factor: Authenticator, counter: int) -> bool:
    """Mark the code of a counter as used. Return False if it, or a newer one, already was."""
    if counter <= factor.data.get(NEWEST, -1):
        return False
    data = {**factor.data, NEWEST: counter}
    # If two logins run at once, only one updates the row; the other finds it changed.
    if Authenticator.objects.filter(pk=factor.pk, data=factor.data).update(data=data) != 1:
        return False
    factor.data = data
    return True


# ---- factors -------------------------------------------------------------------------------------
# Second factors, whose secrets are encrypted in the database.

log = structlog.get_logger(__name__)

# The names under which the login library stores the secrets behind codes.
SECRETS = ("secret", "seed")


class SealedFactors(DefaultMFAAdapter):
    """Allauth's hooks, which encrypt and decrypt the secrets of second factors."""

    def encrypt(self, text: str) -> str:
        """Return the text as the database stores it."""
        return seal(text)

    def decrypt(self, encrypted_text: str) -> str:
        """Return the decrypted text.

        Raises ValidationError, which the code form shows, if there is no key for it.
        """
        try:
            return unseal(encrypted_text)
        except NoKey as error:
            log.exception("a second factor cannot be read", why=str(error))
            raise ValidationError(
                "This second factor can no longer be read: its key is missing. "
                "An admin can remove the factor."
            ) from None


def resealed(data: dict[str, Any]) -> dict[str, Any]:
    """Return a factor's data with its secrets encrypted with the first key. Raises NoKey."""
    again: dict[str, Any] = {name: seal(unseal(data[name])) for name in SECRETS if name in data}
    if isinstance(codes := data.get("migrated_codes"), list):
        again["migrated_codes"] = [seal(unseal(code)) for code in codes]
    return {**data, **again}
