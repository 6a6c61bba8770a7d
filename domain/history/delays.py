"""How long things took: mean and 95th percentile."""

from __future__ import annotations

from collections.abc import Collection

PERCENT = 95


def mean(delays: Collection[int]) -> int | None:
    """Return the mean rounded to whole ms, or None if there are no delays."""
    return round(sum(delays) / len(delays)) if delays else None


def p95(delays: Collection[int]) -> int | None:
    """Return the smallest delay that at least 95 of 100 do not exceed (nearest rank), or None."""
    if not delays:
        return None
    rank = -(-PERCENT * len(delays) // 100)
    return sorted(delays)[rank - 1]
