"""Claims of jobs on scenarios: each heartbeat names the job that carries its bucket.

Jobs with the same TALLYBOARD_JOB_SCENARIOS never claim the same scenario. Where they have different
ones, the job that comes second waits; where two begin at once, the one with the lower epoch gives
way: readers drop its states anyway. A claim lapses once its job has been silent for a while.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from bus.base import Bus
from config.jobs import words_of
from streaming.fold.epochs import appended_heartbeats
from streaming.state.buckets import BucketId
from wire.job import Heartbeat
from wire.topics import Topics

# A job that was not heard of for so long carries its buckets no more, ms. Longer than a start.
LAPSES_MS = 30_000


class ScenarioClaimed(Exception):
    """Another job carries a scenario of this one; the message says which, and what to do."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The newest heartbeat of another job on a bucket of this one. at: when it was appended, ms."""

    bucket: str
    job: str
    epoch: int
    at: int

    def words(self, now: int) -> str:
        """Return who claims what, in words."""
        return (
            f"{BucketId.parse(self.bucket).scenario} is carried by {words_of(self.job)}, heard "
            f"{max(0, now - self.at) // 1000} s ago"
        )


class Claims:
    """The claims of other jobs on the buckets of this one."""

    def __init__(self, bus: Bus, topics: Topics, job: str, clock: Callable[[], int]) -> None:
        """clock: Unix ms."""
        self._bus, self._topics, self._job, self._clock = bus, topics, job, clock
        self._rivals: dict[str, Claim] = {}

    def former(self, scenarios: Collection[str]) -> set[str]:
        """Return the buckets whose last heartbeat is another job's: they have moved to this one.

        Raises ScenarioClaimed where that job still carries them, and BusError.
        """
        now, last = self._clock(), self._last(scenarios)
        for claim in last.values():
            if now - claim.at < LAPSES_MS:
                raise ScenarioClaimed(claim.words(now))
        self._rivals.clear()
        return set(last)

    def _last(self, scenarios: Collection[str]) -> dict[str, Claim]:
        """Return the newest heartbeats on buckets of these scenarios, where they are another's."""
        newest: dict[str, Claim] = {}
        for at, beat in appended_heartbeats(self._bus, self._topics):
            if beat.scenario in scenarios:
                newest[beat.bucket] = Claim(beat.bucket, beat.job, beat.epoch, at)
        return {name: claim for name, claim in newest.items() if claim.job != self._job}

    def record(self, beat: Heartbeat) -> bool:
        """Record a heartbeat on a bucket of this job. Return whether it is another job's."""
        if beat.job == self._job:
            return False
        self._rivals[beat.bucket] = Claim(beat.bucket, beat.job, beat.epoch, self._clock())
        return True

    def gives_way(self, epoch: int) -> bool:
        """Return whether this job is to end what runs, as another has come before it.

        epoch: of this job's own states.
        """
        own = (epoch, self._job)
        return any((claim.epoch, claim.job) > own for claim in list(self._rivals.values()))
