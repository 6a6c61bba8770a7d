"""What the partitions of a scenario come to together. Times in ms."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from dashboard.console.partitions import Partition
from dashboard.job.throughput import Sign
from domain.scenario import Scenario

N = TypeVar("N", int, float)

# The signs that something stands out, the most important first.
ORDER: tuple[Sign, ...] = ("unknown", "silent", "ahead", "behind", "hot", "idle")


@dataclass(frozen=True, slots=True)
class Total:
    """One scenario; what is known of no partition is None.

    records: in its source logs; lag_ms, catch_up_ms: of the partition that is worst off; rate:
    records/s; signs: how many partitions have each sign.
    """

    scenario: Scenario
    partitions: int
    records: int | None
    lag: int | None
    lag_ms: int | None
    catch_up_ms: int | None
    rate: float | None
    assets: int | None
    dues: int | None
    signs: dict[Sign, int]


def totals(scenarios: Iterable[Scenario], rows: Iterable[Partition]) -> list[Total]:
    """Return a total for each scenario, in their order."""
    every = list(rows)
    return [
        _total(known, [row for row in every if row.scenario == known.name]) for known in scenarios
    ]


def _total(scenario: Scenario, rows: Sequence[Partition]) -> Total:
    beats = [row.beat for row in rows if row.beat is not None]
    held = [row.end - row.begin for row in rows if row.end is not None and row.begin is not None]
    return Total(
        scenario=scenario,
        partitions=len(rows),
        records=sum(held) if held else None,
        lag=_sum(row.lag for row in rows),
        lag_ms=max((row.lag_ms for row in rows if row.lag_ms is not None), default=None),
        catch_up_ms=_longest([row.speed.catch_up_ms for row in rows]),
        rate=_sum(row.speed.rate for row in rows),
        assets=_sum(beat.assets for beat in beats),
        dues=_sum(beat.dues for beat in beats),
        signs=counted(rows),
    )


def counted(rows: Iterable[Partition]) -> dict[Sign, int]:
    """Return how many partitions have each sign of something unusual, the most important first."""
    every = [sign for row in rows for sign in row.signs]
    return {sign: every.count(sign) for sign in ORDER if sign in every}


def _sum(values: Iterable[N | None]) -> N | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _longest(values: Sequence[int | None]) -> int | None:
    """Return the longest time in ms, or None as soon as one of them is not known to end."""
    known = [value for value in values if value is not None]
    return max(known) if values and len(known) == len(values) else None
