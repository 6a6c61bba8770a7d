"""Batches of sink records for the packages to write, and a reader for a package's own topic."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import structlog
from django.db import close_old_connections

from bus.base import Bus, ConsumerRecord
from bus.follower import TopicConsumer
from dashboard.core.states.caveats import Doubts
from dashboard.core.states.models import CHANGE, Divergence, begin_offsets
from dashboard.core.states.rows import ReadableRecord, Shown
from domain.scenario import Scenario
from wire.batch_query import Result
from wire.job import Heartbeat, QueryReport
from wire.pipeline import PipelineProgress

AssetKey = tuple[str, str]
"""A scenario and an asset."""


class UnreadableSinkRecord(ValueError):
    """A record of a sink topic that no package can read."""


@dataclass
class SinkBatch:
    """Sink messages by type.

    answers: the states that answer a command, in log order; beats: each bucket's newest heartbeat;
    late: every heartbeat with reports that came too late, in log order; letters: what the job
    refused, as unsaved rows; results: of queries; counted: how often each event happened, by name
    and topic; offsets: the next offset of each partition.
    """

    states: dict[AssetKey, list[ReadableRecord]] = field(default_factory=dict)
    answers: list[tuple[str, ReadableRecord]] = field(default_factory=list)
    beats: dict[str, Heartbeat] = field(default_factory=dict)
    late: list[Heartbeat] = field(default_factory=list)
    progress: list[QueryReport] = field(default_factory=list)
    pipelines: list[PipelineProgress] = field(default_factory=list)
    letters: list[Any] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)
    counted: Counter[tuple[str, str]] = field(default_factory=Counter)
    offsets: dict[tuple[str, int], int] = field(default_factory=dict)


class StoredRecord(NamedTuple):
    """What is known about an asset before a record.

    waits: whether a state is pending. `waits`, `doubts`, `pk` and `indexed` are only set from the
    database; `record` only from an earlier record in this batch.
    """

    version: str = ""
    shown: Shown = Shown()
    doubts: Doubts = ()
    waits: bool = False
    record: str | None = None
    pk: int = 0
    indexed: tuple[Any, ...] = ()


class NewRecord(NamedTuple):
    """A record with a higher version than the known one. after: what the asset shows with it."""

    scenario: Scenario
    seen: ReadableRecord
    before: StoredRecord
    after: Shown


class StateChange(NamedTuple):
    """A change of an asset's state; "" after a purge. place: offset and step; at: Unix ms;
    previous: the state before it, "" if there was none."""

    scenario: str
    asset: str
    place: str
    at: int
    state: str
    previous: str


@dataclass
class BatchChanges:
    """The changes of states in a batch compared with the database. now: Unix ms.

    records: every new record, asset by asset in order; newest: the last one of each asset, by
    scenario; fresh: those of the newest that were not read before; tasks: those about tasks, with
    their scenario; rows: rows of assets; renewed: rows of assets whose position in most indexes is
    unchanged, with their ids; names: of new assets; repeated: records whose version the database
    already has; counts: the change in the number of assets in each state, by scenario and state;
    doubts: the change in the number of assets with each doubt, by scenario and doubt; dropped: how
    many records had a lower epoch than the database, by scenario.

    reported: when each scenario's newest report came, Unix ms; replaced: the first heartbeats of
    buckets whose source topic was created again; last: what the packages do after
    everything else is written, because others wait for it from then on.
    """

    batch: SinkBatch
    scenarios: dict[str, Scenario]
    now: int
    records: list[NewRecord] = field(default_factory=list)
    newest: dict[str, dict[str, ReadableRecord]] = field(default_factory=dict)
    fresh: dict[str, list[ReadableRecord]] = field(default_factory=dict)
    tasks: list[tuple[str, ReadableRecord]] = field(default_factory=list)
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    renewed: list[tuple[int, tuple[Any, ...]]] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    transitions: list[tuple[Any, ...]] = field(default_factory=list)
    repeated: list[tuple[str, ReadableRecord]] = field(default_factory=list)
    divergences: list[Divergence] = field(default_factory=list)
    counts: Counter[AssetKey] = field(default_factory=Counter)
    doubts: Counter[AssetKey] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)
    reported: dict[str, int] = field(default_factory=dict)
    replaced: list[Heartbeat] = field(default_factory=list)
    last: list[Callable[[], None]] = field(default_factory=list)

    @cached_property
    def moves(self) -> list[StateChange]:
        """The changes of a state, in the order of the transitions."""
        return [
            StateChange(scenario, asset, place, at, state, previous)
            for scenario, asset, place, kind, _version, at, previous, state, *_ in self.transitions
            if kind == CHANGE
        ]


def by_asset(moves: Iterable[StateChange]) -> dict[str, dict[str, list[StateChange]]]:
    """Return the changes of each asset, in order, by scenario and asset."""
    grouped: dict[str, dict[str, list[StateChange]]] = {}
    for move in moves:
        grouped.setdefault(move.scenario, {}).setdefault(move.asset, []).append(move)
    return grouped


# ---- topic reader --------------------------------------------------------------------------------
# Topics read from Kafka into the database besides those of the materialiser.

log = structlog.get_logger(__name__)

BATCH = 1_000
"""Most messages in one transaction: the board's materialiser writes to the same database."""
WAIT_S = 0.5
GATHER_S = 0.25
LOOK_S = 5.0
"""How often to look for topics that do not exist yet, since their pipeline may not be running."""


class TopicReader(TopicConsumer):
    """Reads topics from the offsets stored in the database. A crash at any point neither loses nor
    repeats anything, as offsets are stored together with the data."""

    faults = (Exception,)  # nothing but a stop ends its thread
    gaps_are_losses = True

    def __init__(
        self,
        bus: Bus,
        name: str,
        topics: Sequence[str],
        take_in: Callable[[list[ConsumerRecord]], None],
    ) -> None:
        """name: of what is read, for the log; take_in: writes the messages and their offsets to the
        database, all or nothing."""
        self._bus, self.name, self._topics, self._take_in = bus, name, topics, take_in
        self._partitions: set[tuple[str, int]] = set()
        self._next_look = 0.0

    def step(self) -> int:
        """Store what has arrived and return how many messages. Raises BusError, DatabaseError."""
        if time.monotonic() >= self._next_look:
            self._look()
            self._next_look = time.monotonic() + LOOK_S
        if self._reader is None:
            return 0
        messages = self._reader.poll(WAIT_S, BATCH)
        self._pop_gaps(self._reader)
        if messages:
            self._take_in(messages)
        return len(messages)

    def pause_s(self, read: int) -> float:
        """Return how long to wait before the next poll, s."""
        return 0.0 if read else WAIT_S

    def close(self) -> None:
        """Close the reader, and database connections that no longer work."""
        super().close()
        self._partitions = set()
        self._next_look = 0.0
        close_old_connections()

    def _look(self) -> None:
        """Start reading topics that are new since the last look. Raises BusError."""
        places = self._bus.offsets(self._topics)
        if places.keys() == self._partitions:
            return
        self.close()
        self._partitions = set(places)
        if places:
            starts = begin_offsets(places, self._bus.topic_ids(self._topics))
            log.info("reading", what=self.name, partitions=len(starts))
            self._reader = self._bus.reader(starts, gather_s=GATHER_S)
