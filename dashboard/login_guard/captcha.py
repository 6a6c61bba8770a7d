"""The captcha: a proof of work by the protocol of ALTCHA, which a browser does by itself.

Nothing is to be seen, heard or typed. It is scrypt, as that needs memory, which a graphics card has
little of for each of its cores, and as browsers can do it over plain http without SubtleCrypto.
"""

from __future__ import annotations

import secrets
import time
from typing import Any, Literal

from altcha import Payload, create_challenge, verify_solution
from django.core.cache import caches
from django.utils.crypto import salted_hmac

Reason = Literal["wrong", "expired", "replayed"]

LIFETIME_S = 600
"""How long a challenge may be solved: whoever types slowly has the time."""

# Each try of the browser takes a MiB and, on a small machine, four milliseconds.
COST, BLOCK_SIZE = 1024, 8
# The tries that are needed, at least and at most: one to three seconds.
FEWEST_TRIES, MOST_TRIES = 200, 600


class CaptchaRefused(ValueError):
    """A solution does not count; `reason` says why not."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason)
        self.reason = reason


def new_challenge(client: str) -> dict[str, Any]:
    """Return a challenge for this client alone, as ALTCHA writes it in JSON."""
    tries = FEWEST_TRIES + secrets.randbelow(MOST_TRIES - FEWEST_TRIES)
    challenge = create_challenge(
        "SCRYPT",
        COST,
        counter=tries,
        memory_cost=BLOCK_SIZE,
        parallelism=1,
        expires_at=int(time.time()) + LIFETIME_S,
        hmac_secret=_secret("challenge", client),
        hmac_key_secret=_secret("solution", client),
    )
    return dict(challenge.to_dict())


def redeem(client: str, text: str) -> None:
    """Take a solution, which counts once. Raises CaptchaRefused.

    text: ALTCHA's payload: a challenge and its solution, JSON in Base64.
    """
    try:
        payload = Payload.from_base64(text)
    except (ValueError, KeyError, TypeError, RecursionError):
        raise CaptchaRefused("wrong") from None
    secret, key_secret = _secret("challenge", client), _secret("solution", client)
    result = verify_solution(payload, secret, hmac_key_secret=key_secret)
    if not result.verified:
        raise CaptchaRefused("expired" if result.expired else "wrong")
    used = f"used:{payload.challenge.signature}"
    if not caches["captchas"].add(used, True, LIFETIME_S):
        raise CaptchaRefused("replayed")


def _secret(purpose: str, client: str) -> str:
    """Return the key of a client's challenges or solutions: another client's do not fit it."""
    return salted_hmac(f"tallyboard.captcha.{purpose}", client, algorithm="sha256").hexdigest()
