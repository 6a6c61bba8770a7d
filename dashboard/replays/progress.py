"""The progress of replays: by the job's answers, and bucket by bucket by its heartbeats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from dashboard.job.models import JobRequest
from dashboard.job.request_progress import RequestProgress
from dashboard.job.status import newest_beats
from dashboard.replays.models import Replay
from dashboard.replays.plan import Plan

LISTED = 10
"""How many replays the page lists."""


class Part(NamedTuple):
    """A bucket as it was requested: from which offset to which, and what it began with."""

    name: str
    first: int
    end: int
    means: str


@dataclass(frozen=True, slots=True)
class PartProgress:
    """A bucket now: the records that are left to it; None before it has begun."""

    part: Part
    left: int | None

    @property
    def total(self) -> int:
        """Return how many it has to read."""
        return max(0, self.part.end - self.part.first)

    @property
    def done(self) -> int:
        """Return how many it has read."""
        return 0 if self.left is None else self.total - self.left

    @property
    def percent(self) -> int:
        """Return how far it has come, in percent."""
        return 100 * self.done // self.total if self.total else 100 * (self.left is not None)


@dataclass(frozen=True)
class ReplayProgress(RequestProgress):
    """A replay at `now`, with its buckets."""

    replay: Replay
    parts: Sequence[PartProgress]

    @property
    def row(self) -> Replay:
        """Return the replay."""
        return self.replay

    @property
    def total(self) -> int:
        """Return how many records are read again."""
        return sum(part.total for part in self.parts)

    @property
    def done(self) -> int:
        """Return how many records have been read."""
        return sum(part.done for part in self.parts)

    @property
    def left(self) -> int:
        """Return how many records are still to be read."""
        return self.total - self.done

    @property
    def percent(self) -> int:
        """Return how far it has come, in percent."""
        return 100 * self.done // self.total if self.total else 100


def dump_parts(plan: Plan) -> str:
    """Return a plan's buckets as they are kept with the replay."""
    parts = [Part(each.name, each.first, each.end, each.means) for each in plan.buckets]
    return msgspec.json.encode(parts).decode()


def newest(now: int) -> list[ReplayProgress]:
    """Return the newest replays, the last first."""
    rows = list(Replay.objects.order_by("-asked_at")[:LISTED])
    requests = JobRequest.objects.in_bulk([row.pk for row in rows])
    reached = {name: (beat.epoch, beat.offset) for name, (_, beat) in newest_beats(now).items()}
    return [_replay(row, requests.get(row.pk), reached, now) for row in rows]


def _replay(
    row: Replay, request: JobRequest | None, reached: Mapping[str, tuple[int, int]], now: int
) -> ReplayProgress:
    done = request is not None and request.status == "done"
    parts = msgspec.json.decode(row.plan, type=list[Part])
    return ReplayProgress(
        request, now, row, [_progress(part, row.epoch, reached, done=done) for part in parts]
    )


def _progress(
    part: Part, epoch: int, reached: Mapping[str, tuple[int, int]], *, done: bool
) -> PartProgress:
    """Return the progress of a part.

    epoch: the query's before; done: the job has answered that it has caught up.
    """
    if done:
        return PartProgress(part, 0)
    at_epoch, offset = reached.get(part.name, (0, -1))
    if at_epoch <= epoch:
        return PartProgress(part, None)
    reached_to = min(max(offset + 1, part.first), part.end)
    return PartProgress(part, max(0, part.end - reached_to))
