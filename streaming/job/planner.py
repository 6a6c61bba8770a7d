"""Before each start of the query: topics, rules and ticks, and where the query begins."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from bus.base import Bus, TopicPartition
from streaming.fold.epochs import EpochStart, bound, name_logs, rise, start_of
from streaming.fold.plan import Plan
from streaming.fold.progress import ProgressReporter
from streaming.fold.rules import dump_rule
from streaming.fold.workload import Workload, now_ms
from streaming.job.claims import Claims
from streaming.job.sources import SourceWatch, check
from streaming.job.sources import bound as bound_topics
from streaming.job.state_partitions import StatePartitions
from streaming.job.ticks import BrokerClocks, Ticker, TimerWatch
from streaming.requests.rebuild import StateRebuild
from streaming.state import quarantine
from streaming.state.buckets import BucketId, in_log, known, merged, remember
from streaming.state.checkpoint import (
    Epoch,
    LogReplaced,
    check_logs,
    folders_beside,
    gaps,
    positions,
)
from streaming.state.identity import claim

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")


class Planned(NamedTuple):
    """A start of the query. lost: what it will pass over in the log, in words."""

    plan: Plan
    epoch: Epoch
    lost: list[str]


class Planner:
    """Prepares what the query of a workload needs, and plans its start."""

    def __init__(
        self,
        workload: Workload,
        bus: Bus,
        report: ProgressReporter,
        rebuilds: StateRebuild,
        spark: SparkSession,
    ) -> None:
        self._workload, self._bus = workload, bus
        self._divided = StatePartitions(workload, report, spark)
        self._report, self._rebuilds = report, rebuilds
        self.starts = quarantine.Starts(workload.home)
        self.unbounded: list[str] = []
        self.surplus: list[str] = []
        self.surplus_partitions = 0
        self.beginning = ""
        self.shortened: list[str] = []
        self._ticker: Ticker | None = None
        self._sources: SourceWatch | None = None
        self._compared = False
        job = workload.settings.job
        self._claims = Claims(bus, workload.topics, job, now_ms)

    def plan(self) -> Planned:
        """Prepare topics, rules and ticks, and return what the query is to know.

        Raises BusError, also where a source topic's settings are wrong, LogProblem, and
        ScenarioClaimed where another job carries one of the scenarios.
        """
        self.ensure_topics()
        sources = self._watch_sources()
        self._claim()
        moved = self._take_over()
        rules = self._workload.append_rules(self._report)
        places = {self._workload.source(bucket) for bucket in rules}
        self._start_ticks(places)
        surplus = self._surplus()
        self._rise(moved=moved)
        self._rebuilds.carry_out(self._workload.scenarios)
        epoch = self._divided.settle()
        start = self._of_present_logs(epoch, self._start(epoch))
        self._report.epoch = start.version_epoch(epoch)
        plan = self._plan(epoch, start, rules | surplus)
        self._set_aside(epoch, start)
        reached = self._reached(epoch, start)
        edges = self._bus.offsets({topic for topic, _ in reached})
        places |= {self._workload.source(bucket) for bucket in surplus}
        sources.start()
        return Planned(plan, epoch, gaps(reached, edges, places))

    def _surplus(self) -> dict[BucketId, str]:
        """Return the partitions of source topics beyond those of their scenarios, each with a rule.

        Nothing belongs there: reports are forwarded, and commands refused. Raises BusError.
        """
        workload = self._workload
        counts = {n: self._bus.partitions(workload.topics.reports(n)) for n in workload.scenarios}
        self.surplus_partitions = sum(
            max(0, counts[name] - scenario.partitions)
            for name, scenario in workload.scenarios.items()
        )
        self.surplus = [
            f"{workload.topics.reports(name)} has {counts[name]} partitions, and {name} has "
            f"{scenario.partitions}: what lies on the others is forwarded"
            for name, scenario in sorted(workload.scenarios.items())
            if counts[name] > scenario.partitions
        ]
        return {
            BucketId(name, at): dump_rule(scenario)
            for name, scenario in workload.scenarios.items()
            for at in range(scenario.partitions, counts[name])
        }

    @property
    def notes(self) -> list[str]:
        """What an admin is to know of the topics and the checkpoint, in words."""
        return [*self.unbounded, *self.surplus, *filter(None, [self._divided.refusal])]

    def ensure_topics(self) -> None:
        """Make the missing topics. Raises BusError, also where a source topic's settings are
        wrong."""
        settings, specs = self._workload.settings, self._workload.topic_specs()
        self._bus.wait(10)
        self._bus.ensure_topics(specs, replication=settings.replication)
        check(self._bus, self._workload.source_topics(), settings.bootstrap)
        names = [spec.name for spec in specs]
        self.unbounded = bound_topics(self._bus, names, settings.bootstrap)

    def _claim(self) -> None:
        """Compare the checkpoints with the log, once for each process.

        Raises BusError, OSError and ForeignCheckpoint.
        """
        if not self._compared:
            workload = self._workload
            folder, prefix = workload.home.parent, workload.settings.topic_prefix
            claim(folder, self._bus.cluster_id(), prefix, now_ms())

    def _take_over(self) -> bool:
        """Return whether a scenario was another job's until now; know then what that job knew.

        Raises BusError, OSError and ScenarioClaimed.
        """
        moved = self._claims.former(self._workload.scenarios.keys())
        if moved:
            own = self._workload.home.parent
            for folder in folders_beside(own, named=bool(self._workload.settings.job)):
                remember(own, _of(known(folder), moved))
                quarantine.remember(own, _of(quarantine.known(folder), moved))
            self.shortened = self._shortened()
        return bool(moved)

    def _shortened(self) -> list[str]:
        """Return, in words, which logs no longer hold all that their states rest on. Raises
        BusError."""
        edges = self._bus.offsets(self._workload.source_topics())
        names = sorted(self._workload.bucket(at) for at, (begin, _) in edges.items() if begin)
        if not names:
            return []
        words = (
            f"scenarios have moved to this job, and the log of {', '.join(names)} no longer begins "
            "at its start: have it read again from a snapshot (Replay)"
        )
        return [words]

    def _watch_sources(self) -> SourceWatch:
        """Return the watch of the source topics as they are now. Raises BusError.

        What changes while a query is planned is a change too, once the watch is started.
        """
        self.stop_watch()
        self._sources = SourceWatch(self._bus, self._workload.source_topics())
        return self._sources

    def stop_watch(self) -> None:
        """Look at the source topics no more."""
        if self._sources is not None:
            self._sources.stop()
            self._sources = None

    @property
    def sources_changed(self) -> bool:
        """Whether the query is to be planned anew, as a source topic is another than it was."""
        return self._sources is not None and self._sources.changed

    @property
    def gives_way(self) -> bool:
        """Whether the query is to end, as another job carries one of its scenarios."""
        return self._claims.gives_way(self._report.epoch)

    def _rise(self, *, moved: bool) -> None:
        """Begin a higher epoch, once for each process, where readers would drop this one's states,
        and where a scenario has moved to this job.

        Raises BusError, OSError and LogProblem.
        """
        if moved or not self._compared:
            workload = self._workload
            names = workload.scenarios.keys()
            self.beginning = rise(
                self._bus, workload.topics, workload.home, names, now_ms, moved=moved
            )
            self._compared = True

    def _plan(self, epoch: Epoch, start: EpochStart, rules: Mapping[BucketId, str]) -> Plan:
        workload = self._workload
        partitions = {name: s.partitions for name, s in workload.scenarios.items()}
        first = {bucket: start.rules.get(str(bucket), rule) for bucket, rule in rules.items()}
        prefix, keys = workload.settings.topic_prefix, str(workload.keys.path)
        job, number = workload.settings.job, start.version_epoch(epoch)
        return Plan(prefix, number, partitions, first, start, keys, job)

    # ---- ticks ----------------------------------------------------------------------------------

    def _start_ticks(self, places: set[TopicPartition]) -> None:
        if self._ticker is None:
            buckets = {str(self._workload.bucket(place)): place for place in places}
            topic = self._workload.topics.buckets
            watch = TimerWatch(self._bus, topic, buckets, self._claims.record)
            clocks = BrokerClocks(buckets, self._report.judged_clocks)
            every_ms = self._workload.settings.tick_ms
            self._ticker = Ticker(self._bus, places, every_ms, watch, clocks)
            self._ticker.start()

    def stop_ticks(self) -> None:
        """Let no more time pass in the log."""
        if self._ticker is not None:
            self._ticker.stop()
            self._ticker = None
            self._report.clocks_behind = {}  # told with the next report: nothing judges them now

    # ---- where the query begins -----------------------------------------------------------------

    def begins(self, epoch: Epoch, start: EpochStart) -> dict[TopicPartition, int]:
        """Return the next offset of each partition that is read. Raises Unavailable."""
        edges = self._bus.offsets(self._workload.source_topics())
        reached = self._reached(epoch, start)
        return {place: reached.get(place, begin) for place, (begin, _) in edges.items()}

    def backlog(self, plan: Plan, epoch: Epoch) -> int:
        """Return how many records lie between the checkpoint and the log's end."""
        reached = self._reached(epoch, plan.start)
        edges = self._bus.offsets(self._workload.source_topics())
        return sum(end - max(begin, reached.get(at, 0)) for at, (begin, end) in edges.items())

    def _reached(self, epoch: Epoch, start: EpochStart) -> dict[TopicPartition, int]:
        """Return the next offsets that the query reads; none where the log's beginning is meant."""
        begun = {BucketId.parse(name): at for name, at in start.offsets.items() if at >= 0}
        places = {self._workload.source(bucket): at for bucket, at in begun.items()}
        return positions(epoch.path) or places

    def _start(self, epoch: Epoch) -> EpochStart:
        """Return how an epoch begins: while nothing rests on it, with all bounds that are known."""
        start, folder = start_of(epoch), self._workload.home.parent
        if not positions(epoch.path):
            edges = self._bus.offsets(self._workload.source_topics())
            mine = {self._workload.bucket(place): edge for place, edge in edges.items()}
            bounds = in_log(merged(known(folder), start.bounds), mine)
            start = start if bounds == start.bounds else bound(epoch, bounds)
        remember(folder, start.bounds)
        self._report.bounds = start.bounds
        return start

    def _of_present_logs(self, epoch: Epoch, start: EpochStart) -> EpochStart:
        """Return how an epoch begins, with the ids of the logs that its offsets are of.

        Raises BusError, OSError and, where a log is another one now, LogReplaced.
        """
        present = self._bus.topic_ids(self._workload.source_topics())
        self._report.replaced = ()
        try:
            check_logs(start.logs, present)
        except LogReplaced as problem:
            of_topic = self._workload.topics.scenario_of
            self._report.replaced = tuple(of_topic(topic) or "" for topic in problem.topics)
            raise
        return name_logs(epoch, {**start.logs, **present})

    def _set_aside(self, epoch: Epoch, start: EpochStart) -> None:
        """Set aside what ended the last starts, if they got nowhere. Raises BusError, OSError."""
        folder, begun = self._workload.home.parent, self.begins(epoch, start)
        count = self.starts.record(f"{epoch.number}: {sorted(begun.items())}")
        if count >= quarantine.MOST_STARTS:
            letters = self._workload.topics.dead_letters
            quarantine.set_aside(self._bus, letters, folder, begun, self._workload.bucket)
        mine = {self._workload.bucket(place) for place in begun}
        held = quarantine.known(folder)
        self._report.asides = {name: held[name] for name in held.keys() & mine}


def _of(entries: Mapping[str, T], names: Collection[str]) -> dict[str, T]:
    return {name: entry for name, entry in entries.items() if name in names}
