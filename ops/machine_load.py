"""How busy this machine is, so that a duration is judged on a quiet one alone."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

STAT = Path("/proc/stat")
TICKS = 100
"""Of /proc/stat in a second (USER_HZ; proc(5))."""
QUIET_CORES = 0.3
"""So many busy cores are what a machine does by itself."""


@dataclass(frozen=True)
class CpuTimes:
    """Seconds that all cores have spent since the machine's start, by proc(5).

    busy: in programs of normal priority and for them; stolen: in other virtual machines.
    """

    busy: float
    stolen: float

    @classmethod
    def read(cls, stat: Path = STAT) -> CpuTimes:
        """Return the times up to now. Raises OSError where there is no such file."""
        words = stat.read_text().split(maxsplit=11)[1:11]
        user, _nice, system, _idle, _wait, irq, softirq, steal, *_ = (int(w) / TICKS for w in words)
        return cls(user + system + irq + softirq, steal)


def busy_cores(seconds: float = 1.0) -> float:
    """Return how many cores others keep busy, measured for so many seconds.

    What runs at a low priority makes way, and does not count. 0 where the system does not say.
    """
    try:
        before = CpuTimes.read()
        time.sleep(seconds)
        after = CpuTimes.read()
    except OSError:
        return 0.0
    return (after.busy + after.stolen - before.busy - before.stolen) / seconds
