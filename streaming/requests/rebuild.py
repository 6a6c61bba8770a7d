"""Reset and rebuild: a query begins again in a new epoch, from where it is asked to."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import msgspec

from bus.base import Bus, Delivered, Outgoing, TopicPartition, Unavailable
from domain.fold import Bucket
from domain.records import LOG_REPLACED, Cause, Tombstone
from domain.scenario import Scenario
from domain.version import Version
from streaming.fold.assignment import AssignmentRefused
from streaming.fold.epochs import (
    EARLIEST,
    START,
    EpochStart,
    UnreadableStart,
    begin,
    heartbeats,
    highest_of,
    shown_assets,
    shown_by_log,
    start_of,
)
from streaming.fold.rules import dump_rule, rule_before
from streaming.requests.queue import RequestQueue
from streaming.state.buckets import Bounds, BucketId, Engine, in_log, known, merged
from streaming.state.buckets import forget as forget_bounds
from streaming.state.checkpoint import (
    Epoch,
    current_epoch,
    drop_old,
    next_epoch,
    positions,
    raise_floor,
    replaced_topics,
)
from streaming.state.quarantine import forget as forget_asides
from streaming.state.restore import check_place, read_snapshot, write_initial_state
from streaming.state.storage import StoragePath
from wire.job import AHEAD_MS, AskStep, Control
from wire.sink import encode_headers
from wire.snapshot import DamagedSnapshot, Emitted, FileName, open_snapshot
from wire.source import MAX_TIME
from wire.topics import Topics

log = logging.getLogger("streaming.requests.rebuild")

PREPARED = "prepared"
# How long Kafka may take for the purges of states whose log is gone.
UNSENT_S = 300.0


class StartPosition(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where a bucket is to begin. offset: of the first record that is read, or EARLIEST.

    snapshot: the file of its state there, below the snapshots' folder; digest: its SHA-256.
    """

    offset: Annotated[int, msgspec.Meta(ge=EARLIEST, le=2**63 - 1)] = EARLIEST
    snapshot: FileName = ""
    digest: str = ""


class RebuildParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is asked for: by bucket (`attack/0`); one that is not named begins at the beginning.

    bounds: by bucket, the last append time that counts in its log as it is, ms.
    """

    buckets: dict[str, StartPosition] = {}
    bounds: dict[str, Annotated[int, msgspec.Meta(ge=1, le=MAX_TIME)]] = {}


class Prepared(msgspec.Struct):
    """States that are written for the epoch of this number, all by bucket: the files, the rule in
    force there, and the last offset applied."""

    ask: str
    number: int
    files: dict[str, str] = {}
    rules: dict[str, str] = {}
    offsets: dict[str, int] = {}


# By bucket: first and next offset of its log.
Edges = dict[str, tuple[int, int]]


class StateRebuild:
    """The resets of one query: judged, carried out, followed until it has caught up."""

    def __init__(
        self,
        queue: RequestQueue,
        bus: Bus,
        topics: Topics,
        home: StoragePath,
        snapshots: Path,
        engine: Engine,
        clock: Callable[[], int],
    ) -> None:
        """home: the query's folder; snapshots: the folder of the daily ones; clock: Unix ms."""
        self._queue, self._bus, self._topics = queue, bus, topics
        self._home, self._snapshots = home, snapshots
        self._engine, self._clock = engine, clock
        self._reported = -1

    def judge(self, ask: Control, scenarios: Mapping[str, Scenario]) -> None:
        """Raise AssignmentRefused if it cannot be done, BusError or LogProblem if that is unknown.

        The epoch to come is above all that the log shows.
        """
        if (stopped := self._queue.stopped) is not None:
            raise AssignmentRefused(f"the query was stopped by {stopped.user}: start it first")
        self._check(ask, scenarios)
        raise_floor(self._home, highest_of(shown_by_log(self._bus, self._topics, scenarios.keys())))

    def prepare(self, ask: Control) -> Prepared:
        """Write the states that it begins with: the query may run meanwhile, as it takes a while.

        Raises Refused and OSError.
        """
        folder = self._home / PREPARED
        folder.delete()
        ready = Prepared(ask.id, next_epoch(self._home).number)
        parameters = _parameters_of(ask)
        for name, place in parameters.buckets.items():
            if place.snapshot:
                bucket, last = self._load(name, place, ready.number)
                if bucket.clock > parameters.bounds.get(name, bucket.clock):
                    raise AssignmentRefused(
                        f"{name}: snapshot: its clock is already past the bound"
                    )
                seed = folder / f"{place.snapshot}.seed"
                with seed.filled() as file:
                    write_initial_state(file, bucket, last, self._engine, ready.number)
                ready.files[name], ready.offsets[name] = seed.name, bucket.offset
                ready.rules[name] = dump_rule(bucket.scenario)
        (folder / START).write_whole(msgspec.json.encode(ready))
        return ready

    def _prepared(self, ask: Control) -> Prepared:
        """Return what was prepared for this request and the coming epoch, or prepare it now."""
        folder = self._home / PREPARED
        try:
            data = (folder / START).read_bytes()
            ready = msgspec.json.decode(data, type=Prepared)
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            return self.prepare(ask)
        fits = (ready.ask, ready.number) == (ask.id, next_epoch(self._home).number)
        there = all((folder / name).exists() for name in ready.files.values())
        return ready if fits and there else self.prepare(ask)

    def carry_out(self, scenarios: Mapping[str, Scenario]) -> None:
        """Begin the requested epoch, unless it has begun. Raises BusError, OSError.

        Completes what an earlier driver was killed at.
        """
        ask = self._queue.rebuild
        if ask is None or _known(current_epoch(self._home)).ask == ask.id:
            return
        try:
            edges, ready = self._check(ask, scenarios), self._prepared(ask)
            self._withdraw_lost(scenarios)
            logs, new = self._logs(scenarios), self._replaced(scenarios)
            epoch = begin(
                self._home, lambda _number, into: self._start(ask, edges, ready, into, logs, new)
            )
        except AssignmentRefused as refused:
            self._queue.answer(ask, "refused", str(refused))
            return
        with suppress(OSError):
            (self._home / PREPARED).delete()
        log.info("%s by %s: epoch %d begins", ask.action, ask.user or "somebody", epoch.number)

    def _withdraw_lost(self, scenarios: Mapping[str, Scenario]) -> None:
        """Purge the states that rest on a log which is gone, in an epoch below the coming one.

        What the new log holds comes above them; of what it does not hold nobody says anything any
        more. Raises BusError, OSError.
        """
        gone = self._replaced(scenarios)
        if not gone:
            return
        number = next_epoch(self._home).number
        cause = Cause(LOG_REPLACED, 0, 0, self._clock())
        purges = (
            Outgoing(
                self._topics.states(name),
                asset.encode(),
                None,
                encode_headers(Tombstone(asset, Version(number, 0, 0), cause)),
            )
            for name in gone
            for asset in shown_assets(self._bus, self._topics.states(name))
        )
        producer = self._bus.producer()
        try:
            results = producer.send_all(purges, UNSENT_S)
        finally:
            producer.close()
        if unsent := sum(not isinstance(result, Delivered) for result in results):
            raise Unavailable(f"{unsent} purges of lost states were not sent")
        raise_floor(self._home, number)
        forget_bounds(self._home.parent, gone)
        forget_asides(self._home.parent, gone)

    def _replaced(self, scenarios: Mapping[str, Scenario]) -> list[str]:
        """Return the scenarios whose source topic is another one than that of the epoch. Raises
        BusError."""
        known = _known(current_epoch(self._home)).logs
        other = replaced_topics(known, self._logs(scenarios))
        return [name for name in scenarios if self._topics.reports(name) in other]

    def _logs(self, scenarios: Mapping[str, Scenario]) -> dict[str, str]:
        """Return the ids of the source topics. Raises BusError."""
        return self._bus.topic_ids([self._topics.reports(name) for name in scenarios])

    def under_way(self, epoch: Epoch) -> bool:
        """Return whether the query is still reading its log again."""
        ask = self._queue.rebuild
        return ask is not None and _known(epoch).ask == ask.id

    def look(self, epoch: Epoch) -> None:
        """Report the progress; at the end, answer, and delete all but the last epoch before."""
        ask, start = self._queue.rebuild, _known(epoch)
        if ask is None or start.ask != ask.id:
            return
        done, total = _progress(start, self._reached(epoch))
        if done < total:
            if done != self._reported:
                self._queue.step(ask, AskStep(done, total, "records"))
            self._reported = done
            return
        took = (self._clock() - start.at) / 1000
        drop_old(self._home)
        self._queue.step(ask, AskStep(done, total, "records"))
        self._queue.answer(ask, "done", f"epoch {epoch.number}: {total:,} records in {took:.0f} s")

    def _reached(self, epoch: Epoch) -> dict[str, int]:
        """Return the next offset of each bucket, as far as the checkpoint has one."""
        return {self._name(place): offset for place, offset in positions(epoch.path).items()}

    def _name(self, place: TopicPartition) -> str:
        return str(BucketId(self._topics.scenario_of(place[0]) or "", place[1]))

    # ---- whether it can be done -----------------------------------------------------------------

    def _check(self, ask: Control, scenarios: Mapping[str, Scenario]) -> Edges:
        """Check an ask against the logs. Returns the edges of each bucket's log.

        Raises Refused and BusError.
        """
        parameters = _parameters_of(ask)
        topics = [self._topics.reports(name) for name in scenarios]
        new = self._replaced(scenarios)
        edges = {self._name(at): edge for at, edge in self._bus.offsets(topics).items()}
        for what in ("buckets", "bounds"):
            if strange := sorted(getattr(parameters, what).keys() - edges.keys()):
                raise AssignmentRefused(
                    f"{what}: expected those of this query, got {strange[0][:80]}"
                )
        if any(time > self._clock() + AHEAD_MS for time in parameters.bounds.values()):
            raise AssignmentRefused(
                "bounds: expected times that are past: what comes now must count"
            )
        for name, (first, end) in edges.items():
            place = parameters.buckets.get(name, StartPosition())
            if place.offset != EARLIEST and not first <= place.offset <= end:
                raise AssignmentRefused(
                    f"{name}: offset: expected {first} to {end}, as the log is, got {place.offset}"
                )
            if place.snapshot and BucketId.parse(name).scenario in new:
                raise AssignmentRefused(
                    f"{name}: snapshot: expected none, as it is of the topic that was deleted"
                )
            if place.snapshot:
                self._check_file(name, place)
            elif ask.action == "rebuild" and (
                place.offset > 0 or (first > 0 and self._had_states(name, scenarios, new))
            ):
                raise AssignmentRefused(
                    f"{name}: snapshot: expected one, as the log does not begin there"
                )
        return edges

    def _had_states(
        self, name: str, scenarios: Mapping[str, Scenario], new: Collection[str]
    ) -> bool:
        """Return whether states may rest on what a bucket's log has lost: none are on a partition
        that was added, and none of a deleted topic's are wanted."""
        bucket = BucketId.parse(name)
        return (
            bucket.partition < scenarios[bucket.scenario].partitions and bucket.scenario not in new
        )

    def _check_file(self, name: str, place: StartPosition) -> None:
        if not (self._snapshots / place.snapshot).is_file():
            raise AssignmentRefused(f"{name}: snapshot: there is no {place.snapshot} at the job's")

    # ---- how the epoch begins -------------------------------------------------------------------

    def _start(
        self,
        ask: Control,
        edges: Edges,
        ready: Prepared,
        into: StoragePath,
        logs: Mapping[str, str],
        new: Collection[str],
    ) -> EpochStart:
        """Return how the epoch begins; the states that were prepared move there.

        logs: the ids of the source topics; new: the scenarios that have another one than before.
        """
        places, start = _parameters_of(ask).buckets, EpochStart(ask.id, self._clock())
        start.logs = dict(logs)
        start.bounds = self._bounds(ask, edges)
        shown = {
            name: offset
            for name, offset in self._seen().items()
            if BucketId.parse(name).scenario not in new and offset < edges.get(name, (0, 0))[1]
        }
        for name, (first, end) in edges.items():
            place = places.get(name, StartPosition())
            start.offsets[name] = place.offset
            start.firsts[name] = first if place.offset == EARLIEST else place.offset
            start.ends[name] = end
            start.quiet[name] = shown.get(name, -1)
            if name in ready.files:
                file = ready.files[name]
                (into / file).take(self._home / PREPARED / file)
                start.seeds[name], start.rules[name] = file, ready.rules[name]
                start.quiet[name] = max(start.quiet[name], ready.offsets[name])
            elif place.offset > 0 and (rule := self._rule(name, place.offset)) is not None:
                start.rules[name] = rule
        return start

    def _bounds(self, ask: Control, edges: Edges) -> Bounds:
        """Return the bounds asked for, up to the logs' present ends, and the earlier ones."""
        more = {name: [(time, edges[name][1])] for name, time in _parameters_of(ask).bounds.items()}
        return in_log(merged(known(self._home.parent), more), edges)

    def _seen(self) -> dict[str, int]:
        """Return the last offset of each bucket whose outcome readers have seen."""
        epoch = current_epoch(self._home)
        try:
            reached = {name: offset - 1 for name, offset in self._reached(epoch).items()}
        except (OSError, ValueError, LookupError) as error:  # a checkpoint that is damaged
            log.warning("%s: what it has reached cannot be read: %s", epoch.path, error)
            reached = {}
        start = _known(epoch)
        sources = (reached, start.quiet, self._beaten(start.version_epoch(epoch)))
        names = {name for source in sources for name in source}
        return {name: max(source.get(name, -1) for source in sources) for name in names}

    def _beaten(self, epoch: int) -> dict[str, int]:
        """Return the offsets of an epoch's newest heartbeats, which are past the last batch."""
        reached: dict[str, int] = {}
        for beat in heartbeats(self._bus, self._topics):
            if (beat.query, beat.epoch) == (self._queue.query, epoch):
                reached[beat.bucket] = max(beat.offset, reached.get(beat.bucket, -1))
        return reached

    def _rule(self, name: str, offset: int) -> str | None:
        bucket = BucketId.parse(name)
        place = (self._topics.reports(bucket.scenario), bucket.partition)
        return rule_before(self._home / "rules.json", place, offset)

    def _load(
        self, name: str, place: StartPosition, number: int
    ) -> tuple[Bucket, Mapping[str, Emitted]]:
        try:
            data = read_snapshot(self._snapshots / place.snapshot, place.digest)
            bucket, last = open_snapshot(data, number)
            check_place(bucket, name, place.offset)
            return bucket, last
        except DamagedSnapshot as error:
            raise AssignmentRefused(f"{name}: {error}") from None


def _known(epoch: Epoch) -> EpochStart:
    """Return how an epoch begins, as far as that can be read."""
    try:
        return start_of(epoch)
    except UnreadableStart:
        return EpochStart()


def _parameters_of(ask: Control) -> RebuildParameters:
    """Return the parameters of a request. Raises AssignmentRefused."""
    try:
        return msgspec.convert(ask.parameters, RebuildParameters)
    except msgspec.ValidationError as error:
        raise AssignmentRefused(f"parameters: {error}") from None


def _progress(start: EpochStart, reached: Mapping[str, int]) -> tuple[int, int]:
    """Return how many records were read again, and how many there are to read.

    Of a bucket that is no longer read nothing is: its scenario was taken away meanwhile.
    """
    read = start.ends.keys() & reached.keys() if reached else start.ends.keys()
    spans = {name: (start.firsts.get(name, 0), start.ends[name]) for name in read}
    total = sum(max(0, end - first) for first, end in spans.values())
    done = sum(_within(reached.get(name, 0), *span) for name, span in spans.items())
    return done, total


def _within(reached: int, first: int, end: int) -> int:
    return max(0, min(reached, end) - first)
