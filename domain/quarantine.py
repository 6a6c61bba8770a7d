"""Records that are set aside: nobody can read them, so the fold is over the log without them."""

from __future__ import annotations

from collections.abc import Iterable

# The first and the last offset of a batch that was set aside.
QuarantinedRange = tuple[int, int]


def is_aside(asides: Iterable[QuarantinedRange], offset: int) -> bool:
    """Return whether the record at an offset was set aside."""
    return any(first <= offset <= last for first, last in asides)
