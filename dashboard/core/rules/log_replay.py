"""The replay of a source partition's log through the plain fold: bounds, reading, snapshots."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import msgspec
import structlog
from django.conf import settings

from bus.base import Bus, BusError, ConsumerRecord, Reader, Unavailable
from dashboard.core.common import kafka
from dashboard.core.common.scenarios import scenarios, topics
from dashboard.core.common.times import now_ms
from dashboard.core.rules.changes import FoldedHistory
from dashboard.core.states.models import FoldSnapshot, LogBound
from domain.bounds import Bound, applied_time
from domain.fold import Bucket, UnknownFoldVersion
from domain.quarantine import QuarantinedRange, is_aside
from domain.records import (
    DeadLetter,
    Record,
    ScenarioChange,
    StateRecord,
    Tombstone,
    UnknownFold,
    Unsigned,
)
from domain.scenario import Scenario
from wire.job import QueryReport, bucket_name
from wire.snapshot import DamagedSnapshot, dump_snapshot, load_snapshot
from wire.source import decode_placed
from wire.topics import Topics

# ---- log bounds ----------------------------------------------------------------------------------
# The terms on which the job folds its logs, as reported: bounds on append times, records set aside.
#
# Every fold of a log here uses the same terms: otherwise its states would differ from the job's.

Bounds = tuple[Bound, ...]
Asides = tuple[QuarantinedRange, ...]


class Terms(NamedTuple):
    """The terms on which a bucket's log is folded."""

    bounds: Bounds = ()
    asides: Asides = ()


NONE = Terms()


def ingest_bounds(records: Sequence[QueryReport]) -> None:
    """Store the latest report on each bucket."""
    newest: dict[str, LogBound] = {}
    for record in records:
        for bucket in sorted({*record.bounds, *record.asides}):
            known = newest.get(bucket)
            if known is None or record.epoch >= known.epoch:
                pairs, asides = record.bounds.get(bucket, ()), record.asides.get(bucket, ())
                newest[bucket] = LogBound(
                    bucket=bucket, epoch=record.epoch, pairs=dump(pairs), asides=dump(asides)
                )
    kept = {row.bucket: row for row in LogBound.objects.filter(bucket__in=newest)}
    for bucket, row in sorted(newest.items()):
        before = kept.get(bucket)
        if before is None or (row.epoch >= before.epoch and _terms(row) != _terms(before)):
            row.save()


def _terms(row: LogBound) -> Terms:
    return Terms(load(row.pairs), load(row.asides))


def terms_of(scenario: str, partition: int) -> Terms:
    """Return the terms of a bucket; empty if the job has reported none."""
    row = LogBound.objects.filter(pk=bucket_name(scenario, partition)).first()
    return _terms(row) if row is not None else Terms()


def fits(row: FoldSnapshot, terms: Terms) -> bool:
    """Return whether a fold on these terms arrives at the state in a snapshot.

    It does if the snapshot was folded with each bound, or its clock has not passed the bound; and
    if it left out each range set aside, or ends before that range.
    """
    had, left_out = load(row.bounds), load(row.asides)
    return all(bound in had or row.clock <= bound[0] for bound in terms.bounds) and all(
        aside in left_out or row.next_offset <= aside[0] for aside in terms.asides
    )


def dump(pairs: Iterable[tuple[int, int]]) -> str:
    """Return pairs of numbers as JSON, for the database."""
    return msgspec.json.encode(list(pairs)).decode()


def load(text: str) -> tuple[tuple[int, int], ...]:
    """Return the pairs of numbers from the text that `dump` returned."""
    return msgspec.json.decode(text, type=tuple[tuple[int, int], ...])


# ---- partition replay ----------------------------------------------------------------------------
# The replay of a source partition's log through the plain-Python fold, with its last emissions.

Emitted = StateRecord | Tombstone


@dataclass
class PartitionReplay:
    """The fold of one bucket, with what it emitted.

    last: the last emission per asset; recent: all emissions since `watch` was called; restored:
    assets whose `last` comes from a snapshot; terms: the terms of the fold; history: the changes it
    makes, if they are to be compared. A partition's first scenario record also covers what precedes
    it, so records are held back until that one has been read.
    """

    scenario: str
    partition: int
    partitions: int
    terms: Terms = NONE
    bucket: Bucket | None = None
    next_offset: int = 0
    last: dict[str, Emitted] = field(default_factory=dict)
    recent: dict[str, list[Emitted]] | None = None
    restored: set[str] = field(default_factory=set)
    history: FoldedHistory | None = None
    _held: list[ConsumerRecord] = field(default_factory=list)

    def watch(self) -> None:
        """Keep every emission from now on."""
        self.recent = {}
        if self.history is not None:
            self.history.watch()

    def feed(self, message: ConsumerRecord) -> None:
        """Apply the next record of the partition. Raises UnknownFoldVersion and KeysProblem."""
        self.next_offset = message.offset + 1
        if is_aside(self.terms.asides, message.offset):
            return
        if self.bucket is None:
            self._hold(message)
        else:
            self._apply(self.bucket, message)

    def emissions_of(self, asset: str) -> list[Emitted]:
        """Return an asset's last emission before `watch` was called, and all emissions since."""
        emissions = [self.last[asset]] if asset in self.last else []
        return [*emissions, *(self.recent or {}).get(asset, [])]

    def _hold(self, message: ConsumerRecord) -> None:
        self._held.append(message)
        record = self._read(message)
        if isinstance(record, Unsigned):  # no rule is in force yet that could require a signature
            record = record.record
        if isinstance(record, UnknownFold) and record.scenario == self.scenario:
            raise UnknownFoldVersion(record.scenario, record.fold)
        if isinstance(record, ScenarioChange):
            self.bucket = Bucket(record.scenario, self.partition, epoch=1)
            for held in self._held:
                self._apply(self.bucket, held)
            self._held = []

    def _read(self, message: ConsumerRecord) -> Record:
        trust = kafka.trust(message.topic)
        return decode_placed(
            message.key, message.value, message.timestamp, self.partition, self.partitions, trust
        )

    def _apply(self, bucket: Bucket, message: ConsumerRecord) -> None:
        time = applied_time(self.terms.bounds, message.offset, message.timestamp, bucket.clock)
        for emission in bucket.apply(self._read(message), message.offset, time):
            if isinstance(emission, DeadLetter):
                continue
            if self.history is not None:
                before = self.emissions_of(emission.asset)[-1:]
                self.history.take(self.scenario, before[0] if before else None, emission)
            if self.recent is None:
                self.restored.discard(emission.asset)
                self.last[emission.asset] = emission
            else:
                self.recent.setdefault(emission.asset, []).append(emission)


# ---- log reader ----------------------------------------------------------------------------------
# Reading source partitions up to given offsets into their replays.

# Called with the number of records read, and the total.
OnProgress = Callable[[int, int], None]

BATCH = 10_000
# How long the reader waits for more records when nothing arrives, s.
STALLED_S = 30.0


def read_on(
    bus: Bus,
    replays: Mapping[tuple[str, int], PartitionReplay],
    ends: Mapping[tuple[str, int], int],
    progress: OnProgress,
    *,
    stalled_s: float = STALLED_S,
) -> int:
    """Feed each replay its partition's records up to the end, and return how many there were.

    Raises Unavailable if nothing arrives for `stalled_s`, and BusError if the next records have
    been deleted meanwhile.
    """
    starts = {place: replays[place].next_offset for place in ends}
    starts = {place: start for place, start in starts.items() if start < ends[place]}
    total = sum(ends[place] - start for place, start in starts.items())
    progress(0, total)
    if not starts:
        return 0
    reader = bus.reader(starts)
    try:
        return _feed(reader, replays, {place: ends[place] for place in starts}, progress, stalled_s)
    finally:
        reader.close()


def _feed(
    reader: Reader,
    replays: Mapping[tuple[str, int], PartitionReplay],
    ends: Mapping[tuple[str, int], int],
    progress: OnProgress,
    stalled_s: float,
) -> int:
    done, total = 0, sum(end - replays[place].next_offset for place, end in ends.items())
    heard = time.monotonic()
    while any(reader.positions()[place] < end for place, end in ends.items()):
        messages = reader.poll(1, BATCH)
        for gap in reader.gaps:
            raise BusError(f"{gap.topic}/{gap.partition}: deleted while it was read, start again")
        for message in messages:
            place = (message.topic, message.partition)
            if message.offset < ends[place]:
                replays[place].feed(message)
                done += 1
        progress(min(done, total), total)
        if messages:
            heard = time.monotonic()
        elif time.monotonic() - heard > stalled_s:
            raise Unavailable(f"nothing arrives for {stalled_s:g} s, {done:,} of {total:,} read")
    return done


# ---- snapshots -----------------------------------------------------------------------------------
# Snapshots of the fold: where reconcile starts if the beginning of the log has been deleted.

log = structlog.get_logger(__name__)

# Snapshots kept per bucket: one a day, for longer than the log is kept.
KEPT = 9


class Snapshots:
    """The snapshots in `folder`, with their rows in the database."""

    def __init__(self, folder: Path, clock: Callable[[], int]) -> None:
        self._folder, self._clock = folder, clock

    def save(self, replay: PartitionReplay) -> FoldSnapshot | None:
        """Store the fold as it stands and return its row; None if its rule is not known yet."""
        if replay.bucket is None:
            return None
        data = dump_snapshot(replay.bucket, replay.last)
        name = f"{replay.scenario}-{replay.partition}-{replay.next_offset}.fold"
        _write(self._folder / name, data)
        row, _ = FoldSnapshot.objects.update_or_create(
            scenario=replay.scenario,
            partition=replay.partition,
            next_offset=replay.next_offset,
            defaults={
                "clock": replay.bucket.clock,
                "taken_at": self._clock(),
                "file": name,
                "assets": replay.bucket.live,
                "digest": hashlib.sha256(data).hexdigest(),
                "bounds": dump(replay.terms.bounds),
                "asides": dump(replay.terms.asides),
            },
        )
        self._prune(replay)
        return row

    def oldest(self, scenario: Scenario, partition: int, begin: int) -> PartitionReplay | None:
        """Return the oldest usable snapshot that is not before offset `begin`, the log's start."""
        return self._first(scenario, partition, begin, "next_offset")

    def newest(self, scenario: Scenario, partition: int, begin: int) -> PartitionReplay | None:
        """Return the newest usable snapshot that is not before offset `begin`, the log's start."""
        return self._first(scenario, partition, begin, "-next_offset")

    def _first(
        self, scenario: Scenario, partition: int, begin: int, order: str
    ) -> PartitionReplay | None:
        rows = FoldSnapshot.objects.filter(
            scenario=scenario.name, partition=partition, next_offset__gte=begin
        )
        terms = terms_of(scenario.name, partition)
        for row in rows.order_by(order):
            if not fits(row, terms):
                continue  # it was folded on terms that no longer apply
            try:
                return self._load(row, scenario, terms)
            except DamagedSnapshot as error:
                log.warning("snapshot cannot be used", file=row.file, error=str(error))
        return None

    def _load(self, row: FoldSnapshot, scenario: Scenario, terms: Terms) -> PartitionReplay:
        try:
            data = (self._folder / row.file).read_bytes()
        except OSError as error:
            raise DamagedSnapshot(error.strerror) from None
        if hashlib.sha256(data).hexdigest() != row.digest:
            raise DamagedSnapshot("its digest is not the recorded one")
        replay = PartitionReplay(row.scenario, row.partition, scenario.partitions, terms)
        replay.next_offset = row.next_offset
        _restore(replay, data)
        return replay

    def _prune(self, replay: PartitionReplay) -> None:
        rows = FoldSnapshot.objects.filter(scenario=replay.scenario, partition=replay.partition)
        for row in rows.order_by("-next_offset")[KEPT:]:
            (self._folder / row.file).unlink(missing_ok=True)
            row.delete()


def begun(scenario: Scenario, partition: int) -> PartitionReplay:
    """Return a fold at the beginning of a bucket's log."""
    terms = terms_of(scenario.name, partition)
    return PartitionReplay(scenario.name, partition, scenario.partitions, terms)


def take(
    bus: Bus,
    topics: Topics,
    scenarios: dict[str, Scenario],
    snapshots: Snapshots,
    progress: OnProgress,
) -> list[FoldSnapshot]:
    """Fold every bucket from its newest snapshot to the end of the log, and store the result.

    Return the rows of the snapshots.
    """
    places = bus.offsets([topics.reports(name) for name in scenarios])
    replays = {}
    for (topic, partition), (begin, _) in places.items():
        scenario = scenarios[topics.scenario_of(topic) or ""]
        base = snapshots.newest(scenario, partition, begin)
        if base is None and begin == 0:
            base = begun(scenario, partition)
        if base is None:
            log.error("no snapshot meets the log any more", topic=topic, partition=partition)
        else:
            replays[topic, partition] = base
    ends = {place: end for place, (_, end) in places.items() if place in replays}
    try:
        read_on(bus, replays, ends, progress)
    except UnknownFoldVersion as error:
        log.warning("no snapshot is taken", error=str(error))
        return []
    saved = [snapshots.save(replay) for replay in replays.values()]
    return [row for row in saved if row is not None]


def _restore(replay: PartitionReplay, data: bytes) -> None:
    replay.bucket, replay.last = load_snapshot(data, epoch=1)
    replay.restored = set(replay.last)


def _write(path: Path, data: bytes) -> None:
    """Write the file atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(f".{os.getpid()}.draft")
    with draft.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def snapshot_now() -> int:
    """Take a snapshot of every bucket's fold, and return how many were taken."""
    from bus.kafka import KafkaBus  # so that only processes that read load Kafka's library

    tallyboard = settings.TALLYBOARD
    kept = Snapshots(tallyboard.data_dir / "snapshots", now_ms)
    bus = KafkaBus(tallyboard.kafka_options())
    return len(take(bus, topics(), scenarios(), kept, lambda _done, _total: None))
