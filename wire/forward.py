"""Headers of a record of a source topic that the job forwards to the partition of its asset.

A client's own partitioner may put a report elsewhere than Kafka's Java client does. The job appends
such a record once more, with its asset as the key, and says in headers where it lay first.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

Headers = Sequence[tuple[str, bytes]]

MAX_FORWARDED = 524_288
"""Largest value and headers of a record that is forwarded, bytes: what is added still fits."""

PARTITION, OFFSET, TIME = "forwarded-partition", "forwarded-offset", "forwarded-timestamp"
_TIME_DIGITS = re.compile(rb"[0-9]{1,15}\Z")


def forward_headers(partition: int, offset: int, time: int, headers: Headers) -> Headers:
    """Return the headers of a record to forward: where it lies, when it was appended there (Unix
    ms), and its own."""
    place = ((PARTITION, partition), (OFFSET, offset), (TIME, time))
    return (*((name, str(number).encode()) for name, number in place), *headers)


def can_forward(value: bytes | None, headers: Headers) -> bool:
    """Return whether a record can be forwarded: it has not been before, and it is not too large."""
    size = len(value or b"") + sum(len(name.encode()) + len(data or b"") for name, data in headers)
    return size <= MAX_FORWARDED and all(name != TIME for name, _ in headers)


def forwarded_from(headers: Headers) -> tuple[int, int] | None:
    """Return the partition and the offset that a record was forwarded from, None if it was not."""
    named = dict(headers)
    try:
        return int(named[PARTITION]), int(named[OFFSET])
    except (KeyError, ValueError):
        return None


def first_appended_at(headers: Headers) -> int | None:
    """Return when a forwarded record was first appended (Unix ms), None if it was not forwarded."""
    first = dict(headers).get(TIME, b"")
    return int(first) if _TIME_DIGITS.match(first) else None
