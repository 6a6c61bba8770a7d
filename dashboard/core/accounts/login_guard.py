"""The login guard: how clients are identified, records of what they do, and the captcha for those
challenged.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Iterator
from typing import Any, Literal

import structlog
from allauth.core.internal.ratelimit import truncate_ip
from altcha import Payload, create_challenge, verify_solution
from django.core.cache import caches
from django.http import HttpRequest
from django.utils.crypto import salted_hmac

from config.logs import SECURITY
from dashboard.core.audit.log import address_of
from dashboard.core.common.metrics import CAPTCHAS
from dashboard.core.common.scenarios import scenarios
from dashboard.core.states.stores import record_of
from domain.login_windows import Action
from wire.sink import StateValue

# ---- client --------------------------------------------------------------------------------------
# How the guard tells clients apart.

# Of the hash's 64 characters: enough to tell clients apart, too few to be worth guessing.
HASH_LENGTH = 16


def client_of(request: HttpRequest) -> str:
    """Return the request's client as `client-<16 hex digits>`.

    It is a keyed hash of the address, as the login's rate limits see it (the network for IPv6), and
    of the User-Agent. It reveals neither.
    """
    address = truncate_ip(address_of(request))
    agent = request.headers.get("User-Agent", "")
    keyed = salted_hmac("tallyboard.login-guard.client", f"{address}\0{agent}", algorithm="sha256")
    return f"client-{keyed.hexdigest()[:HASH_LENGTH]}"


# ---- events --------------------------------------------------------------------------------------
# What clients do at the login, as records of the security log that the pipeline counts.

log = structlog.get_logger(__name__)
security_log = logging.getLogger(SECURITY)


def log_action(request: HttpRequest, action: Action) -> None:
    """Log what the request's client did. Never blocks, and never raises."""
    client = client_of(request)
    security_log.info("%s: %s", client, action, extra={"client": client, "action": action})


def log_verified(request: HttpRequest) -> None:
    """Log that the request's client has solved a captcha, and flush the log at once.

    Each handler waits as long as its own limit, which is two seconds for Kafka's. The client
    continues even if this fails.
    """
    log_action(request, "verified")
    for handler in _handlers():
        try:
            handler.flush()
        except Exception:  # the captcha is solved even so
            log.exception("the security log could not be shipped")


def _handlers() -> Iterator[logging.Handler]:
    """Yield the handlers of the security log, including those of its parents."""
    logger: logging.Logger | None = security_log
    while logger is not None:
        yield from logger.handlers
        logger = logger.parent if logger.propagate else None


# ---- captcha -------------------------------------------------------------------------------------
# The captcha: a proof of work by the ALTCHA protocol, which the browser computes by itself.
#
# There is nothing to see, hear or type. It uses scrypt because that needs memory, of which a
# graphics card has little per core, and because browsers can compute it over plain HTTP, without
# SubtleCrypto.

Reason = Literal["wrong", "expired", "replayed"]

LIFETIME_S = 600
"""How long a challenge can be solved: enough for slow typists."""

# Each try by the browser takes one MiB and, on a small machine, four milliseconds.
COST, BLOCK_SIZE = 1024, 8
# The fewest and the most tries needed: one to three seconds.
FEWEST_TRIES, MOST_TRIES = 200, 600


class CaptchaRefused(ValueError):
    """A solution is not accepted; `reason` says why."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason)
        self.reason = reason


def new_challenge(client: str) -> dict[str, Any]:
    """Return a challenge for this client only, in ALTCHA's JSON form."""
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
    """Check a solution and use it up, as each is accepted only once. Raises CaptchaRefused.

    text: ALTCHA's payload, which is a challenge with its solution, as JSON in Base64.
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
    """Return the key of a client's challenges or solutions, which fits no other client's."""
    return salted_hmac(f"tallyboard.captcha.{purpose}", client, algorithm="sha256").hexdigest()


# ---- challenge -----------------------------------------------------------------------------------
# The clients that must solve a captcha: those that the board shows as challenged.

SCENARIO, CHALLENGE = "clients", "challenge"

VERIFIED_S = 900
"""How long a client that solved a captcha is not challenged again; the same as in the pipeline."""


def is_challenged(client: str, now: int) -> bool:
    """Return whether the client must solve a captcha before its password is tried. now: Unix ms.

    The rate limits of the login apply in any case, so the answer is False if the state cannot be
    read.
    """
    if SCENARIO not in scenarios():
        return False
    try:
        record = None if is_verified(client) else record_of(SCENARIO, client)
    except Exception:  # whatever is wrong with the board, people can still log in
        log.exception("the state of a client could not be read", client=client)
        CAPTCHAS.labels("unknown").inc()
        return False
    return record is not None and _holds(record, now)


def _holds(record: StateValue, now: int) -> bool:
    """Return whether the state is a challenge by a pin, or by a vote that is still live at `now`.

    If the pipeline or the job is down, nothing else ends a challenge.
    """
    votes = (vote for vote in record.votes if vote.state == CHALLENGE and vote.silent is None)
    live = any(vote.expires is None or now < vote.expires for vote in votes)
    return record.state == CHALLENGE and (record.override is not None or live)


def is_verified(client: str) -> bool:
    """Return whether the client has solved a captcha lately, according to this process's cache."""
    return bool(caches["captchas"].get(_key(client)))


def verify(client: str) -> None:
    """Do not challenge the client again for a while, whatever the pipeline has received."""
    caches["captchas"].set(_key(client), True, VERIFIED_S)


def _key(client: str) -> str:
    return f"verified:{client}"
