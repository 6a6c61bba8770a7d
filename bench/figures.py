"""Figures from samples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass

SLOW_MS = 200


@dataclass(frozen=True)
class Delays:
    """How delays are spread. All in ms, but `slow`: the part over SLOW_MS, per cent."""

    count: int
    p50: float
    p90: float
    p99: float
    p999: float
    most: float
    slow: float

    @classmethod
    def of(cls, samples: Sequence[float]) -> Delays:
        """Read samples in ms, in any order. Raises ValueError where there are none."""
        if not samples:
            raise ValueError("no samples")
        sorted_ = sorted(samples)
        slow = 100 * sum(sample > SLOW_MS for sample in sorted_) / len(sorted_)
        p50, p90, p99, p999 = (percentile(sorted_, part) for part in (50, 90, 99, 99.9))
        return cls(len(sorted_), p50, p90, p99, p999, sorted_[-1], slow)

    def plain(self) -> dict[str, float]:
        """Return the figures as JSON-able data."""
        return asdict(self)


def percentile(sorted_: Sequence[float], percent: float) -> float:
    """Return the smallest sample that at least `percent` of all samples do not exceed."""
    return sorted_[max(0, math.ceil(len(sorted_) * percent / 100) - 1)]
