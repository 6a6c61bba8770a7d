"""Each partition: what its log holds, what its bucket has reached, and where an asset is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from threading import Lock
from typing import Any, TypeVar

from bus.base import AccessRefused, BusError, TopicPartition, no_answer
from dashboard.core.common import metrics
from dashboard.core.common.kafka import Gateway, gateway
from dashboard.core.common.metrics import MetricFamily
from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.tables import Column, Table
from dashboard.core.common.times import now_ms
from dashboard.core.job.liveness import BucketThroughput, Sign, Speed, process_signs, signs, skews
from dashboard.core.job.status import Beats, clocks_behind, newest_beats
from dashboard.core.states.queries import sink_offsets
from domain.scenario import Scenario
from wire.job import AHEAD_MS, Heartbeat, bucket_name

# ---- partitions ----------------------------------------------------------------------------------
# Each partition: what its log holds, what its bucket has reached of it, and how fast that goes.
#
# The page, REST and the metrics all have their figures from here. Times in Unix ms.

ASK_S = 3.0
"""How long the broker may take to say what its partitions hold."""
SHARED_MS = 1_000
"""Pages that ask within so long of each other share the broker's answer."""


# ---- what the logs hold -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PartitionEdges:
    """First and next offset by partition.

    fault: why the broker did not say now, in words; then `offsets` is what it said last. at: when
    it said so, None if it never did.
    """

    offsets: Mapping[TopicPartition, tuple[int, int]] = field(default_factory=dict)
    fault: str = ""
    at: int | None = None
    refused: bool = False


def edges(topics: Iterable[str]) -> PartitionEdges:
    """Return what the broker says of these topics now."""
    try:
        return PartitionEdges(gateway().bus.offsets(topics, timeout_s=ASK_S), at=now_ms())
    except BusError as error:
        return PartitionEdges(fault=no_answer(error), refused=isinstance(error, AccessRefused))


class Logs:
    """The edges of every scenario's topics, as the broker reported them last."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._lock = Lock()
        self._log_edges = PartitionEdges()
        self._asked_at = 0

    def edges(self, fresh_ms: int) -> PartitionEdges:
        """Return what the broker says, or said no longer ago than `fresh_ms` (ms)."""
        with self._lock:  # who waits here shares the answer
            if self._clock() - self._asked_at >= fresh_ms:
                log_edges = edges([topic for name in scenarios() for topic in _topics(name)])
                before = self._log_edges
                self._log_edges = (
                    replace(before, fault=log_edges.fault) if log_edges.fault else log_edges
                )
                self._asked_at = self._clock()
            return self._log_edges


def _topics(scenario: str) -> tuple[str, str]:
    names = gateway().topics
    return names.reports(scenario), names.states(scenario)


@lru_cache(maxsize=2)
def logs(_source: Gateway) -> Logs:
    """Return what is known of the logs behind a gateway, shared by all callers."""
    return Logs(now_ms)


# ---- both together ------------------------------------------------------------------------------


PARTITIONS = Table(
    "partitions",
    "Partition",
    "Status",
    Column.number("Lag", "records in the log that the bucket has not applied", "lag in records"),
    Column.time("Behind by", "how far the bucket's clock is behind now", "lag in seconds"),
    Column.number("Catches up in", "at the present rate", "time to catch up"),
    Column.number("Reports/s", "reports and commands that the job applied, over the last 10 s"),
    Column.number(
        "Share", "of the scenario's load of the last minute, as a multiple of the even share"
    ),
    Column.number(
        "Too late",
        "reports of the last minute that came too late to count: too old, older than their "
        "agent's newest, or older than a vote's lifetime",
    ),
    Column.number("Assets"),
    Column.number("Timers", "what time will cause: ends, expiries, holds, reminders, purges"),
    Column.number("Begins", "first offset that the log still holds"),
    Column.number("Ends", "offset of the next record", "end"),
    Column.number("Reached", "last offset that the bucket has applied"),
    Column.time("Log time", "the bucket's clock: the newest time of a record that it has applied"),
    Column.text("Engine", "what carries the rule out: the kernel, in Java, or Python"),
    Column.number("Epoch", "how many times the query has started again from its log"),
    "Executor",
    "Host",
)


@dataclass(frozen=True, slots=True)
class Partition:
    """One source partition; what is not known is None.

    begin, end: first and next offset; beat: its bucket's newest heartbeat, of `heartbeat_at`;
    lag: in records; lag_ms: in time; ahead_ms: how far the bucket's clock is ahead of the job's
    own, where that is too much; skew: its share of the scenario's load as a multiple of the even
    one.
    """

    scenario: str
    topic: str
    partition: int
    begin: int | None
    end: int | None
    heartbeat_at: int | None
    beat: Heartbeat | None
    lag: int | None
    lag_ms: int | None
    ahead_ms: int
    speed: Speed
    skew: float | None
    signs: list[Sign]

    @property
    def never(self) -> bool:
        """Whether it does not catch up at the present rate."""
        return self.speed.catch_up_ms is None and self.speed.trend in ("rising", "steady")


def rows(log_edges: PartitionEdges, now: int) -> list[Partition]:
    """Return every partition of every scenario's source topic at `now`, with its log's ends."""
    beats = newest_beats(now)
    return [row for known in scenarios().values() for row in _of(known, log_edges, beats, now)]


def _of(scenario: Scenario, log_edges: PartitionEdges, beats: Beats, now: int) -> list[Partition]:
    names = {at: bucket_name(scenario.name, at) for at in range(scenario.partitions)}
    topic = gateway().topics.reports(scenario.name)
    ends = {at: log_edges.offsets.get((topic, at), (None, None)) for at in names}
    lags = {at: _lag(ends[at][1], beats.get(name)) for at, name in names.items()}
    with process_signs().paces() as paces:
        for at, lag in lags.items():
            if lag is not None and not log_edges.fault:
                paces.of(names[at]).lagged(now, lag)
        speeds = {at: paces.of(name).speed(now) for at, name in names.items()}
    shares = skews({at: speed.load for at, speed in speeds.items()})
    whole = sum(speed.load or 0.0 for speed in speeds.values())
    partition_rows = []
    for at, name in names.items():
        heartbeat_at, beat = beats.get(name) or (None, None)
        log_time, ahead = (beat.log_time, beat.ahead) if beat else (None, 0)
        judged = BucketThroughput(heartbeat_at, log_time, speeds[at].load, shares[at], whole, ahead)
        partition_rows.append(
            Partition(
                scenario=scenario.name,
                topic=topic,
                partition=at,
                begin=ends[at][0],
                end=ends[at][1],
                heartbeat_at=heartbeat_at,
                beat=beat,
                lag=lags[at],
                lag_ms=None if log_time is None else max(0, now - log_time),
                ahead_ms=ahead if ahead > AHEAD_MS else 0,
                speed=speeds[at],
                skew=shares[at],
                signs=signs(judged, now),
            )
        )
    return partition_rows


def _lag(end: int | None, beat: tuple[int, Heartbeat] | None) -> int | None:
    """Return how many records the bucket has not applied, or None where that is not known."""
    return None if end is None or beat is None else max(0, end - beat[1].offset - 1)


# ---- for programs -------------------------------------------------------------------------------

REPORTED = (
    "epoch", "engine", "job", "executor", "host", "offset", "log_time", "assets", "timers",
    "records", "dead_letters", "stale", "late", "silent",
)  # fmt: skip
"""What a heartbeat tells, under the names that it has there."""


def plain(row: Partition) -> dict[str, Any]:
    """Return a partition as REST and the metrics give it."""
    speed = row.speed
    return {
        "scenario": row.scenario,
        "topic": row.topic,
        "partition": row.partition,
        "begin": row.begin,
        "end": row.end,
        **{name: getattr(row.beat, name) if row.beat else None for name in REPORTED},
        "lag": row.lag,
        "lag_s": _seconds(row.lag_ms),
        "ahead_s": None if row.beat is None else row.ahead_ms / 1000,
        "heartbeat_at": row.heartbeat_at,
        "records_s": speed.rate,
        "skew": row.skew,
        "trend": speed.trend,
        "catch_up_s": _seconds(speed.catch_up_ms),
        "signs": row.signs,
    }


def _seconds(ms: int | None) -> float | None:
    return None if ms is None else ms / 1000


def partitions(now: int) -> tuple[PartitionEdges, list[dict[str, Any]]]:
    """Return what the broker says now, and every partition: no end where it does not answer."""
    log_edges = edges([gateway().topics.reports(name) for name in scenarios()])
    return log_edges, [plain(row) for row in rows(log_edges, now)]


# ---- the sink topics ----------------------------------------------------------------------------


SINKS = Table(
    "states",
    "Partition",
    Column.number("Lag", "records that the database has not got yet", "lag in records"),
    Column.number("Begins"),
    Column.number("Ends", "offset of the next record", "end"),
    Column.number("Database is at", "next offset that the database has not got yet"),
    narrow=True,
)


@dataclass(frozen=True, slots=True)
class SinkPosition:
    """One partition of a scenario's states; reached: the next offset that the database lacks."""

    scenario: str
    topic: str
    partition: int
    begin: int | None
    end: int | None
    reached: int | None

    @property
    def lag(self) -> int | None:
        """Records that the database has not seen yet; None where the log's end is not known."""
        if self.begin is None or self.end is None:
            return None
        return max(0, self.end - (self.begin if self.reached is None else self.reached))


def sinks(log_edges: PartitionEdges) -> list[SinkPosition]:
    """Return every partition of every scenario's states."""
    reached, positions = sink_offsets(), []
    for known in scenarios().values():
        topic = gateway().topics.states(known.name)
        for at in range(known.partitions):
            begin, end = log_edges.offsets.get((topic, at), (None, None))
            positions.append(
                SinkPosition(known.name, topic, at, begin, end, reached.get((topic, at)))
            )
    return positions


# ---- totals --------------------------------------------------------------------------------------
# What the partitions of a scenario come to together. Times in ms.

N = TypeVar("N", int, float)

# The signs that something stands out, the most important first.
ORDER: tuple[Sign, ...] = ("unknown", "silent", "ahead", "behind", "hot", "idle")


@dataclass(frozen=True, slots=True)
class Total:
    """One scenario; what is known of no partition is None.

    records: in its source logs; lag_ms, catch_up_ms: of the partition that is worst off; rate:
    records/s; signs: how many partitions have each sign.
    """

    scenario: Scenario
    partitions: int
    records: int | None
    lag: int | None
    lag_ms: int | None
    catch_up_ms: int | None
    rate: float | None
    assets: int | None
    timers: int | None
    signs: dict[Sign, int]


def totals(scenarios: Iterable[Scenario], rows: Iterable[Partition]) -> list[Total]:
    """Return a total for each scenario, in their order."""
    every = list(rows)
    return [
        _total(known, [row for row in every if row.scenario == known.name]) for known in scenarios
    ]


def _total(scenario: Scenario, rows: Sequence[Partition]) -> Total:
    beats = [row.beat for row in rows if row.beat is not None]
    held = [row.end - row.begin for row in rows if row.end is not None and row.begin is not None]
    return Total(
        scenario=scenario,
        partitions=len(rows),
        records=sum(held) if held else None,
        lag=_sum(row.lag for row in rows),
        lag_ms=max((row.lag_ms for row in rows if row.lag_ms is not None), default=None),
        catch_up_ms=_longest([row.speed.catch_up_ms for row in rows]),
        rate=_sum(row.speed.rate for row in rows),
        assets=_sum(beat.assets for beat in beats),
        timers=_sum(beat.timers for beat in beats),
        signs=counted(rows),
    )


def counted(rows: Iterable[Partition]) -> dict[Sign, int]:
    """Return how many partitions have each sign of something unusual, the most important first."""
    every = [sign for row in rows for sign in row.signs]
    return {sign: every.count(sign) for sign in ORDER if sign in every}


def _sum(values: Iterable[N | None]) -> N | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _longest(values: Sequence[int | None]) -> int | None:
    """Return the longest time in ms, or None as soon as one of them is not known to end."""
    known = [value for value in values if value is not None]
    return max(known) if values and len(known) == len(values) else None


# ---- metrics -------------------------------------------------------------------------------------
# The metrics of partitions, read at each scrape.

_OF_A_BUCKET = {
    "offset": metrics.BUCKET_OFFSET,
    "lag": metrics.BUCKET_LAG,
    "lag_s": metrics.BUCKET_LAG_SECONDS,
    "ahead_s": metrics.BUCKET_AHEAD_SECONDS,
    "assets": metrics.BUCKET_ASSETS,
    "timers": metrics.BUCKET_TIMERS,
}


def bucket_metrics() -> Iterator[MetricFamily]:
    """Yield whether the broker answers, and how far each bucket has come."""
    ends, rows = partitions(now_ms())
    yield metrics.BROKER_UP.family([((), 0 if ends.fault else 1)])
    for key, metric in _OF_A_BUCKET.items():
        yield metric.family((_labels(row), row[key]) for row in rows if row[key] is not None)
    times = [(_labels(row), row["log_time"] / 1000) for row in rows if row["log_time"] is not None]
    yield metrics.BUCKET_LOG_TIME.family(times)
    yield metrics.BROKER_BEHIND_SECONDS.family(_slow_brokers(rows))


def _slow_brokers(rows: list[dict[str, Any]]) -> Iterator[tuple[tuple[str, str], float]]:
    """Yield of each bucket that has been heard of how far its broker's clock is behind, s."""
    clocks = clocks_behind()
    for row in rows:
        if row["log_time"] is not None:
            clock = clocks.get(bucket_name(row["scenario"], row["partition"]))
            yield _labels(row), clock.by / 1000 if clock else 0


def _labels(row: dict[str, Any]) -> tuple[str, str]:
    return row["scenario"], str(row["partition"])


def sink_metrics() -> Iterator[MetricFamily]:
    """Yield how far the database is behind the states."""
    yield metrics.SINK_LAG.family(_sink_lag())


def _sink_lag() -> Iterable[tuple[tuple[str, str], float]]:
    """Yield the lag of each sink partition, in records.

    Yields nothing where the broker has just not answered: it would be waited for twice.
    """
    if partitions(now_ms())[0].fault:
        return
    reached = sink_offsets()
    bounds = edges([gateway().topics.states(name) for name in scenarios()]).offsets
    for (topic, at), (begin, end) in bounds.items():
        yield (topic, str(at)), max(0, end - reached.get((topic, at), begin))
