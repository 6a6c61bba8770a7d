"""What reads the sink topics in each web process, from where the database is."""

from __future__ import annotations

import time
from collections.abc import Iterable

import structlog
from django.db import DatabaseError, close_old_connections

from bus.base import AccessRefused, Bus, BusError, ConsumerRecord, Reader, TopicSpec
from bus.follower import TopicConsumer
from dashboard.board.live.live_view import LiveView
from dashboard.board.live.page_filter import LiveRecord, Offsets, SinkPartition
from dashboard.board.live.snapshots import Beside, causes, counted, tab_badges
from dashboard.core.common.metrics import UNREADABLE
from dashboard.core.common.scenarios import dependencies, dependents
from dashboard.core.job.agent_findings import agent_news
from dashboard.core.job.status import recall
from dashboard.core.states.board_rows import named_details, row_of
from dashboard.core.states.queries import sink_offsets
from dashboard.core.states.stores import kept_of
from dashboard.watch.annotations.row_marks import MarkChanges
from dashboard.watch.filters.models import SavedFilter
from domain.scenario import Scenario
from domain.version import Version
from wire.sink import TombstoneValue, read_state
from wire.topics import Topics

log = structlog.get_logger(__name__)

BATCH = 2_000
WAIT_S = 0.1
HOUSEKEEPING_S = 0.25
"""How often the overlay is pruned and the counts are taken anew, at least."""
AGENTS_S = 5.0
"""How often it is looked what there is to say of agents."""
BEATS_READ = 20_000
"""So many heartbeats that the database has are read again: half an hour of twelve buckets."""
SHARE = 10
"""Counting may take one part in this many of the thread's time."""
PACE_S = 0.02
"""From one portion to the next, s: each is looked up in the database, and wakes sockets."""
PACE_EACH_S = 0.00001
"""So much longer for each open socket, as what a portion costs grows with them, s."""
MOST_PACE_S = 0.2
GATHER_S = 0.04
"""So long a broker may gather what it answers with: an answer for each record costs both sides."""
MOST_AHEAD = 50_000
"""So many assets may be kept that the database has not got yet: some 150 MB. Past that the database
is waited for."""


class Tailer(TopicConsumer):
    """Reads sink topics into a LiveView. A lost broker or database is waited for."""

    name = "tailer"
    faults = (BusError, DatabaseError)

    def __init__(
        self,
        bus: Bus,
        topics: Topics,
        scenarios: dict[str, Scenario],
        view: LiveView,
        *,
        replication: int = 1,
    ) -> None:
        self._bus, self._topics, self._scenarios, self._view = bus, topics, scenarios, view
        self._replication = replication
        self._uncounted = set(scenarios)
        self._changes = MarkChanges()
        self._beside = Beside(scenarios, view)
        self._next_maintenance = self._next_news = 0.0

    def step(self) -> int:
        """Read what has arrived and pass it on. Raises BusError, DatabaseError.

        Returns how many records that were.
        """
        if self._reader is None:
            self._reader = self._open()
        if self._view.ahead() >= MOST_AHEAD:
            self._prune()  # and read nothing more until the materialiser has caught up
            return 0
        messages = self._reader.poll(WAIT_S, BATCH)
        self._pass_on(messages)
        if len(messages) < BATCH and self._reader.at_end():
            self._view.signs.reached(time.time_ns() // 1_000_000)
        if self._pop_gaps(self._reader):
            self._view.invalidate()
        if time.monotonic() >= self._next_maintenance:
            self.maintain()
        return len(messages)

    def pause_s(self, read: int) -> float:
        """Return how long to wait after a portion, or for the database to catch up, s."""
        if self._view.ahead() >= MOST_AHEAD:
            return WAIT_S
        return pace_s(self._view.sockets()) if read else 0.0

    def recover(self, fault: Exception) -> None:
        """Begin again from what the database has; a refusal is shown to people."""
        if isinstance(fault, AccessRefused):
            self._view.signs.refused(str(fault), time.time_ns() // 1_000_000)
        super().recover(fault)

    def close(self) -> None:
        """Close the readers, and a connection that the database has dropped."""
        super().close()
        close_old_connections()

    def maintain(self) -> None:
        """Prune the overlay, and count again where something has changed."""
        begun = time.monotonic()
        self._prune()
        self._annotate()
        self._uncounted |= self._beside.look(time.monotonic())
        self._judge_agents(begun)
        for name in sorted(self._uncounted):
            if self._view.sockets():
                self._count(name)
                self._uncounted.discard(name)
            else:
                self._view.forget_counts(name)  # a page counts for itself
        took = time.monotonic() - begun
        self._next_maintenance = begun + max(HOUSEKEEPING_S, SHARE * took)

    def _annotate(self) -> None:
        """Read what people have added in whichever process, and record what its end changes."""
        for name, marks in self._changes.read().items():
            self._view.annotate(name, marks)
        ended = self._view.expire(time.time_ns() // 1_000_000)
        self._uncounted |= (self._view.annotated() | ended) & self._scenarios.keys()

    def _judge_agents(self, at: float) -> None:
        """Judge the agents at intervals. at: monotonic seconds."""
        if at >= self._next_news:
            self._next_news = at + AGENTS_S
            self._view.signs.judge_agents(agent_news(time.time_ns() // 1_000_000))

    def _count(self, name: str) -> None:
        scenario, overlay = self._scenarios[name], self._view.overlay(name)
        numbers = counted(scenario, overlay)
        self._view.set_figure(
            name, "tabs", tab_badges(scenario, SavedFilter.objects.tabs(), overlay)
        )
        self._view.set_figure(name, "counts", numbers.merged.counts)
        self._view.set_figure(name, "doubts", numbers.merged.doubts)
        self._view.set_figure(name, "acknowledged", numbers.handled.acknowledged)
        self._view.set_figure(name, "unhandled", numbers.unhandled)
        for each in dependencies().keys() & {name, *dependents(name)}:
            self._view.set_figure(each, "causes", causes(each, self._view))
        self._view.set_next_expiry(name, numbers.handled.ends)

    def _prune(self) -> None:
        offsets = sink_offsets()
        self._view.prune(offsets)
        self._view.signs.stored(offsets)

    def _open(self) -> Reader:
        specs = [TopicSpec(*spec) for spec in self._topics.specs(self._scenarios.values())]
        self._bus.ensure_topics(specs, replication=self._replication)
        states = [self._topics.states(name) for name in self._scenarios]
        sinks = [*states, self._topics.buckets, self._topics.progress]
        known, places = sink_offsets(self._bus.topic_ids(sinks)), self._bus.offsets(sinks)
        starts = {place: self._start(place, known, begin) for place, (begin, _) in places.items()}
        log.info("following the sink topics", partitions=len(starts))
        for name in self._scenarios:
            topic = self._topics.states(name)
            self._view.follow(name, {p: at for p, at in starts.items() if p[0] == topic})
        self._view.invalidate()  # sockets may have missed what the database has by now
        recall(self._view.signs)
        return self._bus.reader(starts, gather_s=GATHER_S)

    def _start(self, place: SinkPartition, known: Offsets, begin: int) -> int:
        """Return where to read on. Some heartbeats are read again: they show what is usual."""
        start = known.get(place, begin)
        return max(begin, start - BEATS_READ) if place[0] == self._topics.buckets else start

    def _pass_on(self, messages: Iterable[ConsumerRecord]) -> None:
        by_scenario: dict[str, list[LiveRecord]] = {}
        for message in messages:
            if message.topic == self._topics.buckets:
                self._view.record_heartbeat(message.timestamp)
                place = (message.topic, message.partition)
                self._view.signs.record_heartbeat(
                    message.value, place, message.offset, message.timestamp
                )
            elif message.topic == self._topics.progress:
                self._view.signs.record_progress(message.value)
            elif (name := self._topics.scenario_of(message.topic)) in self._scenarios:
                assert name is not None
                entry = entry_of(self._scenarios[name], message)
                if entry is not None:
                    by_scenario.setdefault(name, []).append(entry)
        for name, entries in by_scenario.items():
            stored = kept_of(name, {entry.asset for entry in entries})
            floor = {asset: kept.version for asset, kept in stored.items()}
            self._beside.annotate(name, entries)
            self._view.apply(name, entries, floor)
            self._uncounted.add(name)


def pace_s(sockets: int) -> float:
    """Return the pause from one portion to the next, while so many sockets are open, s."""
    return min(PACE_S + sockets * PACE_EACH_S, MOST_PACE_S)


def entry_of(scenario: Scenario, message: ConsumerRecord) -> LiveRecord | None:
    """Return a message of a states topic as an entry of the overlay.

    Returns None, and counts it, if it cannot be read.
    """
    place = (message.topic, message.partition)
    try:
        record = read_state(message.key, message.value, message.headers)
        if isinstance(record, TombstoneValue):
            version = Version.parse(record.version).sortable()
            return LiveRecord(record.asset, version, None, place, message.offset)
        row = row_of(scenario, record)
        details = named_details(scenario, record)
        value = message.value or b""
        return LiveRecord(
            record.asset, row["version"], row, place, message.offset, value, details=details
        )
    except ValueError as error:
        UNREADABLE.labels(message.topic).inc()
        log.warning("sink record cannot be read", topic=message.topic, error=repr(error))
        return None
