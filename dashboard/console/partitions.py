"""Each partition: what its log holds, what its bucket has reached of it, and how fast that goes.

The page, REST and the metrics all have their figures from here. Times in Unix ms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from threading import Lock
from typing import Any

from bus.base import BusError, Refused, TopicPartition, no_answer
from dashboard.core.kafka_gateway import Gateway, gateway
from dashboard.core.scenarios import scenarios
from dashboard.core.tables import Column, Table
from dashboard.core.times import now_ms
from dashboard.job.liveness import process_signs
from dashboard.job.status import Beats, newest_beats
from dashboard.job.throughput import Judged, Sign, Speed, signs, skews
from dashboard.states.queries import sink_offsets
from domain.scenario import Scenario
from wire.job import AHEAD_MS, Heartbeat, bucket_name

ASK_S = 3.0
"""How long the broker may take to say what its partitions hold."""
SHARED_MS = 1_000
"""Pages that ask within so long of each other share the broker's answer."""


# ---- what the logs hold -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Edges:
    """First and next offset by partition.

    fault: why the broker did not say now, in words; then `found` is what it said last. at: when it
    said so, None if it never did.
    """

    found: Mapping[TopicPartition, tuple[int, int]] = field(default_factory=dict)
    fault: str = ""
    at: int | None = None
    refused: bool = False


def edges(topics: Iterable[str]) -> Edges:
    """Return what the broker says of these topics now."""
    try:
        return Edges(gateway().bus.offsets(topics, timeout_s=ASK_S), at=now_ms())
    except BusError as error:
        return Edges(fault=no_answer(error), refused=isinstance(error, Refused))


class Logs:
    """The edges of every scenario's topics, as the broker reported them last."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._lock = Lock()
        self._told = Edges()
        self._asked_at = 0

    def edges(self, fresh_ms: int) -> Edges:
        """Return what the broker says, or said no longer ago than `fresh_ms` (ms)."""
        with self._lock:  # who waits here shares the answer
            if self._clock() - self._asked_at >= fresh_ms:
                told = edges([topic for name in scenarios() for topic in _topics(name)])
                before = self._told
                self._told = replace(before, fault=told.fault) if told.fault else told
                self._asked_at = self._clock()
            return self._told


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
    Column.number("Catches up in", "if it goes on as it does", "time to catch up"),
    Column.number("Reports/s", "reports and commands that the job applied, over the last 10 s"),
    Column.number(
        "Share", "of the scenario's load of the last minute, as a multiple of the even share"
    ),
    Column.number(
        "Too late",
        "reports of the last minute that came too late to count: too old, older than their "
        "agent's newest, or older than a vote lives",
    ),
    Column.number("Assets"),
    Column.number("Timers", "what time will cause: ends, expiries, holds, reminders, purges"),
    Column.number("Begins", "first offset that the log still holds"),
    Column.number("Ends", "offset of the next record", "end"),
    Column.number("Reached", "last offset that the bucket has applied"),
    Column.time("Log time", "the bucket's clock: the newest time of a record that it has applied"),
    Column.text("Engine", "what carries the rule out: the kernel, in Java, or Python"),
    Column.number("Epoch", "how many times the query has begun anew from its log"),
    "Executor",
    "Host",
)


@dataclass(frozen=True, slots=True)
class Partition:
    """One source partition; what is not known is None.

    begin, end: first and next offset; beat: its bucket's newest heartbeat, heard at `heard_at`;
    lag: in records; lag_ms: in time; ahead_ms: how far the bucket's clock is ahead of the job's
    own, where that is too much; skew: its share of the scenario's load as a multiple of the even
    one.
    """

    scenario: str
    topic: str
    partition: int
    begin: int | None
    end: int | None
    heard_at: int | None
    beat: Heartbeat | None
    lag: int | None
    lag_ms: int | None
    ahead_ms: int
    speed: Speed
    skew: float | None
    signs: list[Sign]

    @property
    def never(self) -> bool:
        """Whether it does not catch up if it goes on as it does."""
        return self.speed.catch_up_ms is None and self.speed.trend in ("rising", "steady")


def rows(told: Edges, now: int) -> list[Partition]:
    """Return every partition of every scenario's source topic at `now`, with its log's ends."""
    beats = newest_beats(now)
    return [row for known in scenarios().values() for row in _of(known, told, beats, now)]


def _of(scenario: Scenario, told: Edges, beats: Beats, now: int) -> list[Partition]:
    names = {at: bucket_name(scenario.name, at) for at in range(scenario.partitions)}
    topic = gateway().topics.reports(scenario.name)
    ends = {at: told.found.get((topic, at), (None, None)) for at in names}
    lags = {at: _lag(ends[at][1], beats.get(name)) for at, name in names.items()}
    with process_signs().paces() as paces:
        for at, lag in lags.items():
            if lag is not None and not told.fault:
                paces.of(names[at]).lagged(now, lag)
        speeds = {at: paces.of(name).speed(now) for at, name in names.items()}
    shares = skews({at: speed.load for at, speed in speeds.items()})
    whole = sum(speed.load or 0.0 for speed in speeds.values())
    found = []
    for at, name in names.items():
        heard_at, beat = beats.get(name) or (None, None)
        log_time, ahead = (beat.log_time, beat.ahead) if beat else (None, 0)
        judged = Judged(heard_at, log_time, speeds[at].load, shares[at], whole, ahead)
        found.append(
            Partition(
                scenario=scenario.name,
                topic=topic,
                partition=at,
                begin=ends[at][0],
                end=ends[at][1],
                heard_at=heard_at,
                beat=beat,
                lag=lags[at],
                lag_ms=None if log_time is None else max(0, now - log_time),
                ahead_ms=ahead if ahead > AHEAD_MS else 0,
                speed=speeds[at],
                skew=shares[at],
                signs=signs(judged, now),
            )
        )
    return found


def _lag(end: int | None, heard: tuple[int, Heartbeat] | None) -> int | None:
    """Return how many records the bucket has not applied, or None where that is not known."""
    return None if end is None or heard is None else max(0, end - heard[1].offset - 1)


# ---- for programs -------------------------------------------------------------------------------

TOLD = (
    "epoch", "engine", "executor", "host", "offset", "log_time", "assets", "dues", "records",
    "dead_letters", "stale", "late", "silent",
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
        **{name: getattr(row.beat, name) if row.beat else None for name in TOLD},
        "lag": row.lag,
        "lag_s": _seconds(row.lag_ms),
        "ahead_s": None if row.beat is None else row.ahead_ms / 1000,
        "heard_at": row.heard_at,
        "records_s": speed.rate,
        "skew": row.skew,
        "trend": speed.trend,
        "catch_up_s": _seconds(speed.catch_up_ms),
        "signs": row.signs,
    }


def _seconds(ms: int | None) -> float | None:
    return None if ms is None else ms / 1000


def partitions(now: int) -> tuple[Edges, list[dict[str, Any]]]:
    """Return what the broker says now, and every partition: no end where it does not answer."""
    told = edges([gateway().topics.reports(name) for name in scenarios()])
    return told, [plain(row) for row in rows(told, now)]


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
class Sink:
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


def sinks(told: Edges) -> list[Sink]:
    """Return every partition of every scenario's states."""
    reached, found = sink_offsets(), []
    for known in scenarios().values():
        topic = gateway().topics.states(known.name)
        for at in range(known.partitions):
            begin, end = told.found.get((topic, at), (None, None))
            found.append(Sink(known.name, topic, at, begin, end, reached.get((topic, at))))
    return found
