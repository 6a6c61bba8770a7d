"""Who may query a store server: the holder of a ticket for that one request.

The stores' secret makes the ticket and is never sent itself. A ticket is valid for one server, one
path with its query, and a few seconds. A redirected client takes one along, and whoever answers at
the address of a server that has gone learns nothing that opens another server or another order.
"""

from __future__ import annotations

import hmac

from stores.proofs import mark

LASTS_MS = 10_000
"""How long a ticket lasts, and how far the clocks of two machines may differ."""


def ticket(secret: str, address: str, target: str, now_ms: int) -> str:
    """Return a ticket for a request to the server at an address.

    target: path and query, percent-encoded as sent.
    """
    until = now_ms + LASTS_MS
    return f"{until}.{_mark(secret, address, target, until)}"


def opens(given: str, secret: str, address: str, target: str, now_ms: int) -> bool:
    """Return whether a ticket opens the target at an address now."""
    until, _, given_mark = given.partition(".")
    if not (until.isascii() and until.isdigit() and len(until) <= 15):
        return False
    fresh = now_ms <= int(until) <= now_ms + 2 * LASTS_MS
    expected_mark = _mark(secret, address, target, int(until))
    return fresh and hmac.compare_digest(given_mark.encode(), expected_mark.encode())


def _mark(secret: str, address: str, target: str, until: int) -> str:
    return mark(secret, "ticket", address, target, str(until))
