"""Retention as the tests of each package apply it to its own rows."""

from __future__ import annotations

from collections.abc import Iterable

from dashboard.core.common.retention import Retention, Thinning


def apply_all(declared: Iterable[Retention | Thinning], now: int) -> int:
    """Delete what has expired at `now` (Unix ms) or exceeds its limit. Return how many rows."""
    return sum(each.apply(now) for each in declared)
