"""Who may ask a store server: whoever has a ticket for that one question.

The stores' secret makes it and is never sent itself. It holds for one server, one path with its
query, and seconds. So a client that is sent elsewhere takes one along, and whoever answers at the
address of a server that has gone learns nothing that opens another, or another order.
"""

from __future__ import annotations

import hmac

from stores.proofs import mark

LASTS_MS = 10_000
"""So long a ticket lasts; by as much the clocks of two machines may differ."""


def ticket(secret: str, address: str, target: str, now_ms: int) -> str:
    """Return a ticket for a question to the server at an address.

    target: path and query, percent-encoded as they are sent.
    """
    until = now_ms + LASTS_MS
    return f"{until}.{_mark(secret, address, target, until)}"


def opens(given: str, secret: str, address: str, target: str, now_ms: int) -> bool:
    """Return whether a ticket opens the target at an address now."""
    until, _, given_mark = given.partition(".")
    if not (until.isascii() and until.isdigit() and len(until) <= 15):
        return False
    fresh = now_ms <= int(until) <= now_ms + 2 * LASTS_MS
    wanted = _mark(secret, address, target, int(until))
    return fresh and hmac.compare_digest(given_mark.encode(), wanted.encode())


def _mark(secret: str, address: str, target: str, until: int) -> str:
    return mark(secret, "ticket", address, target, str(until))
