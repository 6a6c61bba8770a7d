"""Which clients must solve a captcha: those that the board shows as challenged."""

from __future__ import annotations

import structlog
from django.core.cache import caches

from dashboard.core.metrics import CAPTCHAS
from dashboard.core.scenarios import scenarios
from dashboard.states.newest import record_of
from wire.sink import StateValue

log = structlog.get_logger(__name__)

SCENARIO, CHALLENGE = "clients", "challenge"

VERIFIED_S = 900
"""How long whoever has solved a captcha is not asked for another, as the pipeline has it."""


def is_challenged(client: str, now: int) -> bool:
    """Return whether the client must solve a captcha before its password is tried. now: Unix ms.

    The limits of the login hold whatever this says, so where the state cannot be read it is no.
    """
    if SCENARIO not in scenarios():
        return False
    try:
        record = None if is_verified(client) else record_of(SCENARIO, client)
    except Exception:  # whatever is wrong with the board, people can log in
        log.exception("the state of a client could not be read", client=client)
        CAPTCHAS.labels("unknown").inc()
        return False
    return record is not None and _holds(record, now)


def _holds(record: StateValue, now: int) -> bool:
    """Return whether the state is a challenge by a pin or a vote that is live at this time: where
    the pipeline or the job is dead, nothing else ends a challenge."""
    votes = (vote for vote in record.votes if vote.state == CHALLENGE and vote.silent is None)
    live = any(vote.expires is None or now < vote.expires for vote in votes)
    return record.state == CHALLENGE and (record.override is not None or live)


def is_verified(client: str) -> bool:
    """Return whether the client has solved a captcha lately, as this process knows itself."""
    return bool(caches["captchas"].get(_key(client)))


def verify(client: str) -> None:
    """Ask the client for no other captcha for a while, whatever the pipeline has heard."""
    caches["captchas"].set(_key(client), True, VERIFIED_S)


def _key(client: str) -> str:
    return f"verified:{client}"
