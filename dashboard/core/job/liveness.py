"""Signs of life of the job and of a web process, and the speed of each bucket. Times in Unix ms."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from threading import Lock
from typing import Literal, NamedTuple, TypeVar

from dashboard.core.common.extension_point import Provider
from dashboard.core.common.scenarios import jobs
from dashboard.core.common.times import MINUTE_MS
from dashboard.core.job.agent_findings import AgentNews
from dashboard.core.job.freshness import (
    LATE_MS,
    SILENT_MS,
    Beat,
    Facts,
    KafkaRefusal,
    Pause,
    Wait,
)
from wire.job import (
    AHEAD_MS,
    ClockBehind,
    Heartbeat,
    Stopped,
    UnreadableJobRecord,
    decode_heartbeat,
    decode_progress,
)

# ---- throughput ----------------------------------------------------------------------------------
# The speed of each bucket: its rate, the trend of its lag, when it will have caught up.
#
# Pure: heartbeats and lags are passed in, with their times. Times in Unix ms.

K = TypeVar("K")
Trend = Literal["rising", "steady", "falling"]
Sign = Literal["unknown", "silent", "ahead", "behind", "hot", "idle", "well"]

# Heartbeats, and lags, that are remembered of one bucket: somewhat over two minutes.
KEPT = 150
# A rate is that of so long until now.
RATE_MS = 10_000
# Load, and thereby skew and idleness, is that of so long until now.
LOAD_MS = MINUTE_MS
# A trend is that of so long until now.
TREND_MS = 20_000
# Of less than this there is no trend yet.
TREND_LEAST_MS = 4_000
# Heartbeats come each second: a clock that moved less against now than this is steady.
STEADY_MS = 2_000
# So is one whose lag changed by no more than this part of it.
STEADY_PART = 0.05
# Less behind than this, there is nothing to catch up.
CAUGHT_UP_MS = 3_000
# A partition with this many times the even share of its scenario's load is hot.
HOT = 2.0
# Below so many records/s of the whole scenario no partition is.
HOT_LEAST = 1.0


class HeartbeatSample(NamedTuple):
    """A heartbeat as it is kept. at: when it was appended; records: since the one before; late:
    reports among them that came too late to count."""

    at: int
    log_time: int
    records: int
    late: int = 0


class Speed(NamedTuple):
    """The speed of a bucket at one moment; what cannot be said is None.

    rate: records/s that it has applied of late; load: those of the last minute; trend: whether its
    clock falls further behind; catch_up_ms: how long until nothing is left, 0 where that is so;
    late: reports of the last minute that came too late to count.
    """

    rate: float | None = None
    load: float | None = None
    trend: Trend | None = None
    catch_up_ms: int | None = None
    late: int | None = None


class Pace:
    """The last minutes of one bucket."""

    def __init__(self) -> None:
        self._beats: deque[HeartbeatSample] = deque(maxlen=KEPT)
        self._lags: deque[tuple[int, int]] = deque(maxlen=KEPT)

    def beat(self, at: int, log_time: int, records: int, late: int = 0) -> None:
        """Record a heartbeat that was appended at `at`.

        One that is older than the newest is a replay.
        """
        if not self._beats or at > self._beats[-1].at:
            self._beats.append(HeartbeatSample(at, log_time, records, late))

    def lagged(self, at: int, lag: int) -> None:
        """Record that at `at` the log held `lag` records that the bucket had not applied."""
        if not self._lags or at > self._lags[-1][0]:
            self._lags.append((at, lag))

    def speed(self, now: int) -> Speed:
        """Return the speed as of now."""
        rate, load = self._rate(now, RATE_MS), self._rate(now, LOAD_MS)
        late = sum(beat.late for beat in self._beats if beat.at > now - LOAD_MS)
        known = late if load is not None else None
        return Speed(rate, load, self._trend(now), self._catch_up_ms(now), known)

    def _rate(self, now: int, span: int) -> float | None:
        """Return records/s; None if it is silent or too new."""
        beats = [beat for beat in self._beats if beat.at > now - span]
        if len(beats) < 2 or now - beats[-1].at > SILENT_MS:
            return None
        passed = beats[-1].at - beats[0].at
        return 1000 * sum(beat.records for beat in beats[1:]) / passed

    def _trend(self, now: int) -> Trend | None:
        if self._beats and now - self._beats[-1].at > SILENT_MS:
            return "rising"  # time goes on, its clock does not
        beats = [beat for beat in self._beats if beat.at > now - TREND_MS]
        if not beats or beats[-1].at - beats[0].at < TREND_LEAST_MS:
            return None
        before, after = (beat.at - beat.log_time for beat in (beats[0], beats[-1]))
        caught_up = after <= CAUGHT_UP_MS
        if caught_up or abs(after - before) <= max(STEADY_MS, STEADY_PART * before):
            return "steady"
        return "rising" if after > before else "falling"

    def _catch_up_ms(self, now: int) -> int | None:
        """Return how long catching up takes at this pace, ms; None where it is silent or falls
        behind.

        By records where the log's end has been requested of late, else by the bucket's clock.
        """
        if not self._beats or now - self._beats[-1].at > SILENT_MS:
            return None
        if now - self._beats[-1].log_time <= CAUGHT_UP_MS:
            return 0
        lags = [lag for lag in self._lags if lag[0] > now - TREND_MS]
        behind = [(beat.at, beat.at - beat.log_time) for beat in self._beats]
        clock = [lag for lag in behind if lag[0] > now - TREND_MS]
        return _runs_out(lags) if _long_enough(lags) else _runs_out(clock)


def _long_enough(lags: list[tuple[int, int]]) -> bool:
    return bool(lags) and lags[-1][0] - lags[0][0] >= TREND_LEAST_MS


def _runs_out(lags: list[tuple[int, int]]) -> int | None:
    """Return how long the rest takes at the pace at which it shrank, ms; None if it did not."""
    if not _long_enough(lags):
        return None
    (begun, first), (ended, last) = lags[0], lags[-1]
    return round(last * (ended - begun) / (first - last)) if first > last else None


class Paces:
    """The paces of all buckets. For one thread at a time."""

    def __init__(self) -> None:
        self._known: dict[str, Pace] = {}
        self.newest: dict[str, tuple[int, Heartbeat]] = {}
        """By bucket: the newest heartbeat, and when it was appended."""

    def record(self, beat: Heartbeat, at: int) -> None:
        """Record a heartbeat that was appended at `at`."""
        known = self.newest.get(beat.bucket)
        if known is None or at >= known[0]:
            self.newest[beat.bucket] = (at, beat)
        late = beat.stale + beat.late + beat.silent
        self.of(beat.bucket).beat(at, beat.log_time, beat.records, late)

    def of(self, bucket: str) -> Pace:
        """Return the pace of one bucket."""
        return self._known.setdefault(bucket, Pace())


def skews(loads: Mapping[K, float | None]) -> dict[K, float | None]:
    """Return what each has of the load, as a multiple of the even share.

    None for all where there is no load, or where one is not known: the rest would look hot.
    """
    known = {name: load for name, load in loads.items() if load is not None}
    whole = sum(known.values())
    if not whole or len(known) < len(loads):
        return dict.fromkeys(loads)
    return {name: load * len(known) / whole for name, load in known.items()}


class BucketThroughput(NamedTuple):
    """The figures by which a bucket is judged. heartbeat_at: its newest heartbeat, None if there is
    none; whole: records/s of its scenario; ahead: how far its clock is ahead of the job's own,
    ms."""

    heartbeat_at: int | None
    log_time: int | None
    load: float | None
    skew: float | None
    whole: float
    ahead: int = 0


def signs(bucket: BucketThroughput, now: int) -> list[Sign]:
    """Return the problems of a bucket, the most important first, or `well`."""
    if bucket.heartbeat_at is None or bucket.log_time is None:
        return ["unknown"]
    kinds: list[Sign] = []
    if now - bucket.heartbeat_at > SILENT_MS:
        kinds.append("silent")
    if bucket.ahead > AHEAD_MS:
        kinds.append("ahead")
    elif not kinds and now - bucket.log_time > LATE_MS:
        kinds.append("behind")
    if bucket.skew is not None and bucket.skew >= HOT and bucket.whole >= HOT_LEAST:
        kinds.append("hot")
    if bucket.load == 0:
        kinds.append("idle")
    return kinds or ["well"]


# ---- liveness ------------------------------------------------------------------------------------
# Signs of life of the job and of a web process itself. Times in Unix ms.

# A topic and one of its partitions.
PartitionKey = tuple[str, int]

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

    def record(self, at: int) -> None:
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
        self._marks: deque[tuple[PartitionKey, int, int]] = deque()
        self._stored: Mapping[PartitionKey, int] = {}
        self._reached: int | None = None
        self._pauses: dict[str, Pause] = {}
        self._starts: dict[str, int] = {}
        self._rebuilds: dict[str, Pause] = {}
        self._clocks_behind: dict[str, Mapping[str, ClockBehind]] = {}
        self._waits: dict[str, Wait] = {}
        self._paces = Paces()
        self._agents = AgentNews()
        self._refusal: KafkaRefusal | None = None

    @contextmanager
    def paces(self) -> Iterator[Paces]:
        """Yield how fast the buckets go, while no other thread may read or write."""
        with self._lock:
            yield self._paces

    def record_heartbeat(
        self, value: bytes | None, place: PartitionKey, offset: int, at: int
    ) -> None:
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
            received = Beat(at, beat.log_time, beat.query, ahead, since, beat.epoch, beat.epoch)
            self._keep(beat.bucket, received)
            self._paces.record(beat, at)
            if beat.records > beat.dead_letters:
                self._reports.setdefault(beat.scenario, Reports()).record(at)

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
        query: str = "",
        ahead_since: int | None = None,
        epoch: int = 0,
    ) -> None:
        """Record a heartbeat of a bucket that the database has, sent at `at`."""
        ahead = max(0, log_time - at)
        with self._lock:
            self._keep(bucket, Beat(at, log_time, query, ahead, ahead_since, epoch, epoch))

    def _keep(self, bucket: str, beat: Beat) -> None:
        """Keep the newer heartbeat of the two, the higher epoch, and how far its own has come."""
        known = self._beats.get(bucket, beat)
        newer = beat if beat.received_at >= known.received_at else known
        reached = [
            newer.log_time,
            *(each.furthest for each in (beat, known) if each.epoch == newer.epoch),
        ]
        self._beats[bucket] = replace(
            newer, above=max(beat.above, known.above), furthest=max(reached)
        )

    def record_progress(self, value: bytes | None) -> None:
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
        if record.batch is None and record.answer is None and record.carried is None:
            self.wait(record.query, record.status, record.message, record.since, record.replaced)
        with self._lock:
            _keep(self._rebuilds, record.query, _pause(record.rebuild))

    def pause(self, query: str, pause: Pause | None) -> None:
        """Record that a query was stopped on purpose, or (None) was not."""
        with self._lock:
            _keep(self._pauses, query, pause)

    def wait(
        self, query: str, status: str, message: str, since: int, replaced: Sequence[str] = ()
    ) -> None:
        """Record whether a query waits for somebody to do something, and for what."""
        with self._lock:
            self._waits.pop(query, None)
            if status == "waiting":
                self._waits[query] = Wait(message, since, tuple(replaced))

    def judge_clocks(self, query: str, behind: Mapping[str, ClockBehind]) -> None:
        """Record in which buckets a query found the broker's clock behind its own."""
        with self._lock:
            self._clocks_behind[query] = behind

    def judge_agents(self, news: AgentNews) -> None:
        """Record the findings about agents."""
        self._agents = news

    def _mark(self, place: PartitionKey, offset: int, at: int) -> None:
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
        self._refusal = KafkaRefusal(why, self._refusal.since if self._refusal else now)

    def stored(self, offsets: Mapping[PartitionKey, int]) -> None:
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
                jobs(),
                dict(self._waits),
            )

    def _present_clocks(self) -> dict[str, ClockBehind]:
        """Return the clocks that are behind, by the queries that now carry the buckets."""
        return {
            bucket: clock
            for query, behind in self._clocks_behind.items()
            for bucket, clock in behind.items()
            if bucket in self._beats and self._beats[bucket].query == query
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
