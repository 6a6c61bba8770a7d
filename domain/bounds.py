"""Bounds on append times, so that a broker's clock that was ahead does not move time.

A log keeps the append times of its records. If a broker's clock was wrong for a while, the log is
read again with a bound. Up to the offset at which the log ended then, a record stamped later than
the bound counts as appended at the current time of its bucket's clock. Whether a record is valid is
still judged by its own stamp: an agent's time is not ahead just because the bucket's clock stood
still.
"""

from __future__ import annotations

from collections.abc import Iterable

# The last time (ms) that counts, and the offset before which the bound applies.
Bound = tuple[int, int]


def applied_time(bounds: Iterable[Bound], offset: int, time: int, clock: int) -> int:
    """Return when the record at `offset`, appended at `time` ms, counts as appended, ms.

    clock: the bucket's clock before the record, 0 before the first one.
    """
    for bound, end in bounds:
        if time > bound and offset < end:
            return clock or bound
    return time
