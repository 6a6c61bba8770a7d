"""Quarantined records: nobody can read them, so the fold skips them."""

from __future__ import annotations

from collections.abc import Iterable

# The first and last offset of a quarantined batch.
QuarantinedRange = tuple[int, int]


def is_aside(asides: Iterable[QuarantinedRange], offset: int) -> bool:
    """Return whether the record at an offset is quarantined."""
    return any(first <= offset <= last for first, last in asides)
