"""Replays planned and followed: where each bucket begins, what it reads, how far it has come."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from time import monotonic
from typing import Any, Literal, NamedTuple

import msgspec
from django.db.models.functions import Substr

from bus.base import Bus, BusError, TopicPartition
from dashboard.core.common.scenarios import scenarios
from dashboard.core.job.models import BucketStatus, JobProgress, JobRequest
from dashboard.core.job.requests import RequestProgress
from dashboard.core.job.status import last_reports, newest_beats
from dashboard.core.states.models import AssetState, FoldSnapshot, LogBound
from dashboard.operate.requests.models import Replay
from wire.job import Action, bucket_name, engine_of
from wire.topics import Topics

# ---- plan ----------------------------------------------------------------------------------------
# The plan of a replay: where each bucket would begin, what it would read, and what that means.
#
# Pure except for database reads. A bucket that begins in the middle of the log needs its state
# there, so it begins at the newest daily snapshot at or before the chosen place. Times in Unix ms.

From = Literal["earliest", "time", "offsets"]
# What a bucket starts from: the whole log, a snapshot, no state although the log has earlier
# records, or a log without records.
Means = Literal["log", "snapshot", "forgets", "nothing"]

# Records/s assumed for a query in micro-batches until a rate has been measured here.
ASSUMED: Mapping[str, float] = {"kernel": 60_000.0, "python": 15_000.0}
# How long a restarted query takes before it reads, however much there is to read, s.
BEGIN_S = 6
# How many of the last catch-up batches are examined.
MEASURED_OF = 30
# A batch with fewer records says little about the rate.
LEAST_ROWS = 2_000

# Where the offset is in the sortable form of a version: states_assetstate.version.
_OFFSET_AT, _OFFSET_DIGITS = 8, 19


@dataclass(frozen=True, slots=True)
class ReplayChoice:
    """What to replay. scenario: the one to read again, empty for all of the query's.

    offsets: by bucket; exactly: begin at these offsets with no state; bound: the last append time
    that counts where a bucket's clock is ahead, or None.
    """

    query: str
    scenario: str = ""
    start: From = "earliest"
    time: int = 0
    offsets: Mapping[str, int] = field(default_factory=dict)
    exactly: bool = False
    bound: int | None = None


@dataclass(frozen=True, slots=True)
class BucketReplay:
    """One bucket of the plan. begin, end: the edges of its log; first: the offset to read from.

    since: the time at that offset, None if unknown; later: it begins after the chosen place; left:
    assets on the board that it would know nothing about; bound: the last append time that counts,
    None if its clock is not ahead.
    """

    name: str
    scenario: str
    partition: int
    begin: int
    end: int
    first: int
    means: Means
    snapshot: FoldSnapshot | None = None
    since: int | None = None
    chosen: bool = True
    later: bool = False
    left: int = 0
    bound: int | None = None

    @property
    def records(self) -> int:
        """Return how many records would be read again."""
        return max(0, self.end - self.first)

    def asked(self) -> dict[str, Any]:
        """Return the bucket as sent to the job."""
        if self.snapshot is not None:
            file, digest = self.snapshot.file, self.snapshot.digest
            return {"offset": self.first, "snapshot": file, "digest": digest}
        return {} if self.means in ("log", "nothing") else {"offset": self.first}


@dataclass(frozen=True, slots=True)
class ReplayPlan:
    """All buckets of a query. rate: records/s; measured: the rate is not an assumption."""

    choice: ReplayChoice
    buckets: Sequence[BucketReplay]
    rate: float
    measured: bool

    @property
    def records(self) -> int:
        """Return how many records would be read again."""
        return sum(bucket.records for bucket in self.buckets)

    @property
    def seconds(self) -> float:
        """Return how long the replay would take, including its start, s."""
        return BEGIN_S + self.records / self.rate

    def seconds_of(self, bucket: BucketReplay) -> float:
        """Return how long a bucket's records would take, s."""
        return bucket.records / self.rate

    @property
    def whole(self) -> bool:
        """Return whether the replay reaches the same states as the whole log."""
        return all(bucket.means != "forgets" for bucket in self.buckets)

    @property
    def left(self) -> int:
        """Return how many assets on the board the job would know nothing about."""
        return sum(bucket.left for bucket in self.buckets)

    @property
    def action(self) -> Action:
        """Return the action to request from the job."""
        return "rebuild" if self.whole else "reset"

    @property
    def word(self) -> str:
        """Return the word to type: the scenario's name, or the query's."""
        return self.choice.scenario or self.choice.query

    def parameters(self) -> dict[str, Any]:
        """Return the plan as sent to the job."""
        buckets = {bucket.name: bucket.asked() for bucket in self.buckets}
        plain: dict[str, Any] = {"buckets": {name: part for name, part in buckets.items() if part}}
        bounds = {each.name: each.bound for each in self.buckets if each.bound is not None}
        return plain | ({"bounds": bounds} if bounds else {})

    def digest(self) -> str:
        """Return a digest of the reviewed plan: where each bucket begins, and with what."""
        parts = [
            (bucket.name, bucket.first, bucket.means, bucket.asked(), bucket.bound)
            for bucket in self.buckets
        ]
        return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()[:32]


def carried(query: str) -> list[str]:
    """Return the scenarios that a query carries, by its heartbeats."""
    rows = BucketStatus.objects.carried_by(query).values_list("scenario", flat=True)
    names = set(rows)
    return [name for name in scenarios() if name in names]


# First and next offset, by scenario and partition.
Edges = Mapping[tuple[str, int], tuple[int, int]]


def plan(choice: ReplayChoice, edges: Edges) -> ReplayPlan:
    """Return where each bucket of the query would begin, given the edges of its log."""
    names = carried(choice.query)
    kept, beyond = (
        _snapshots(set(names) - _replaced(choice.query)),
        () if choice.bound is None else ahead(choice.query),
    )
    buckets = []
    for name in names:
        for at in range(scenarios()[name].partitions):
            begin, end = edges[name, at]
            bound = choice.bound if bucket_name(name, at) in beyond else None
            held = LogBound.terms_of(name, at)
            if bound is not None:
                held = held._replace(bounds=(*held.bounds, (bound, end)))
            snapshots = [
                row
                for row in kept.get((name, at), [])
                if begin <= row.next_offset <= end and row.fits(held)
            ]
            bucket = _bucket(choice, name, at, (begin, end), snapshots)
            buckets.append(replace(bucket, bound=bound))
    rate = measured_rate(choice.query)
    assumed = ASSUMED.get(engine_of(choice.query), min(ASSUMED.values()))
    return ReplayPlan(choice, buckets, rate or assumed, rate is not None)


def ahead(query: str) -> dict[str, int]:
    """Return since when the clocks of the query's buckets have been ahead, by bucket, Unix ms."""
    rows = BucketStatus.objects.carried_by(query).filter(ahead_since__isnull=False)
    return {row.bucket: row.ahead_since or 0 for row in rows.order_by("bucket")}


def _replaced(query: str) -> set[str]:
    """Return the scenarios of a query whose logs are others than those of their snapshots."""
    last = last_reports().filter(query=query).first()
    return set(last.replaced.split()) if last else set()


def _snapshots(names: Iterable[str]) -> dict[tuple[str, int], list[FoldSnapshot]]:
    """Return the snapshots by bucket, oldest first."""
    groups: dict[tuple[str, int], list[FoldSnapshot]] = {}
    for row in FoldSnapshot.objects.filter(scenario__in=list(names)).order_by("next_offset"):
        groups.setdefault((row.scenario, row.partition), []).append(row)
    return groups


def _bucket(
    choice: ReplayChoice,
    scenario: str,
    at: int,
    edge: tuple[int, int],
    snapshots: list[FoldSnapshot],
) -> BucketReplay:
    """Return the plan for one bucket. snapshots: those that match the log, oldest first."""
    name, (begin, end) = bucket_name(scenario, at), edge
    chosen = choice.scenario in ("", scenario)
    if chosen and choice.exactly:
        return _forgetting(name, scenario, at, edge, choice.offsets.get(name, begin))
    fitting = snapshots if not chosen else _fitting(choice, name, snapshots)
    later = False
    if chosen and choice.start == "earliest":
        snapshot = None if begin == 0 else next(iter(snapshots), None)
    else:
        snapshot = fitting[-1] if fitting else None
        if snapshot is None and begin > 0 and snapshots:
            snapshot, later = snapshots[0], True
    if snapshot is None and begin > 0:
        return _forgetting(name, scenario, at, edge, begin, chosen=chosen)
    first = begin if snapshot is None else snapshot.next_offset
    means: Means = "snapshot" if snapshot else "log" if end > first else "nothing"
    since = snapshot.clock if snapshot else None
    return BucketReplay(
        name, scenario, at, begin, end, first, means, snapshot, since, chosen, later
    )


def _fitting(choice: ReplayChoice, name: str, snapshots: list[FoldSnapshot]) -> list[FoldSnapshot]:
    """Return the snapshots at or before the chosen place."""
    if choice.start == "time":
        return [row for row in snapshots if row.clock <= choice.time]
    upto = choice.offsets.get(name)
    return [row for row in snapshots if upto is not None and row.next_offset <= upto]


def _forgetting(
    name: str, scenario: str, at: int, edge: tuple[int, int], first: int, *, chosen: bool = True
) -> BucketReplay:
    """Return a bucket that begins without state although its log began earlier."""
    begin, end = edge
    first = min(max(first, begin), end)
    if first == 0:
        return BucketReplay(
            name, scenario, at, begin, end, 0, "log" if end else "nothing", chosen=chosen
        )
    left = _left(scenario, at, first)
    return BucketReplay(name, scenario, at, begin, end, first, "forgets", chosen=chosen, left=left)


def _left(scenario: str, partition: int, first: int) -> int:
    """Return how many assets on the board have their last record before an offset."""
    rows = AssetState.objects.filter(scenario=scenario, partition=partition, purged=False)
    place = Substr("version", _OFFSET_AT, _OFFSET_DIGITS)
    return rows.annotate(at=place).filter(at__lt=f"{first:0{_OFFSET_DIGITS}d}").count()


def measured_rate(query: str) -> float | None:
    """Return the records/s of the last catch-up batches, or None if there are none."""
    rows = JobProgress.objects.filter(query=query, status="catching-up").exclude(batch="")
    rates = []
    for text in rows.order_by("-id").values_list("batch", flat=True)[:MEASURED_OF]:
        batch = msgspec.json.decode(text)
        if batch.get("numInputRows", 0) >= LEAST_ROWS:
            rates.append(float(batch.get("processedRowsPerSecond", 0)))
    rates = [rate for rate in rates if rate > 0]
    return median(rates) if rates else None


# ---- start times ---------------------------------------------------------------------------------
# The append times of the first records to read.

# How long the broker may take for all of them; times it has not given by then stay unknown.
PATIENCE_S = 2.0


def with_moments(plan: ReplayPlan, bus: Bus, topics: Topics) -> ReplayPlan:
    """Return the plan with the time of each bucket's first record, if Kafka answers in time."""
    open_ones = [b for b in plan.buckets if b.since is None and b.records]
    places = {_place(bucket, topics): bucket.first for bucket in open_ones}
    try:
        times = moments(bus, places)
    except BusError:
        times = {}
    buckets = [
        replace(bucket, since=bucket.since or times.get(_place(bucket, topics)))
        for bucket in plan.buckets
    ]
    return replace(plan, buckets=buckets)


def _place(bucket: BucketReplay, topics: Topics) -> TopicPartition:
    return topics.reports(bucket.scenario), bucket.partition


def moments(bus: Bus, places: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Return, for each offset, the append time of its record or of the first one after it.

    Raises BusError.
    """
    if not places:
        return {}
    times: dict[TopicPartition, int] = {}
    give_up = monotonic() + PATIENCE_S
    reader = bus.reader(places)
    try:
        while len(times) < len(places) and monotonic() < give_up:
            for message in reader.poll(0.2, 100):
                times.setdefault((message.topic, message.partition), message.timestamp)
            left = {place: places[place] for place in places if place not in times}
            if times and left and set(reader.positions()) != set(left):
                reader.assign(left)
    finally:
        reader.close()
    return times


# ---- progress ------------------------------------------------------------------------------------
# Progress of replays: from the job's answers and, by bucket, from its heartbeats.

LISTED = 10
"""How many replays the page lists."""


class BucketProgress(NamedTuple):
    """A bucket as requested: its first and end offsets, and what it started from."""

    name: str
    first: int
    end: int
    means: str


@dataclass(frozen=True, slots=True)
class PartProgress:
    """A bucket now: the records that are left to it; None before it has begun."""

    part: BucketProgress
    left: int | None

    @property
    def total(self) -> int:
        """Return how many records it has to read."""
        return max(0, self.part.end - self.part.first)

    @property
    def done(self) -> int:
        """Return how many records it has read."""
        return 0 if self.left is None else self.total - self.left

    @property
    def percent(self) -> int:
        """Return the progress as a percentage."""
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
        """Return how many records are to be read again."""
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
        """Return the progress as a percentage."""
        return 100 * self.done // self.total if self.total else 100


def dump_parts(plan: ReplayPlan) -> str:
    """Return a plan's buckets in the form stored with the replay."""
    parts = [BucketProgress(each.name, each.first, each.end, each.means) for each in plan.buckets]
    return msgspec.json.encode(parts).decode()


def newest(now: int) -> list[ReplayProgress]:
    """Return the newest replays, newest first."""
    rows = list(Replay.objects.newest()[:LISTED])
    requests = JobRequest.objects.in_bulk([row.pk for row in rows])
    reached = {name: (beat.epoch, beat.offset) for name, (_, beat) in newest_beats(now).items()}
    return [_replay(row, requests.get(row.pk), reached, now) for row in rows]


def _replay(
    row: Replay, request: JobRequest | None, reached: Mapping[str, tuple[int, int]], now: int
) -> ReplayProgress:
    done = request is not None and request.status == "done"
    parts = msgspec.json.decode(row.plan, type=list[BucketProgress])
    return ReplayProgress(
        request, now, row, [_progress(part, row.epoch, reached, done=done) for part in parts]
    )


def _progress(
    part: BucketProgress, epoch: int, reached: Mapping[str, tuple[int, int]], *, done: bool
) -> PartProgress:
    """Return the progress of a bucket.

    epoch: the query's epoch before the replay; done: the job has answered that it has caught up.
    """
    if done:
        return PartProgress(part, 0)
    at_epoch, offset = reached.get(part.name, (0, -1))
    if at_epoch <= epoch:
        return PartProgress(part, None)
    reached_to = min(max(offset + 1, part.first), part.end)
    return PartProgress(part, max(0, part.end - reached_to))
