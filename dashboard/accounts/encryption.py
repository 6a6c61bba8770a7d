"""Encryption of what the database keeps secret, with keys that lie outside of it.

A text is sealed with the first key, and opened with any. So keys are changed in three steps: a new
one is put before the old one, `manage.py reseal` seals everything with it, the old one is removed.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Callable
from functools import lru_cache
from hashlib import sha256

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings

from config.settings import Settings

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
