"""This process's copies of topics, and what keeps them."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

import structlog

from bus.base import Bus, ConsumerRecord, LogGap, NotPermitted, TopicPartition
from bus.follower import Follower, TopicConsumer
from dashboard.core.common import metrics as common_metrics
from dashboard.core.common.metrics import MetricFamily
from dashboard.core.common.times import now_ms
from dashboard.operate.console.topic_table import CopyState, RowChange, ViewTable
from dashboard.operate.console.topics import declared_views

# ---- tailer --------------------------------------------------------------------------------------
# What keeps a process's copies of the views' topics.

log = structlog.get_logger(__name__)

BATCH = 2_000
WAIT_S = 0.1
LOOK_S = 1.0
"""How often the topics are looked at: whether they are there, the same ones, and where they end."""
ANSWER_S = 3.0
"""How long the broker may take to answer."""

# Which topic of a name it is, and how many partitions it has.
_Identity = tuple[str, int]
OnChange = Callable[[ViewTable, Sequence[RowChange]], None]


def _ignore(_table: ViewTable, _changes: Sequence[RowChange]) -> None:
    """Ignore what has changed: the tables have it."""


class ViewTailer(TopicConsumer):
    """Reads each topic from its beginning, without a consumer group, into its tables.

    A lost broker is waited for. A topic that is missing is looked for again; one that is another
    than it was, by its id, its partitions or a gap in its offsets, is read from its beginning.
    """

    name = "views"

    def __init__(
        self,
        bus: Bus,
        tables: Iterable[ViewTable],
        clock: Callable[[], int],
        on_change: OnChange = _ignore,
    ) -> None:
        """clock: returns Unix ms. on_change: called after each portion, in the thread."""
        self._bus, self._clock, self._on_change = bus, clock, on_change
        self._tables: dict[str, list[ViewTable]] = defaultdict(list)
        for table in tables:
            self._tables[table.view.topic].append(table)
            table.expect()
        self._known: dict[str, _Identity] = {}
        self._refused: set[str] = set()
        self._next_look = 0.0

    def step(self) -> int:
        """Look at the topics if it is time, and apply what has arrived. Raises BusError.

        Returns how many records that were.
        """
        if time.monotonic() >= self._next_look:
            self.look()
            self._next_look = time.monotonic() + LOOK_S
        if self._reader is None:
            return 0
        messages = self._reader.poll(WAIT_S, BATCH)
        if gaps := self._pop_gaps(self._reader):
            self._begin_anew(gaps)
            return 0
        self._apply(messages)
        self._update_positions(self._reader.positions())
        return len(messages)

    def pause_s(self, read: int) -> float:  # noqa: ARG002 - it is the same after any step
        """Return how long to wait where there is no topic that could be read, s."""
        return WAIT_S if self._reader is None else 0.0

    def recover(self, fault: Exception) -> None:
        """Do nothing: the reader goes on where it was, as copies are not begun anew for a fault."""

    def look(self) -> None:
        """Compare the topics with what they were. Raises BusError."""
        at = self._clock()
        ids = self._ids()
        edges: dict[str, dict[int, tuple[int, int]]] = defaultdict(dict)
        for (topic, partition), edge in self._bus.offsets(ids, timeout_s=ANSWER_S).items():
            edges[topic][partition] = edge
        starts: dict[TopicPartition, int] = {}
        for topic, tables in self._tables.items():
            identity = (ids.get(topic, ""), len(edges[topic]))
            if not edges[topic]:
                self._lose(topic)
            elif self._known.get(topic) == identity:
                self._update_edges(topic, edges[topic], at)
            else:
                log.info("views: reading from the beginning", topic=topic, partitions=identity[1])
                self._known[topic] = identity
                for table in tables:
                    table.begin(edges[topic], at)
                starts |= {(topic, n): begin for n, (begin, _) in edges[topic].items()}
        if starts or self._surplus():
            self._read_from(starts)

    def _ids(self) -> dict[str, str]:
        """Return the topics' ids; a refused one is left out, and said, so that others go on."""
        try:
            return self._bus.topic_ids(self._tables, timeout_s=ANSWER_S)
        except NotPermitted:
            ids: dict[str, str] = {}
        for topic in self._tables:
            try:
                ids |= self._bus.topic_ids([topic], timeout_s=ANSWER_S)
            except NotPermitted as refusal:
                if topic not in self._refused:
                    log.warning("views: a topic is refused", topic=topic, error=str(refusal))
                self._refused.add(topic)
        self._refused -= ids.keys()
        return ids

    def _lose(self, topic: str) -> None:
        for table in self._tables[topic]:
            if table.state().status != "topic-absent":
                log.warning("views: there is no such topic", topic=topic, view=table.view.name)
            table.lose_topic()

    def _update_edges(self, topic: str, edges: Mapping[int, tuple[int, int]], at: int) -> None:
        for table in self._tables[topic]:
            table.regain_topic()
            if changes := table.update_edges(edges, at):
                self._on_change(table, changes)

    def _read_from(self, starts: Mapping[TopicPartition, int]) -> None:
        """Read these partitions from here, the others from where they are."""
        anew = {topic for topic, _ in starts} | self._surplus()
        reader = self._reader
        if reader is None:
            self._reader = self._bus.reader(starts)
            return
        kept = {place: at for place, at in reader.positions().items() if place[0] not in anew}
        reader.assign({**kept, **starts})

    def _surplus(self) -> set[str]:
        """Return the topics that are read and that no table has room for."""
        read = {topic for topic, _ in self._reader.positions()} if self._reader else set()
        return {
            topic
            for topic in read
            if all(table.state().status == "too-large" for table in self._tables[topic])
        }

    def _begin_anew(self, gaps: Iterable[LogGap]) -> None:
        """Have topics read again of which the log no longer holds what was to be read next."""
        for gap in gaps:
            self._known.pop(gap.topic, None)
            for table in self._tables[gap.topic]:
                table.expect()
        self._next_look = 0.0

    def _apply(self, messages: Iterable[ConsumerRecord]) -> None:
        by_topic: dict[str, list[ConsumerRecord]] = defaultdict(list)
        for message in messages:
            by_topic[message.topic].append(message)
        for topic, arrived in by_topic.items():
            for table in self._tables[topic]:
                if changes := table.apply(arrived):
                    self._on_change(table, changes)

    def _update_positions(self, positions: Mapping[TopicPartition, int]) -> None:
        by_topic: dict[str, dict[int, int]] = defaultdict(dict)
        for (topic, partition), position in positions.items():
            by_topic[topic][partition] = position
        for topic, reached in by_topic.items():
            for table in self._tables[topic]:
                table.reach(reached)


# ---- copies --------------------------------------------------------------------------------------
# This process's copies of the views.

STALE_MS = 10_000
"""A copy that has not compared itself with the topic for so long may be out of date."""


@lru_cache(maxsize=1)
def copies() -> dict[str, ViewTable]:
    """Return the copy of each declared view, by its name. Raises ViewError."""
    return {name: ViewTable(view) for name, view in declared_views().items()}


def followers(bus: Bus) -> list[Follower]:
    """Return what keeps the copies of this process: nothing where there is no view.

    Raises ViewError.
    """
    tables = copies().values()
    return [Follower(ViewTailer(bus, tables, now_ms))] if tables else []


def missing_views() -> list[str]:
    """Return the views that have not caught up with their topics yet, in words."""
    states = {name: table.state() for name, table in copies().items()}
    return [
        f"view {name}: {state.read} of {state.total} records read"
        for name, state in states.items()
        if state.status == "catching-up"
    ]


def why_not(table: ViewTable, state: CopyState) -> str:
    """Return why a copy that is not ready gives no answer, and what to do, in words."""
    view = table.view
    reasons = {
        "not-followed": "This process keeps no views: only `manage.py serve` does.",
        "catching-up": f"{state.read:,} of {state.total:,} records of {view.topic} are read.",
        "topic-absent": f"There is no topic {view.topic}. It is looked for every second.",
        "too-large": (
            f"{view.topic} has more than {view.max_records:,} keys or {view.max_bytes:,} bytes: "
            f"raise max_records or max_bytes of [{view.name}], and restart."
        ),
    }
    return reasons[state.status]


def is_stale(state: CopyState) -> bool:
    """Return whether a copy has long not been compared with its topic, as without a broker."""
    return state.as_of is None or now_ms() - state.as_of > STALE_MS


# ---- metrics -------------------------------------------------------------------------------------


def metrics() -> Iterator[MetricFamily]:
    """Yield how this process's copies of views fare."""
    states = {name: table.state() for name, table in copies().items()}
    yield common_metrics.VIEW_STATUS.family(
        ((name, state.status), 1) for name, state in states.items()
    )
    yield common_metrics.VIEW_ROWS.family(
        ((name,), state.records) for name, state in states.items()
    )
    yield common_metrics.VIEW_BYTES.family(((name,), state.size) for name, state in states.items())
    yield common_metrics.VIEW_LAG.family(((name,), state.lag) for name, state in states.items())
    yield common_metrics.VIEW_RESTARTS.family(
        ((name,), state.restarts) for name, state in states.items()
    )
    yield common_metrics.VIEW_REFUSED.family(
        ((name, reason), n) for name, state in states.items() for reason, n in state.refused.items()
    )
