"""When something happens, and to whom: a timetable determined by a seed and the time of day.

Nothing is stored: two simulators that run at the same time see the same.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

# One incident begins in each slot of a timetable.
SLOT_MS = 30_000
# Longest duration of an incident.
LONGEST_MS = 240_000


@dataclass(frozen=True, slots=True)
class SimulatedIncident:
    """An incident that affects `assets`, seen by one `agent` or all, from `start` to `end` (ms)."""

    kind: str
    start: int
    end: int
    assets: frozenset[str]
    agent: str | None = None

    def phase(self, now: int) -> float:
        """Return the progress of the incident, 0 to 1."""
        return (now - self.start) / (self.end - self.start)


# Creates the incident that begins at a time (ms).
Draw = Callable[[Random, int], SimulatedIncident]


class Timetable:
    """The incidents of one scenario, always the same for a seed and a time."""

    def __init__(self, seed: int, name: str, draw: Draw) -> None:
        self._seed, self._name, self._draw = seed, name, draw
        self._drawn: dict[int, SimulatedIncident] = {}

    def at(self, now: int) -> list[SimulatedIncident]:
        """Return the incidents in progress at `now` (ms), oldest first."""
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
    """Return `low` to `high` of the names, chosen at random."""
    return frozenset(random.sample(names, random.randint(low, high)))


def spread(*parts: object, over: int) -> int:
    """Return a pseudo-random number from 0 to `over` - 1 that depends only on `parts`."""
    return zlib.crc32(repr(parts).encode()) % over
