"""Bounds on append times: what a broker's clock that was ahead has stamped does not move time.

A log keeps the times that its records were stamped with. Where a broker's clock was wrong for a
while, the log is read again with a bound: up to the offset at which it ended then, a record that
was stamped later than the bound counts as appended when its bucket's clock stands. Whether it can
be read is judged by its own stamp all the same: an agent's time is not ahead only because the
bucket's clock stood for a while.
"""

from __future__ import annotations

from collections.abc import Iterable

# The last time (ms) that counts, and the offset before which it holds.
Bound = tuple[int, int]


def applied_time(bounds: Iterable[Bound], offset: int, time: int, clock: int) -> int:
    """Return when the record at `offset`, appended at `time` ms, counts as appended, ms.

    clock: the bucket's own, before the record; 0 before the first one.
    """
    for bound, end in bounds:
        if time > bound and offset < end:
            return clock or bound
    return time
