"""How busy the machine was with anything but the bench, while the bench ran.

A figure counts for little if another process had the processors meanwhile. So a thread compares,
twice a second, what all processes took (/proc/stat) with what the bench's own took: this process
and everything below it. Time that a hypervisor gave to others counts as theirs.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from ops.leftovers import descendants, stat_fields

LOOK_S = 0.5
# `most` is of so many looks together: five seconds.
LOOKS = 10

PROC = Path("/proc")
# Of the first line of /proc/stat: user, nice, system, irq, softirq and steal are work.
_WORK = (0, 1, 2, 5, 6, 7)
_ALL = range(8)


class Busy(NamedTuple):
    """The part of all processors' time that other processes took, per cent: mean and most."""

    mean: float
    most: float

    def __str__(self) -> str:
        return (
            f"other processes took {self.mean:g} % of the processors' time, {self.most:g} % in the "
            "busiest five seconds"
        )


class Look(NamedTuple):
    """Counts of ticks since the machine's start: passed on all processors, worked, the bench's."""

    passed: int
    worked: int
    own: dict[str, int]


def look(pid: int, proc: Path = PROC) -> Look:
    """Look once. own: by process, as far as they run."""
    fields = [int(text) for text in (proc / "stat").read_text().split("\n")[0].split()[1:]]
    own = {}
    for each in (pid, *descendants(pid, proc)):
        with suppress(OSError):
            stat = stat_fields(proc / str(each) / "stat")
            # An id can be used again: the time of its start tells the two apart.
            own[f"{each}@{stat[19]}"] = int(stat[11]) + int(stat[12])
    return Look(sum(fields[i] for i in _ALL), sum(fields[i] for i in _WORK), own)


@dataclass
class Tally:
    """What looks add up to."""

    before: Look
    passed: int = 0
    others: int = 0
    most: float = 0.0
    recent: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=LOOKS))

    def add(self, now: Look) -> None:
        """Add what has passed since the look before this one."""
        passed = now.passed - self.before.passed
        own = sum(ticks - self.before.own.get(name, 0) for name, ticks in now.own.items())
        others = max(0, now.worked - self.before.worked - own)
        self.before = now
        self.passed += passed
        self.others += others
        self.recent.append((passed, others))
        if len(self.recent) == LOOKS:
            self.most = max(self.most, _per_cent(*map(sum, zip(*self.recent, strict=True))))

    def busy(self) -> Busy:
        """Return the parts; the most is never below the mean."""
        mean = _per_cent(self.passed, self.others)
        return Busy(round(mean, 1), round(max(mean, self.most), 1))


def _per_cent(passed: int, others: int) -> float:
    return min(100.0, 100 * others / passed) if passed else 0.0


class Watch:
    """Watches the machine from now on, in a thread."""

    def __init__(self, proc: Path = PROC) -> None:
        self._proc, self._pid = proc, os.getpid()
        self._tally = Tally(look(self._pid, proc))
        self._lock, self._ended = threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="busyness", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ended.wait(LOOK_S):
            self._add()

    def _add(self) -> None:
        with self._lock:
            self._tally.add(look(self._pid, self._proc))

    def end(self) -> Busy:
        """Stop watching; return how busy the machine was with others."""
        self._ended.set()
        self._thread.join()
        self._add()
        return self._tally.busy()


@contextmanager
def printed_busyness() -> Iterator[None]:
    """Print how busy the machine was with others while this lasted."""
    watch = Watch()
    yield
    print(f"{watch.end()}.")
