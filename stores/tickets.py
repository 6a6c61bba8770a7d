"""Who may ask a store server: whoever has the secret, or a ticket for one address made with it.

A redirect sends a client to a server that knows neither its login nor its token. So the address
that it is sent to carries a ticket, which opens that address alone, for seconds.
"""

from __future__ import annotations

import hmac
from hashlib import sha256

LASTS_MS = 10_000


def ticket(secret: str, path: str, now_ms: int) -> str:
    """Return a ticket for a path, percent-encoded as it is in the address."""
    until = now_ms + LASTS_MS
    return f"{until}.{_mark(secret, path, until)}"


def opens(given: str, secret: str, path: str, now_ms: int) -> bool:
    """Return whether a ticket opens a path now."""
    until, _, mark = given.partition(".")
    if not (until.isascii() and until.isdigit() and len(until) <= 15):
        return False
    fresh = now_ms <= int(until) <= now_ms + LASTS_MS
    return fresh and hmac.compare_digest(mark.encode(), _mark(secret, path, int(until)).encode())


def _mark(secret: str, path: str, until: int) -> str:
    return hmac.new(secret.encode(), f"{until} {path}".encode(), sha256).hexdigest()
