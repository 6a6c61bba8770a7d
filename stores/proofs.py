"""What the stores' secret proves without ever being sent: who is a store server, and whose answer
an answer is.

A server joins its group under a name that says where it answers, since when it runs, and a mark of
both that only the secret makes. The name is the client.id: Kafka keeps data of a member's own in
the group's metadata too, but librdkafka has no way to set it. Whoever may read the group can join
it under the same name. That leads those who ask to the true server's address alone; and who answers
there without the secret is not believed, as each answer is signed, for the one who asked.
"""

from __future__ import annotations

import hmac
import re
from hashlib import sha256
from typing import NamedTuple

TICKET, NONCE, FORWARDED = "authorization", "tallyboard-nonce", "tallyboard-forwarded"
SIGNATURE = "tallyboard-signature"
"""The headers of a question, and of its answer."""
_NAME = re.compile(r"((?:\[[0-9A-Fa-f:]+\]|[^\s:,/@?#]+):[0-9]{1,5})/([0-9]{1,15})/([0-9a-f]{64})")


class Announced(NamedTuple):
    """A store server as it has proved itself: where it answers, since when (Unix ms)."""

    address: str
    started: int


def announcement(secret: str, group: str, address: str, started: int) -> str:
    """Return the name under which the server at an address joins a group. started: Unix ms."""
    return f"{address}/{started}/{_member_mark(secret, group, address, started)}"


def announced(secret: str, group: str, name: str) -> Announced | None:
    """Return who has joined a group under a name; None where the secret did not make it for it."""
    parts = _NAME.fullmatch(name)
    if parts is None:
        return None
    address, started = parts[1], int(parts[2])
    proved = hmac.compare_digest(parts[3], _member_mark(secret, group, address, started))
    return Announced(address, started) if proved else None


def signature(secret: str, address: str, nonce: str, target: str, status: int, body: bytes) -> str:
    """Return the signature of what the server at an address answers.

    nonce: of who asks, so that no answer counts twice; target: path and query that were asked for.
    """
    return mark(secret, "answer", address, nonce, target, str(status), body)


def mark(secret: str, purpose: str, *parts: str | bytes) -> str:
    """Return an HMAC of these parts for one purpose, as hexadecimal digits."""
    made = hmac.new(secret.encode(), digestmod=sha256)
    for part in (f"tallyboard store {purpose}", *parts):
        data = part.encode() if isinstance(part, str) else part
        made.update(len(data).to_bytes(8))  # so that no part runs into the next
        made.update(data)
    return made.hexdigest()


def _member_mark(secret: str, group: str, address: str, started: int) -> str:
    return mark(secret, "member", group, address, str(started))
