"""Proofs made with the stores' secret, which is never sent: who is a store server, and who
answered.

A server joins its group under a name that contains its address, its start time, and a mark of both
that only the secret can make. The name is the client.id: Kafka's group metadata also holds data of
the member's own, but librdkafka has no way to set it. Anyone who may read the group can join it
under the same name. That only leads clients to the true server's address; and whoever answers there
without the secret is not believed, because each answer is signed for the client that asked.
"""

from __future__ import annotations

import hmac
import re
from hashlib import sha256
from typing import NamedTuple

TICKET, NONCE, FORWARDED = "authorization", "tallyboard-nonce", "tallyboard-forwarded"
SIGNATURE = "tallyboard-signature"
"""The headers of a request and of its answer."""
_NAME = re.compile(r"((?:\[[0-9A-Fa-f:]+\]|[^\s:,/@?#]+):[0-9]{1,5})/([0-9]{1,15})/([0-9a-f]{64})")


class Announced(NamedTuple):
    """A store server that has proved itself: its address, and its start time (Unix ms)."""

    address: str
    started: int


def announcement(secret: str, group: str, address: str, started: int) -> str:
    """Return the name under which the server at an address joins a group. started: Unix ms."""
    return f"{address}/{started}/{_member_mark(secret, group, address, started)}"


def announced(secret: str, group: str, name: str) -> Announced | None:
    """Return the server that joined a group under a name.

    Return None if the name was not made with the secret for this group.
    """
    parts = _NAME.fullmatch(name)
    if parts is None:
        return None
    address, started = parts[1], int(parts[2])
    proved = hmac.compare_digest(parts[3], _member_mark(secret, group, address, started))
    return Announced(address, started) if proved else None


def signature(secret: str, address: str, nonce: str, target: str, status: int, body: bytes) -> str:
    """Return the signature of an answer from the server at an address.

    nonce: chosen by the client, so that no answer counts twice; target: the requested path and
    query.
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
