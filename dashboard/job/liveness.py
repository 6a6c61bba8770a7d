"""Signs of life of the job and of a web process itself. Times in Unix ms."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from threading import Lock

from dashboard.core.extension_point import Provider
from dashboard.job.agent_findings import AgentNews
from dashboard.job.freshness import Beat, Facts, Pause, Refusal
from dashboard.job.throughput import Paces
from wire.job import (
    AHEAD_MS,
    ClockBehind,
    Heartbeat,
    Stopped,
    UnreadableJobRecord,
    decode_heartbeat,
    decode_progress,
)

# A topic and one of its partitions.
Place = tuple[str, int]

# So many pauses between reports are remembered of a scenario.
PAUSES_KEPT = 60
# Fewer say nothing of what is usual.
PAUSES_LEAST = 10
# A shorter one is none: heartbeats come each second.
PAUSE_MS = 1_000
# The usual pause: so large a part of those remembered are not longer.
USUAL = 0.9
# One heartbeat in this time is watched for until the database holds it.
MARK_MS = 1_000
# At most so many are watched for.
MARKS = 3_600


class Reports:
    """The pauses between reports of a scenario's agents, by heartbeats: a rule's record looks like
    one, so when they reported last is the database's to say."""

    def __init__(self) -> None:
        self.last = 0
        self.pauses: deque[int] = deque(maxlen=PAUSES_KEPT)

    def heard(self, at: int) -> None:
        """Record that reports had come when a heartbeat was appended at `at`."""
        if self.last and at - self.last >= PAUSE_MS:
            self.pauses.append(at - self.last)
        self.last = max(at, self.last)

    def usual(self) -> int:
        """Return how long they usually pause, ms; 0 where too little is known."""
        if len(self.pauses) < PAUSES_LEAST:
            return 0
        return sorted(self.pauses)[int(USUAL * (len(self.pauses) - 1))]


class Signs:
    """Heartbeats, and how far this process and the database have come.

    One thread writes, others read.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._beats: dict[str, Beat] = {}
        self._reports: dict[str, Reports] = {}
        self._marks: deque[tuple[Place, int, int]] = deque()
        self._stored: Mapping[Place, int] = {}
        self._reached: int | None = None
        self._pauses: dict[str, Pause] = {}
        self._starts: dict[str, int] = {}
        self._rebuilds: dict[str, Pause] = {}
        self._clocks_behind: dict[str, Mapping[str, ClockBehind]] = {}
        self._paces = Paces()
        self._agents = AgentNews()
        self._refusal: Refusal | None = None

    @contextmanager
    def paces(self) -> Iterator[Paces]:
        """Yield how fast the buckets go, while no other thread may read or write."""
        with self._lock:
            yield self._paces

    def heard(self, value: bytes | None, place: Place, offset: int, at: int) -> None:
        """Record what was appended to `job.buckets` at `at`.

        What cannot be read is passed over: the materialiser counts it.
        """
        try:
            beat = decode_heartbeat(value)
        except UnreadableJobRecord:
            return
        with self._lock:
            self._mark(place, offset, at)
            ahead, since = self._ahead(beat)
            heard = Beat(at, beat.log_time, beat.engine, ahead, since, beat.epoch, beat.epoch)
            self._keep(beat.bucket, heard)
            self._paces.heard(beat, at)
            if beat.records > beat.dead_letters:
                self._reports.setdefault(beat.scenario, Reports()).heard(at)

    def _ahead(self, beat: Heartbeat) -> tuple[int, int | None]:
        """Return how far the bucket's clock is ahead, ms, and since when by too much."""
        if beat.ahead <= AHEAD_MS:
            return beat.ahead, None
        known = self._beats.get(beat.bucket)
        return beat.ahead, (known and known.ahead_since) or beat.at

    def remember(
        self,
        bucket: str,
        at: int,
        log_time: int,
        engine: str = "",
        ahead_since: int | None = None,
        epoch: int = 0,
    ) -> None:
        """Record a heartbeat of a bucket that the database has, sent at `at`."""
        ahead = max(0, log_time - at)
        with self._lock:
            self._keep(bucket, Beat(at, log_time, engine, ahead, ahead_since, epoch, epoch))

    def _keep(self, bucket: str, beat: Beat) -> None:
        """Keep the newer heartbeat of the two, the higher epoch, and how far its own has come."""
        known = self._beats.get(bucket, beat)
        newer = beat if beat.heard >= known.heard else known
        reached = [
            newer.log_time,
            *(each.furthest for each in (beat, known) if each.epoch == newer.epoch),
        ]
        self._beats[bucket] = replace(
            newer, above=max(beat.above, known.above), furthest=max(reached)
        )

    def told(self, value: bytes | None) -> None:
        """Record from `job.progress` whether a query was stopped, or begun again, on purpose, and
        which clocks are behind."""
        try:
            record = decode_progress(value)
        except UnreadableJobRecord:
            return
        if record.stopped is None and record.query in self._pauses:
            self._starts[record.query] = record.at
        self.pause(record.query, _pause(record.stopped))
        self.judge_clocks(record.query, record.clocks_behind)
        with self._lock:
            _keep(self._rebuilds, record.query, _pause(record.rebuild))

    def pause(self, query: str, pause: Pause | None) -> None:
        """Record that a query was stopped on purpose, or (None) was not."""
        with self._lock:
            _keep(self._pauses, query, pause)

    def judge_clocks(self, query: str, behind: Mapping[str, ClockBehind]) -> None:
        """Record in which buckets a query found the broker's clock behind its own."""
        with self._lock:
            self._clocks_behind[query] = behind

    def judge_agents(self, news: AgentNews) -> None:
        """Record what there is to say of agents."""
        self._agents = news

    def _mark(self, place: Place, offset: int, at: int) -> None:
        """Watch for this heartbeat in the database, unless it is there or enough are watched."""
        if offset < self._stored.get(place, 0) or len(self._marks) >= MARKS:
            return
        if not self._marks or at - self._marks[-1][2] >= MARK_MS:
            self._marks.append((place, offset, at))

    def reached(self, now: int) -> None:
        """Record that this process has read all that the log had."""
        self._reached = now
        self._refusal = None

    def refused(self, why: str, now: int) -> None:
        """Record that Kafka refuses this process, and why, in words."""
        self._refusal = Refusal(why, self._refusal.since if self._refusal else now)

    def stored(self, offsets: Mapping[Place, int]) -> None:
        """Record that the database has come to these next offsets."""
        with self._lock:
            self._stored = offsets
            while self._marks and self._marks[0][1] < offsets.get(self._marks[0][0], 0):
                self._marks.popleft()

    def facts(self) -> Facts:
        """Return all of it, as of now."""
        with self._lock:
            return Facts(
                self._reached,
                self._marks[0][2] if self._marks else None,
                dict(self._beats),
                {name: reports.usual() for name, reports in self._reports.items()},
                dict(self._pauses),
                dict(self._starts),
                dict(self._rebuilds),
                self._agents,
                self._present_clocks(),
                self._refusal,
            )

    def _present_clocks(self) -> dict[str, ClockBehind]:
        """Return the clocks that are behind, as the queries say that carry the buckets now."""
        return {
            bucket: clock
            for query, behind in self._clocks_behind.items()
            for bucket, clock in behind.items()
            if bucket in self._beats and self._beats[bucket].engine == query
        }


def _pause(stopped: Stopped | None) -> Pause | None:
    return None if stopped is None else Pause(stopped.user, stopped.since, stopped.reason)


def _keep(known: dict[str, Pause], query: str, pause: Pause | None) -> None:
    """Record a query's last report."""
    if pause is None:
        known.pop(query, None)
    else:
        known[query] = pause


# Returns what this process has heard of the job; nothing where nobody listens.
process_signs: Provider[[], Signs] = Provider(Signs)
