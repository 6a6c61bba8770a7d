"""Signatures of commands: they prove from a record's bytes who wrote it.

A signed value is a JSON object whose last member is `"signature":"KEY.TIME.MAC"`: the key's id, the
time of signing (Unix ms), and HMAC-SHA-256 in base64url without padding. The MAC covers the topic,
the record's key, the time, and all bytes before the member as they are. The JSON therefore needs no
canonical form, and nobody can move a record to another asset, topic or time.
"""

from __future__ import annotations

import hmac
import re
from base64 import urlsafe_b64encode
from collections.abc import Callable
from hashlib import sha256
from typing import NamedTuple

from wire.keys import Key, Ring

# Largest difference between the times of signing and of appending, ms.
MAX_SKEW = 300_000
# Largest number of bytes that a signature adds to a value.
ROOM = 128

UNSIGNED, BAD, UNKNOWN = "unsigned", "bad-signature", "unknown-key"
EXPIRED_KEY, UNTIMELY = "expired-key", "untimely-signature"
# Why a record is not accepted as signed by our own software; reasons of the dead letters.
FAULTS = (UNSIGNED, BAD, UNKNOWN, EXPIRED_KEY, UNTIMELY)

_TAG = b"tallyboard command 1"
_MEMBER = b',"signature":"'
_END = b'"}'
_TEXT = re.compile(rb'([a-z0-9-]{1,40})\.([0-9]{1,15})\.([A-Za-z0-9_-]{43})"\}\Z')


def signed(value: bytes, topic: str, key: bytes | None, with_: Key, now: int) -> bytes:
    """Return the value, a JSON object with members, signed at `now` for this topic and key.

    now: Unix ms.
    """
    body = value[:-1]
    mac = _mac(with_.secret, topic, key, str(now).encode(), body)
    return b"".join((body, _MEMBER, with_.id.encode(), b".%d." % now, mac, _END))


class Trust(NamedTuple):
    """Whose signatures count for the records of a topic. ring: returns the current keys."""

    topic: str
    ring: Callable[[], Ring]

    def fault(self, key: bytes | None, value: bytes, time: int) -> str | None:
        """Return the fault (of FAULTS) of a record appended at `time` (ms), or None.

        Raises KeysProblem if the keys cannot be read, as nothing can be decided then.
        """
        at = value.rfind(_MEMBER)
        if at < 0:
            return UNSIGNED
        match = _TEXT.match(value, at + len(_MEMBER))
        if match is None:
            return BAD
        name, signed_at, mac = match.groups()
        with_ = self.ring().key(name.decode())
        if with_ is None or time < with_.since:
            return UNKNOWN
        if not hmac.compare_digest(mac, _mac(with_.secret, self.topic, key, signed_at, value[:at])):
            return BAD
        if with_.until is not None and time >= with_.until:
            return EXPIRED_KEY
        return UNTIMELY if abs(time - int(signed_at)) > MAX_SKEW else None


def _mac(secret: str, topic: str, key: bytes | None, signed_at: bytes, body: bytes) -> bytes:
    parts = (_TAG, topic.encode(), key or b"", signed_at, body)
    covered = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
    digest = hmac.digest(secret.encode(), covered, sha256)
    return urlsafe_b64encode(digest).rstrip(b"=")


class Signer:
    """Signs values with the current key, at the time of the broker's clock.

    The sender of a signed value reports when the broker appended it. If the two clocks are far
    apart, the signer uses the broker's from then on.
    """

    def __init__(self, ring: Callable[[], Ring], clock: Callable[[], int]) -> None:
        """clock: Unix ms."""
        self._ring, self._clock, self._ahead = ring, clock, 0

    def sign(self, value: bytes, topic: str, key: bytes | None) -> bytes:
        """Return the value, signed now. Raises KeysProblem."""
        now = self._now()
        return signed(value, topic, key, self._ring().signing(now), now)

    def in_time(self, appended: int) -> bool:
        """Return whether a value signed just now is valid if appended at that time (ms).

        If not, sign it again: the signer now knows the broker's clock.
        """
        off = appended - self._now()
        if abs(off) <= MAX_SKEW // 2:
            return True
        self._ahead += off
        return False

    def _now(self) -> int:
        return self._clock() + self._ahead
