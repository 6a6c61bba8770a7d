"""When something happens, and to whom: a timetable that a seed and the time of day determine.

Nothing is remembered: two simulators that run at the same time see the same.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

# One incident begins in each slot of a timetable.
SLOT_MS = 30_000
# No incident lasts longer.
LONGEST_MS = 240_000


@dataclass(frozen=True, slots=True)
class SimulatedIncident:
    """Something that is seen of `assets`, by one `agent` or by all, from `start` to `end` (ms)."""

    kind: str
    start: int
    end: int
    assets: frozenset[str]
    agent: str | None = None

    def phase(self, now: int) -> float:
        """Return how far the incident has come, 0 to 1."""
        return (now - self.start) / (self.end - self.start)


# Makes the incident that begins at a time (ms).
Draw = Callable[[Random, int], SimulatedIncident]


class Timetable:
    """The incidents of one scenario, the same for the same seed at the same time."""

    def __init__(self, seed: int, name: str, draw: Draw) -> None:
        self._seed, self._name, self._draw = seed, name, draw
        self._drawn: dict[int, SimulatedIncident] = {}

    def at(self, now: int) -> list[SimulatedIncident]:
        """Return what is going on at `now` (ms), oldest first."""
        last = now // SLOT_MS
        first = last - LONGEST_MS // SLOT_MS - 1
        for slot in [slot for slot in self._drawn if slot < first]:
            del self._drawn[slot]
        incidents = (self._of(slot) for slot in range(first, last + 1))
        return [incident for incident in incidents if incident.start <= now < incident.end]

    def _of(self, slot: int) -> SimulatedIncident:
        if slot not in self._drawn:
            random = Random(f"{self._seed}/{self._name}/{slot}")
            start = slot * SLOT_MS + random.randrange(SLOT_MS)
            self._drawn[slot] = self._draw(random, start)
        return self._drawn[slot]


def some(random: Random, names: Sequence[str], low: int, high: int) -> frozenset[str]:
    """Return `low` to `high` of the names, drawn at random."""
    return frozenset(random.sample(names, random.randint(low, high)))


def spread(*parts: object, over: int) -> int:
    """Return a number from 0 to `over` - 1 that looks random and depends on `parts` alone."""
    return zlib.crc32(repr(parts).encode()) % over
