"""The job's last sign of life, and the progress of a bucket's clock. Times in Unix ms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dashboard.job.freshness import SILENT_MS, Beat
from dashboard.job.status import known_signs
from wire.job import bucket_name

BEHIND_MS = 3_000
"""A bucket's clock that is less behind than this is not worth a word."""


@dataclass(frozen=True, slots=True)
class LogTime:
    """A bucket's clock. at: the log time reached; behind: how far behind now it runs, ms.

    silent: the job is not heard of, so this clock stands still.
    """

    at: int
    behind: int
    silent: bool

    @property
    def late(self) -> bool:
        """Return whether the page should say how far behind it runs."""
        return self.behind > BEHIND_MS

    def shows(self, due: int) -> int:
        """Return when what is due at `due` in log time may be seen, if the clock goes on at its
        pace."""
        return due + self.behind if self.late else due


def job_is_silent(now: int) -> bool:
    """Return whether the job was heard of once, and is not any more."""
    beats = _beats()
    return bool(beats) and _silent(beats, now)


def log_time(scenario: str, partition: int, now: int) -> LogTime | None:
    """Return the clock of one bucket as of its newest heartbeat, or None before the first."""
    beats = _beats()
    beat = beats.get(bucket_name(scenario, partition))
    if beat is None:
        return None
    return LogTime(beat.log_time, max(0, beat.heard - beat.log_time), _silent(beats, now))


def _silent(beats: Mapping[str, Beat], now: int) -> bool:
    return now - max(beat.heard for beat in beats.values()) > SILENT_MS


def _beats() -> Mapping[str, Beat]:
    """Return the newest heartbeats that this process, or else the database, knows of."""
    return known_signs().facts().beats
