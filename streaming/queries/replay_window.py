"""Which records a replay reads: by append times, and from a snapshot on."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

import msgspec

from bus.base import Bus, TopicPartition, Unavailable
from domain.fold import Bucket
from domain.scenario import Scenario
from streaming.queries.protocol import OnStep, QueryRefused
from streaming.state.buckets import BucketId
from streaming.state.restore import check_place, read_snapshot
from wire.batch_query import Began, Snapshot, lead_time
from wire.snapshot import DamagedSnapshot, load_fold

# ---- log times -----------------------------------------------------------------------------------
# Places in a log by time: single records are looked up, however long it is.

PATIENCE_S = 15.0


class AppendTimes:
    """The append times of records of some partitions."""

    def __init__(self, bus: Bus) -> None:
        self._reader = bus.reader({})

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _e: BaseException | None, _tb: TracebackType | None
    ) -> None:
        self._reader.close()

    def at(self, place: TopicPartition, offset: int) -> int:
        """Return the time (Unix ms) of the first record at or after an offset.

        Raises Unavailable.
        """
        self._reader.assign({place: offset})
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            for message in self._reader.poll(0.5, 1):
                return message.timestamp
        raise Unavailable(f"{place[0]}/{place[1]}: offset {offset} cannot be read")

    def first_since(self, place: TopicPartition, begin: int, end: int, since: int) -> int:
        """Return the first offset of [begin, end) whose record is not before `since`, else `end`.

        since: Unix ms. Raises Unavailable.
        """
        while begin < end:
            middle = (begin + end) // 2
            if self.at(place, middle) < since:
                begin = middle + 1
            else:
                end = middle
        return begin


# ---- replay window -------------------------------------------------------------------------------
# What a what-if replays, and what it begins with: daily snapshots, else an empty state.
#
# In an empty state it begins earlier than the window, by a vote's life, the memory of silent ones
# and the longest hold: then the votes are there, but no override, no mute, and no state from
# before. A snapshot of the plain fold has them all. What is begun with is said partition by
# partition.

# Most records that are replayed under each rule.
MOST_RECORDS = 10_000_000
# Of the versions that a replay gives: nobody compares them with others.
EPOCH = 1


@dataclass(frozen=True)
class ReplayWindow:
    """What is replayed. edges: first and next offset of each partition's log; begin: the offset
    from which it is replayed, to its end; began: with what; since, until: times, ms."""

    edges: Mapping[TopicPartition, tuple[int, int]]
    begin: Mapping[TopicPartition, int]
    began: Mapping[TopicPartition, Began]
    since: int
    until: int

    @property
    def offsets(self) -> dict[int, tuple[int, int]]:
        """By partition, from where to where."""
        return {place[1]: (self.begin[place], end) for place, (_, end) in self.edges.items()}

    @property
    def records(self) -> int:
        """Return how many records."""
        return sum(end - begin for begin, end in self.offsets.values())

    @property
    def begun(self) -> int:
        """Return when the first partition begins."""
        return min(began.at for began in self.began.values())

    def without(self, place: TopicPartition, why: str) -> ReplayWindow:
        """Return the window begun without a snapshot that was there. why: the reason."""
        began = msgspec.structs.replace(self.began[place], why=why)
        return replace(self, began={**self.began, place: began})

    def after(self, place: TopicPartition, offset: int, clock: int) -> ReplayWindow:
        """Return the window begun with a snapshot of that time. clock: Unix ms."""
        began = {**self.began, place: Began("snapshot", clock)}
        return replace(self, begin={**self.begin, place: offset}, began=began)

    def check(self) -> None:
        """Raise QueryRefused if it is too long."""
        if self.records > MOST_RECORDS:
            raise QueryRefused(
                f"{self.records:,} records with what comes before the window, at most "
                f"{MOST_RECORDS:,} are replayed: take fewer hours"
            )


# ---- in an empty state --------------------------------------------------------------------------


def warm_up(scenarios: Sequence[Scenario]) -> int | None:
    """Return how long (ms) before the window an empty state begins.

    This is a vote's life, for as long as it is kept once it is silent, and the longest hold. None:
    at the log's beginning, as votes do not expire.
    """
    lifetimes = [scenario.lifetime for scenario in scenarios]
    holds = [max((scenario.holds or {"": 0}).values()) for scenario in scenarios]
    if None in lifetimes:
        return None
    memory = max(scenario.forget_delay or 0 for scenario in scenarios)
    return max(life for life in lifetimes if life is not None) + memory + max(holds)


def window_of(bus: Bus, topic: str, since: int, scenarios: Sequence[Scenario]) -> ReplayWindow:
    """Return the window from the warm-up to the log's end. since: Unix ms.

    Raises QueryRefused or BusError.
    """
    edges = {place: edge for place, edge in bus.offsets([topic]).items() if edge[0] < edge[1]}
    if not edges:
        raise QueryRefused(f"{topic} holds no records")
    before = warm_up(scenarios)
    with AppendTimes(bus) as times:
        until = max(times.at(place, end - 1) for place, (_, end) in edges.items())
        if since >= until:
            raise QueryRefused("since: expected a time before the log's end")
        begun = 0 if before is None else since - before
        beginnings = {place: _empty(times, place, edge, begun) for place, edge in edges.items()}
    begin = {place: offset for place, (offset, _) in beginnings.items()}
    began = {place: began for place, (_, began) in beginnings.items()}
    return ReplayWindow(edges, begin, began, since, until)


def _empty(
    times: AppendTimes, place: TopicPartition, edge: tuple[int, int], begun: int
) -> tuple[int, Began]:
    """Return the first offset from a time on, and what it means to begin there without a state."""
    offset = times.first_since(place, *edge, begun) if begun > 0 else edge[0]
    if offset > edge[0]:
        return offset, Began("empty", begun)
    return offset, Began("empty" if offset else "log", times.at(place, offset))


# ---- with snapshots -----------------------------------------------------------------------------


def choose(
    window: ReplayWindow, scenario: str, offered: Mapping[str, Snapshot]
) -> tuple[ReplayWindow, dict[TopicPartition, Snapshot]]:
    """Choose the snapshots to begin with: those that meet the log.

    Where they lie so far back that too much would have to be replayed, the farthest are left out,
    as long as an empty state begins later. offered: by bucket.
    """
    chosen = {}
    for place, (begin, end) in window.edges.items():
        kept = offered.get(str(BucketId(scenario, place[1])))
        if kept is not None and begin <= kept.offset <= end:
            chosen[place] = kept
        elif kept is not None:
            window = window.without(place, "the log does not reach back to it any more")
    more = {place: window.begin[place] - kept.offset for place, kept in chosen.items()}
    for place in sorted(more, key=lambda place: -more[place]):
        if window.records + sum(more[one] for one in chosen) <= MOST_RECORDS or more[place] <= 0:
            break
        del chosen[place]
        why = f"more than {MOST_RECORDS:,} records would have to be replayed from it on"
        window = window.without(place, why)
    return window, chosen


class RuleReplay(Protocol):
    """A replay under one rule."""

    scenario: Scenario

    def take_up(self, bucket: Bucket) -> None:
        """Begin a partition with this state, which it puts under the run's rule."""


def begin_with(
    window: ReplayWindow,
    chosen: Mapping[TopicPartition, Snapshot],
    folder: Path,
    runs: Sequence[RuleReplay],
    on_step: OnStep,
) -> ReplayWindow:
    """Have the runs begin with the chosen snapshots; one that cannot be used is left out."""
    for number, (place, kept) in enumerate(chosen.items()):
        on_step(number, len(chosen), "snapshots")
        try:
            clock = _begin_with(place[1], kept, folder, runs, window.since)
        except DamagedSnapshot as damage:
            window = window.without(place, str(damage))
        else:
            window = window.after(place, kept.offset, clock)
    return window


def _begin_with(
    partition: int, kept: Snapshot, folder: Path, runs: Sequence[RuleReplay], since: int
) -> int:
    """Have the runs begin with a snapshot. Returns its time (Unix ms).

    Raises DamagedSnapshot, also if the snapshot is too near to the window.
    """
    name = runs[0].scenario.name
    bucket = _read(partition, kept, folder, name)
    clock, then = bucket.clock, bucket.scenario
    lead = lead_time(then, [run.scenario for run in runs])
    if lead is None or clock + lead >= since:
        raise DamagedSnapshot("its rule was another one, and it lies too near to the window")
    for run in runs:
        if bucket.scenario != then:  # it has been put under another rule
            bucket = _read(partition, kept, folder, name)
        run.take_up(bucket)
    return clock


def _read(partition: int, kept: Snapshot, folder: Path, scenario: str) -> Bucket:
    bucket = load_fold(read_snapshot(folder / kept.snapshot, kept.digest), EPOCH)
    check_place(bucket, str(BucketId(scenario, partition)), kept.offset)
    return bucket
