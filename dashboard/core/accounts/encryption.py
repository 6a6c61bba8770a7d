"""What the database keeps secret: sealed with keys that lie outside, second factors among it."""

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
# Encryption of what the database keeps secret, with keys that lie outside of it.
#
# A text is sealed with the first key, and opened with any. So keys are changed in three steps: a
# new one is put before the old one, `manage.py reseal` seals everything with it, the old one is
# removed.

# How a sealed text begins: no secret of a second factor does, which are base 32 or hexadecimal.
SEALED = "gAAAA"


Resealed = tuple[int, list[str]]
"""How many secrets were sealed again, and the names of those that no key opens."""
OTHER_SECRETS: list[Callable[[], Resealed]] = []
"""Each seals the secrets of a higher package again, which registers it when Django starts."""


class NoKey(Exception):
    """None of the keys opens a sealed text."""


def seal(text: str) -> str:
    """Return the text sealed with the first key."""
    return _box(settings.TALLYBOARD).encrypt(text.encode()).decode()


def unseal(text: str) -> str:
    """Return the text that was sealed; a text that never was sealed is returned as it is.

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
    """Return Fernet for a key: any long random text, of which Fernet's own form is a digest."""
    return Fernet(urlsafe_b64encode(sha256(key.encode()).digest()))


# ---- one time codes ------------------------------------------------------------------------------
# One-time codes of second factors, each of which counts once (RFC 6238, 5.2).
#
# A code is accepted for a while before and after its half minute. So the factor's row has the
# counter of the newest code that was accepted, and neither it nor an older one is accepted again.

NEWEST = "newest_counter"
"""Under this name a factor's data has the counter of the newest code that was accepted."""


def accepts(factor: Authenticator, code: str) -> bool:
    """Return whether a code of a factor counts now; it does not count again. Raises ValidationError
    where no key opens the factor's secret."""
    if factor.type != Authenticator.Type.TOTP:
        return bool(factor.wrap().validate_code(code))
    counter = counter_of(decrypt(factor.data["secret"]), code)
    return counter is not None and use(factor, counter)


def counter_of(secret: str, code: str) -> int | None:
    """Return the half minute, since 1970, whose code this is; None if it is not one of those that
    are accepted now."""
    counter: int
    for counter in auth.yield_hotp_counters_from_time():
        expected = auth.format_hotp_value(auth.hotp_value(secret, counter))
        if compare_user_code(actual=code, expected=expected):
            return counter
    return None


def use(factor: Authenticator, counter: int) -> bool:
    """Store that the code of a counter was used. Returns False where it, or a newer one, was."""
    if counter <= factor.data.get(NEWEST, -1):
        return False
    data = {**factor.data, NEWEST: counter}
    # Of two logins at once one changes the row; the other finds it changed.
    if Authenticator.objects.filter(pk=factor.pk, data=factor.data).update(data=data) != 1:
        return False
    factor.data = data
    return True


# ---- factors -------------------------------------------------------------------------------------
# Second factors: their secrets are sealed in the database.

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
