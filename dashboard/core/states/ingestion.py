"""The batches of sink records that the packages write, and the reader of a package's own topic."""

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
from dashboard.core.states.models import CHANGE, Divergence
from dashboard.core.states.queries import sink_offsets
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
    """Sink messages by what they are.

    answers: the states that answer a command, in the order of the log; beats: each bucket's newest
    heartbeat; late: all of those with reports that came too late, in the order of the log; letters:
    what the job refused, as unsaved rows; results: of queries; counted: how often what has
    happened, by name and topic; offsets: the next one of each partition.
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
    """What is known of an asset before a record.

    waits: whether a state is pending, only of what the database has, as `doubts`, `pk` and
    `indexed` are; record: only of what was read in this batch.
    """

    version: str = ""
    shown: Shown = Shown()
    doubts: Doubts = ()
    waits: bool = False
    record: str | None = None
    pk: int = 0
    indexed: tuple[Any, ...] = ()


class NewRecord(NamedTuple):
    """A record of a higher version than was known. after: what the asset shows by it."""

    scenario: Scenario
    seen: ReadableRecord
    before: StoredRecord
    after: Shown


class StateChange(NamedTuple):
    """A change of an asset's state, "" after a purge. place: offset and step; at: Unix ms;
    previous: the state before it, "" where there was none."""

    scenario: str
    asset: str
    place: str
    at: int
    state: str
    previous: str


@dataclass
class BatchChanges:
    """The changes of states in a batch, against what the database has. now: Unix ms.

    records: all that are new, asset by asset in order; newest: the last of each asset, by scenario;
    fresh: those of them that were not read before; tasks: those that tell of tasks, with their
    scenario. rows: of assets; renewed: of those whose place in most indexes stays as it was, with
    their ids; names: of new assets; repeated: records of the very version that the database has;
    counts: by how many more assets are in a state now, by scenario and state; doubts: by how many
    more there is a doubt of, by scenario and doubt; dropped: how many records were of a lower epoch
    than what the database has, by scenario.

    reported: by scenario when its newest report came, Unix ms; last: what the packages do when all
    else is written, as others wait for it from then on.
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
    """Return the changes of each asset, in their order, by scenario."""
    grouped: dict[str, dict[str, list[StateChange]]] = {}
    for move in moves:
        grouped.setdefault(move.scenario, {}).setdefault(move.asset, []).append(move)
    return grouped


# ---- topic reader --------------------------------------------------------------------------------
# Topics read from Kafka into the database, beside what the materialiser reads.

log = structlog.get_logger(__name__)

BATCH = 1_000
"""Most messages of one transaction: the board's materialiser writes into the same database."""
WAIT_S = 0.5
GATHER_S = 0.25
LOOK_S = 5.0
"""How often it is looked for topics that are not there yet, as their pipeline may not run."""


class TopicReader(TopicConsumer):
    """Reads topics from where the database is. A crash at any point neither loses nor repeats
    anything, as offsets are stored with what they stand for."""

    faults = (Exception,)  # nothing but a stop ends its thread
    gaps_are_losses = True

    def __init__(
        self,
        bus: Bus,
        name: str,
        topics: Sequence[str],
        take_in: Callable[[list[ConsumerRecord]], None],
    ) -> None:
        """name: of what is read; take_in: writes messages and their offsets into the database, or
        nothing."""
        self._bus, self.name, self._topics, self._take_in = bus, name, topics, take_in
        self._partitions: set[tuple[str, int]] = set()
        self._next_look = 0.0

    def step(self) -> int:
        """Take in what has arrived; return how many messages. Raises BusError and DatabaseError."""
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
        """Return how long to wait until the next look where nothing has arrived, s."""
        return 0.0 if read else WAIT_S

    def close(self) -> None:
        """Let go of the topics, and of what the database no longer answers on."""
        super().close()
        self._partitions = set()
        self._next_look = 0.0
        close_old_connections()

    def _look(self) -> None:
        """Begin to read topics that are there since the last look. Raises BusError."""
        places = self._bus.offsets(self._topics)
        if places.keys() == self._partitions:
            return
        self.close()
        self._partitions = set(places)
        if places:
            known = sink_offsets()
            starts = {place: known.get(place, begin) for place, (begin, _) in places.items()}
            log.info("reading", what=self.name, partitions=len(starts))
            self._reader = self._bus.reader(starts, gather_s=GATHER_S)
