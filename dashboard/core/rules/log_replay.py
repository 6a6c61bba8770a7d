"""The replay of source partitions' logs through the folds: reading, snapshots, kernel."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec
import structlog
from django.conf import settings

from bus.base import Bus, BusError, ConsumerRecord, Reader, TopicPartition, Unavailable
from dashboard.core.common import kafka
from dashboard.core.common.scenarios import scenarios, topics
from dashboard.core.common.times import now_ms
from dashboard.core.job.models import BucketStatus
from dashboard.core.states.models import NO_TERMS, FoldSnapshot, LogBound, Terms, dump_pairs
from domain.bounds import applied_time
from domain.fold import Bucket, UnknownFoldVersion
from domain.quarantine import is_aside
from domain.records import (
    DeadLetter,
    Record,
    ScenarioChange,
    StateRecord,
    Tombstone,
    UnknownFold,
    Unsigned,
)
from domain.scenario import PythonRule, Scenario
from wire.bucket_fold import (
    ON,
    SAVE,
    FoldAnswer,
    Folded,
    FoldedRecord,
    FoldFailed,
    FoldOrder,
    FoldProgress,
    FoldStart,
    Saved,
    SavedSnapshot,
    record_of,
    write_emissions,
)
from wire.job import bucket_name
from wire.snapshot import DamagedSnapshot, dump_snapshot, load_snapshot
from wire.source import decode_placed
from wire.topics import Topics

# ---- partition replay ----------------------------------------------------------------------------
# The replay of a source partition's log through the plain-Python fold, with its last emissions.

Emitted = StateRecord | Tombstone


# Called with an asset's record before, None for its first one, and the next one.
OnEmission = Callable[[Emitted | None, Emitted], None]


@dataclass
class PartitionReplay:
    """The fold of one bucket, with the last emission of each asset.

    terms: the terms of the fold; on_emission: is called with each emission. A partition's first
    scenario record also covers what precedes it, so records are held back until that one has been
    read.
    """

    scenario: str
    partition: int
    partitions: int
    terms: Terms = NO_TERMS
    bucket: Bucket | None = None
    next_offset: int = 0
    last: dict[str, Emitted] = field(default_factory=dict)
    on_emission: OnEmission | None = None
    _held: list[ConsumerRecord] = field(default_factory=list)

    def feed(self, message: ConsumerRecord) -> None:
        """Apply the next record of the partition. Raises UnknownFoldVersion and KeysProblem."""
        self.next_offset = message.offset + 1
        if is_aside(self.terms.asides, message.offset):
            return
        if self.bucket is None:
            self._hold(message)
        else:
            self._apply(self.bucket, message)

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
        place = self.partition, self.partitions
        return decode_placed(
            message.key, message.value, message.timestamp, *place, trust, message.headers
        )

    def _apply(self, bucket: Bucket, message: ConsumerRecord) -> None:
        time = applied_time(self.terms.bounds, message.offset, message.timestamp, bucket.clock)
        for emission in bucket.apply(self._read(message), message.offset, time):
            if isinstance(emission, DeadLetter):
                continue
            if self.on_emission is not None:
                self.on_emission(self.last.get(emission.asset), emission)
            self.last[emission.asset] = emission


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
    received_at = time.monotonic()
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
            received_at = time.monotonic()
        elif time.monotonic() - received_at > stalled_s:
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
        self.folder, self._clock = folder, clock

    def save(self, replay: PartitionReplay) -> FoldSnapshot | None:
        """Store the fold as it stands and return its row; None if its rule is not known yet."""
        if replay.bucket is None:
            return None
        data = dump_snapshot(replay.bucket, replay.last)
        name = bucket_name(replay.scenario, replay.partition)
        file = f"{replay.scenario}-{replay.partition}-{replay.next_offset}.fold"
        _write(self.folder / file, data)
        own = replay.next_offset, replay.bucket.clock, replay.bucket.live
        saved = SavedSnapshot(name, file, hashlib.sha256(data).hexdigest(), *own)
        return self.record(saved, replay.terms)

    def record(self, saved: SavedSnapshot, terms: Terms) -> FoldSnapshot:
        """Store the row of a snapshot whose file is there, and return it.

        terms: of its fold. The bucket's oldest snapshot goes, where there are too many.
        """
        scenario, _, partition = saved.bucket.rpartition("/")
        row, _ = FoldSnapshot.objects.update_or_create(
            scenario=scenario,
            partition=int(partition),
            next_offset=saved.next_offset,
            defaults={
                "clock": saved.clock,
                "taken_at": self._clock(),
                "file": saved.file,
                "assets": saved.assets,
                "digest": saved.digest,
                "bounds": dump_pairs(terms.bounds),
                "asides": dump_pairs(terms.asides),
            },
        )
        self._prune(row)
        return row

    def oldest(self, scenario: Scenario, partition: int, begin: int) -> FoldSnapshot | None:
        """Return the oldest usable snapshot that is not before offset `begin`, the log's start."""
        return self._first(scenario, partition, begin, "next_offset")

    def newest(self, scenario: Scenario, partition: int, begin: int) -> FoldSnapshot | None:
        """Return the newest usable snapshot that is not before offset `begin`, the log's start."""
        return self._first(scenario, partition, begin, "-next_offset")

    def _first(
        self, scenario: Scenario, partition: int, begin: int, order: str
    ) -> FoldSnapshot | None:
        rows = FoldSnapshot.objects.filter(
            scenario=scenario.name, partition=partition, next_offset__gte=begin
        )
        terms = LogBound.terms_of(scenario.name, partition)
        for row in rows.order_by(order):
            if not row.fits(terms):
                continue  # it was folded on terms that no longer apply
            try:
                self._check(row)
            except DamagedSnapshot as error:
                log.warning("snapshot cannot be used", file=row.file, error=str(error))
            else:
                return row
        return None

    def _check(self, row: FoldSnapshot) -> None:
        """Raise DamagedSnapshot unless its file holds what was written."""
        try:
            with (self.folder / row.file).open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise DamagedSnapshot(error.strerror) from None
        if digest != row.digest:
            raise DamagedSnapshot("its digest is not the recorded one")

    def load(self, row: FoldSnapshot, scenario: Scenario) -> PartitionReplay:
        """Return the fold of a usable snapshot. Raises DamagedSnapshot."""
        replay = begun(scenario, row.partition)
        replay.next_offset = row.next_offset
        data = (self.folder / row.file).read_bytes()
        replay.bucket, replay.last = load_snapshot(data, epoch=1)
        return replay

    def _prune(self, newest: FoldSnapshot) -> None:
        rows = FoldSnapshot.objects.filter(scenario=newest.scenario, partition=newest.partition)
        for row in rows.order_by("-next_offset")[KEPT:]:
            (self.folder / row.file).unlink(missing_ok=True)
            row.delete()


def begun(scenario: Scenario, partition: int) -> PartitionReplay:
    """Return a fold at the beginning of a bucket's log."""
    terms = LogBound.terms_of(scenario.name, partition)
    return PartitionReplay(scenario.name, partition, scenario.partitions, terms)


def take(
    bus: Bus,
    topics: Topics,
    scenarios: Mapping[str, Scenario],
    snapshots: Snapshots,
    progress: OnProgress,
) -> list[FoldSnapshot]:
    """Fold each bucket from its newest snapshot to the end of the log, and store the result.

    One bucket after the other is in memory. Return the rows of the snapshots.
    """
    saved = []
    for place, row in newest_starts(bus, topics, scenarios, snapshots).items():
        scenario = scenarios[topics.scenario_of(place[0]) or ""]
        end = bus.offsets([place[0]])[place][1]
        replay = begun(scenario, place[1]) if row is None else snapshots.load(row, scenario)
        try:
            read_on(bus, {place: replay}, {place: end}, progress)
        except UnknownFoldVersion as error:
            log.warning("no snapshot is taken", error=str(error))
        else:
            saved.append(snapshots.save(replay))
    return [row for row in saved if row is not None]


def newest_starts(
    bus: Bus, topics: Topics, scenarios: Mapping[str, Scenario], snapshots: Snapshots
) -> dict[TopicPartition, FoldSnapshot | None]:
    """Return where the fold of each bucket begins whose log is whole, or meets a snapshot."""
    starts = {}
    places = bus.offsets([topics.reports(name) for name in scenarios])
    for (topic, partition), (begin, _) in sorted(places.items()):
        scenario = scenarios[topics.scenario_of(topic) or ""]
        row = snapshots.newest(scenario, partition, begin)
        if row is None and begin > 0:
            log.error("no snapshot meets the log any more", topic=topic, partition=partition)
        else:
            starts[topic, partition] = row
    return starts


def _write(path: Path, data: bytes) -> None:
    """Write the file atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(f".{os.getpid()}.draft")
    with draft.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


# ---- folds ---------------------------------------------------------------------------------------
# The log folded for reconcile, into files of emissions in order: see wire/bucket_fold.py.
#
# Two ways give the same files. The kernel folds in a Spark process of its own, all buckets at a
# time, with their state on the disk. The plain fold goes bucket by bucket, so that one bucket's
# assets are in memory.

Starts = Mapping[TopicPartition, FoldSnapshot | None]
"""By source partition, the snapshot at which its fold begins; None: at the log's beginning."""


LONG_LOG = 300_000
"""Records above which the kernel folds: the plain fold takes as long as Spark's start for these."""


class FoldProblem(Exception):
    """The log cannot be folded; the message says why, and what to do."""


class FoldRound(NamedTuple):
    """What came of one turn of a fold.

    ends: the next offset of each source partition; records: how many were read; files: of what was
    emitted since the last time.
    """

    ends: dict[TopicPartition, int]
    records: int
    files: list[str]


class LogFold(Protocol):
    """The fold of some source partitions, which goes on from call to call."""

    def fold_on(self, progress: OnProgress) -> FoldRound:
        """Fold to the log's present end. Raises FoldProblem and BusError."""

    def close(self) -> None:
        """Let go of what it holds."""


class PlainFold:
    """The fold in Python, bucket by bucket."""

    def __init__(
        self,
        bus: Bus,
        topics: Topics,
        scenarios: Mapping[str, Scenario],
        snapshots: Snapshots,
        starts: Starts,
        epoch: int,
        folder: Path,
    ) -> None:
        """epoch: of the versions in the files; folder: where they go."""
        self._bus, self._topics, self._scenarios = bus, topics, scenarios
        self._snapshots, self._starts, self._epoch = snapshots, starts, epoch
        self._folder, self._rounds = folder, 0
        self._idle: dict[TopicPartition, PartitionReplay] = {}
        self._next: dict[TopicPartition, int] = {
            place: row.next_offset if row else 0 for place, row in starts.items()
        }
        folder.mkdir(parents=True, exist_ok=True)

    def fold_on(self, progress: OnProgress) -> FoldRound:
        """Fold each bucket to its log's present end. Raises FoldProblem and BusError."""
        places = self._bus.offsets({topic for topic, _ in self._starts})
        ends = {place: places[place][1] for place in sorted(self._starts)}
        total, read, files = sum(ends[place] - self._next[place] for place in ends), 0, []
        for place, end in ends.items():

            def report(done: int, _of: int, before: int = read) -> None:
                progress(before + done, total)

            read += end - self._next[place]
            files.append(str(self._fold(place, end, report)))
            self._next[place] = end
        self._rounds += 1
        return FoldRound(ends, read, files)

    def close(self) -> None:
        """Do nothing: its files go with their folder."""

    def _fold(self, place: TopicPartition, end: int, progress: OnProgress) -> Path:
        replay = self._opened(place)
        emissions = BucketEmissions(replay, self._epoch, whole=self._rounds > 0)
        replay.on_emission = emissions.take
        try:
            read_on(self._bus, {place: replay}, {place: end}, progress)
        except UnknownFoldVersion as error:
            raise FoldProblem(str(error)) from None
        file = self._file(place, f"{self._rounds}.json.gz")
        write_emissions(file, emissions.in_order())
        self._put_away(place, replay)
        return file

    def _file(self, place: TopicPartition, suffix: str) -> Path:
        return self._folder / f"{place[0]}-{place[1]}-{suffix}"

    def _opened(self, place: TopicPartition) -> PartitionReplay:
        """Return a bucket's fold, as it was left or as it begins. Raises FoldProblem."""
        if place in self._idle:
            return self._idle.pop(place)
        row = self._starts[place]
        scenario = self._scenarios[self._topics.scenario_of(place[0]) or ""]
        try:
            if self._rounds:
                replay = begun(scenario, place[1])
                data = self._file(place, "state").read_bytes()
                replay.bucket, replay.last = load_snapshot(data, epoch=1)
            else:
                replay = (
                    begun(scenario, place[1])
                    if row is None
                    else self._snapshots.load(row, scenario)
                )
        except DamagedSnapshot as error:
            raise FoldProblem(f"{scenario.name}/{place[1]}: snapshot: {error}") from None
        replay.next_offset = self._next[place]
        return replay

    def _put_away(self, place: TopicPartition, replay: PartitionReplay) -> None:
        """Keep a bucket's fold on the disk, or one without a rule yet in memory."""
        replay.on_emission = None
        if replay.bucket is None:
            self._idle[place] = replay
        else:
            _write(self._file(place, "state"), dump_snapshot(replay.bucket, replay.last))


class BucketEmissions:
    """What the fold of a bucket emits, for a file.

    These are each asset's first and last record, and those that change what it shows; or all.
    """

    def __init__(self, replay: PartitionReplay, epoch: int, *, whole: bool) -> None:
        self._replay, self._epoch, self._whole = replay, epoch, whole
        self._kept: dict[str, list[FoldedRecord]] = {}

    def take(self, before: Emitted | None, emission: Emitted) -> None:
        """Take the next one. before: the asset's record before, None for its first."""
        kept = self._kept.get(emission.asset)
        if kept is None:
            kept = self._kept[emission.asset] = []
            if before is not None and not self._whole:
                kept.append(self._record(before, restored=True))
        if self._whole or before is None or _is_visible(before, emission):
            kept.append(self._record(emission))

    def in_order(self) -> Iterator[FoldedRecord]:
        """Yield them in the order of a file."""
        last = {} if self._whole else self._replay.last
        for asset in sorted(self._kept.keys() | last.keys()):
            kept = self._kept.get(asset, [])
            yield from kept
            if asset in last:
                newest = self._record(last[asset], restored=not kept)
                if not kept or kept[-1].place != newest.place:
                    yield newest

    def _record(self, emission: Emitted, *, restored: bool = False) -> FoldedRecord:
        return record_of(self._replay.scenario, emission, self._epoch, restored=restored)


def _is_visible(before: Emitted, emission: Emitted) -> bool:
    """Return whether a record may have changed what an asset shows, as the history keeps it."""
    if isinstance(before, Tombstone) or isinstance(emission, Tombstone):
        return True
    shown = (before.state, before.unconfirmed) == (emission.state, emission.unconfirmed)
    return not shown or emission.cause.type != "report"


class KernelFold:
    """The fold by the kernel, in a Spark process that ends with this one."""

    def __init__(self, order: FoldOrder, topics: Topics, log_file: Path) -> None:
        """Start the process. log_file: of what it says besides its answers."""
        self._topics, self._log_file = topics, log_file
        log_file.parent.mkdir(parents=True, exist_ok=True)
        with log_file.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "streaming.queries.bucket_fold"],
                cwd=settings.BASE_DIR,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                start_new_session=True,  # so that it can be ended with all that it has started
            )
        self._order: FoldOrder | None = order

    def fold_on(self, progress: OnProgress) -> FoldRound:
        """Fold all buckets to the log's present end. Raises FoldProblem."""
        answer = self._answer(ON, progress)
        assert isinstance(answer, Folded)
        return FoldRound(self._places(answer.ends), answer.records, answer.files)

    def save(self) -> list[SavedSnapshot]:
        """Write and return snapshots of the buckets, after the first turn. Raises FoldProblem."""
        answer = self._answer(SAVE, lambda _done, _total: None)
        assert isinstance(answer, Saved)
        return answer.snapshots

    def close(self) -> None:
        """End the process."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        with suppress(BrokenPipeError):
            self._process.communicate()

    def _answer(self, request: bytes, progress: OnProgress) -> Folded | Saved:
        """Ask for something, and return the answer. Raises FoldProblem."""
        self._ask(request)
        assert self._process.stdout is not None
        for line in self._process.stdout:
            answer: FoldAnswer = msgspec.json.decode(line, type=FoldAnswer)
            if isinstance(answer, FoldFailed):
                raise FoldProblem(f"{answer.why} (--plain folds without Spark)")
            if not isinstance(answer, FoldProgress):
                return answer
            progress(answer.done, answer.of)
        raise FoldProblem(f"its process ended: {self._last_words()} (--plain folds without Spark)")

    def _ask(self, request: bytes) -> None:
        """Ask for something, the first time with the order."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # it has ended, and its answer says why
            if self._order is not None:
                self._process.stdin.write(msgspec.json.encode(self._order) + b"\n")
            self._order = None
            self._process.stdin.write(request)
            self._process.stdin.flush()

    def _places(self, ends: Mapping[str, int]) -> dict[TopicPartition, int]:
        named = {name.rpartition("/")[::2]: end for name, end in ends.items()}
        return {(self._topics.reports(name), int(at)): end for (name, at), end in named.items()}

    def _last_words(self) -> str:
        lines = self._log_file.read_text(errors="replace").strip().splitlines()
        return lines[-1][:500] if lines else "it said nothing"


def kernel_order(
    topics: Topics,
    scenarios: Mapping[str, Scenario],
    snapshots: Snapshots,
    starts: Starts,
    epoch: int,
    folder: Path,
) -> FoldOrder:
    """Return the order for a KernelFold of these source partitions."""
    buckets = {}
    for (topic, partition), row in starts.items():
        name = topics.scenario_of(topic) or ""
        terms = LogBound.terms_of(name, partition)
        begin = (row.next_offset, row.file, row.digest) if row else ()
        own = FoldStart(*begin)
        own = msgspec.structs.replace(own, bounds=list(terms.bounds), asides=list(terms.asides))
        buckets[bucket_name(name, partition)] = own
    partitions = {topics.scenario_of(topic) or "": 0 for topic, _ in starts}
    partitions = {name: scenarios[name].partitions for name in partitions}
    return FoldOrder(str(folder), str(snapshots.folder), epoch, partitions, buckets)


def is_long(bus: Bus, starts: Starts) -> bool:
    """Return whether the kernel is quicker than the plain fold, although Spark has to start."""
    places = bus.offsets({topic for topic, _ in starts})
    begins = {place: row.next_offset if row else 0 for place, row in starts.items()}
    return sum(places[place][1] - begins[place] for place in begins) > LONG_LOG


def in_kernel(scenario: Scenario) -> bool:
    """Return whether the kernel can fold a scenario here: it knows no rules in Python."""
    engines = BucketStatus.objects.filter(scenario=scenario.name).values_list("engine")
    return not isinstance(scenario.rule, PythonRule) and ("python",) not in engines


def take_in_kernel(
    bus: Bus,
    topics: Topics,
    scenarios: Mapping[str, Scenario],
    snapshots: Snapshots,
    progress: OnProgress,
    folder: Path,
) -> list[FoldSnapshot]:
    """Do as `take`, with the kernel in Spark. folder: for its files.

    Return the rows of the snapshots. Raises FoldProblem.
    """
    starts = newest_starts(bus, topics, scenarios, snapshots)
    order = kernel_order(topics, scenarios, snapshots, starts, 1, folder / "kernel")
    fold = KernelFold(order, topics, folder / "kernel.log")
    try:
        fold.fold_on(progress)
        saved = fold.save()
    finally:
        fold.close()
    return [
        snapshots.record(
            each,
            Terms(
                tuple(order.buckets[each.bucket].bounds), tuple(order.buckets[each.bucket].asides)
            ),
        )
        for each in saved
    ]


def snapshot_now(*, kernel: bool | None = None) -> int:
    """Take a snapshot of every bucket's fold, and return how many were taken.

    kernel: whether the kernel folds what it can; None: if the log since the newest snapshots is
    long. Raises FoldProblem and BusError.
    """
    from bus.kafka import KafkaBus  # so that only processes that read load Kafka's library

    tallyboard = settings.TALLYBOARD
    kept = Snapshots(tallyboard.data_dir / "snapshots", now_ms)
    bus, own, known = KafkaBus(tallyboard.kafka_options()), topics(), scenarios()
    ignored: OnProgress = lambda _done, _total: None  # noqa: E731
    if kernel is None:
        kernel = is_long(bus, newest_starts(bus, own, known, kept))
    fitting = {name: each for name, each in known.items() if kernel and in_kernel(each)}
    rest = {name: each for name, each in known.items() if name not in fitting}
    taken = len(take(bus, own, rest, kept, ignored)) if rest else 0
    if fitting:
        with workspace(tallyboard.data_dir / "reconcile") as folder:
            taken += len(take_in_kernel(bus, own, fitting, kept, ignored, folder))
    return taken


@contextmanager
def workspace(home: Path) -> Iterator[Path]:
    """Yield a folder for one run's files, which are deleted afterwards.

    Those of runs that were killed are deleted first.
    """
    home.mkdir(parents=True, exist_ok=True)
    with (home / "lock").open("ab") as door:
        fcntl.flock(door, fcntl.LOCK_EX)
        for left in home.iterdir():
            _delete_left(left)
        folder = Path(tempfile.mkdtemp(dir=home))
        lock = (folder / "lock").open("ab")
        fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        lock.close()


def _delete_left(folder: Path) -> None:
    """Delete the folder of a run, unless that still holds its lock."""
    with suppress(OSError), (folder / "lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
