"""How long things took: mean and percentiles."""

from __future__ import annotations

from collections.abc import Sequence


def mean(delays: Sequence[int]) -> int | None:
    """Return the mean rounded to whole ms, or None if there are no delays."""
    return round(sum(delays) / len(delays)) if delays else None


def percentile(ranked: Sequence[int], percent: int) -> int | None:
    """Return the smallest of sorted delays that at least `percent` of 100 do not exceed (nearest
    rank); None if there are none. At 50 it is the median."""
    return ranked[-(-percent * len(ranked) // 100) - 1] if ranked else None
