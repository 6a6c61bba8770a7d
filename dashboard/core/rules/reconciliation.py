"""Reconcile: the topics replayed through the fold, compared with the database row by row.

The job keeps running meanwhile. So the fold runs to the end that the log has at the start; the
database must then reach that point; its rows are read; and the fold continues to the end that the
log has by then. Each row must equal what was last emitted at the start, or an emission since. In
the end, the totals that the database keeps besides the rows are compared with the rows.

Rows, changes and what the fold emitted are read side by side, in order of the assets' names, so
that of each only one asset's are in memory. Assets on which they do not agree wait in a file for
the rest of the log; of those that still differ then, at most MOST_LISTED are listed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import chain, groupby
from operator import attrgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import structlog

from bus.base import Bus, BusError, TopicPartition
from dashboard.core.common.sql import STATEMENT, by_code_points, chunks
from dashboard.core.job.models import BucketStatus
from dashboard.core.rules.changes import (
    ChangeComparison,
    ChangeDifference,
    RecordedChange,
    changes_of,
)
from dashboard.core.rules.log_replay import (
    FoldProblem,
    FoldRound,
    KernelFold,
    LogFold,
    OnProgress,
    PlainFold,
    Snapshots,
    Starts,
    in_kernel,
    is_long,
    kernel_order,
)
from dashboard.core.rules.models import BucketJudgement
from dashboard.core.states.aggregates import Miscounted, miscounted
from dashboard.core.states.models import HIDDEN_KEPT_MS, AssetState, FoldSnapshot
from dashboard.core.states.queries import sink_offsets
from dashboard.core.states.rows import (
    COLUMNS,
    ReadableRecord,
    read,
    record_row,
    same_content,
)
from domain.scenario import Scenario
from domain.version import Version
from wire.bucket_fold import FoldedRecord, read_emissions
from wire.job import bucket_name
from wire.partitioner import partition_of
from wire.topics import Topics

Row = tuple[Any, ...]
"""A row of AssetState, in the order of COLUMNS."""

ASSET, VERSION_COLUMN = COLUMNS.index("asset"), COLUMNS.index("version")

MOST_LISTED = 1_000
"""Assets that are listed, and compared again after a while, of those that differ."""

PROGRESS_EVERY = 1_000


class Behind(Exception):
    """No comparison is possible: there is no log, the job or the materialiser does not reach its
    end, or the log needs a later release."""


@dataclass
class RowDifference:
    """An asset whose row differs from what the fold emitted: kind is missing, extra or differs.

    fields: (expected, found) by name.
    """

    scenario: str
    asset: str
    kind: str
    fields: dict[str, tuple[Any, Any]] = field(default_factory=dict)


@dataclass
class Result:
    """The result of a run. records: how many were replayed; compared: how many assets; unjudged:
    assets whose log has lost its beginning; miscounted: stored totals that differ from the rows;
    changes: those that differ; changes_compared: stored changes of the records replayed; unlisted:
    assets that differ besides those that are listed."""

    records: int
    compared: int
    unjudged: int
    differences: list[RowDifference]
    miscounted: list[Miscounted]
    changes: list[ChangeDifference] = field(default_factory=list)
    changes_compared: int = 0
    unlisted: int = 0

    @property
    def agrees(self) -> bool:
        """Return whether no difference was found."""
        return not (self.differences or self.miscounted or self.changes or self.unlisted)


class AssetEvidence(msgspec.Struct):
    """What there is on one asset.

    row: as stored, or None; stored: its changes in the database; first: what the fold emitted of
    it up to the end of the log at the start, as far as it is visible; later: all since.
    """

    scenario: str
    asset: str
    row: Row | None = None
    stored: list[RecordedChange] = []
    first: list[FoldedRecord] = []
    later: list[FoldedRecord] = []

    @property
    def key(self) -> tuple[str, str]:
        """Return what they are ordered by."""
        return self.scenario, self.asset


class Judgement:
    """Judges assets by the evidence, and counts what was compared."""

    def __init__(
        self,
        topics: Topics,
        scenarios: Mapping[str, Scenario],
        starts: Starts,
        epoch: int,
        clock: Callable[[], int],
    ) -> None:
        """starts: of the buckets that are judged; epoch: that the fold gave its versions."""
        self._topics, self._scenarios, self._clock = topics, scenarios, clock
        self._begins = {
            (topics.scenario_of(topic) or "", partition): row.next_offset if row else 0
            for (topic, partition), row in starts.items()
        }
        self._folded_epoch, self.epochs = epoch, _epochs()
        self.histories = {name: ChangeComparison(name, clock) for name in scenarios}

    def covers(self, scenario: str, asset: str) -> bool:
        """Return whether an asset's bucket is judged."""
        partition = partition_of(asset.encode(), self._scenarios[scenario].partitions)
        return (scenario, partition) in self._begins

    def of(self, each: AssetEvidence) -> tuple[RowDifference | None, list[ChangeDifference], int]:
        """Return how an asset differs, in its row and its changes; how many were compared."""
        partitions = self._scenarios[each.scenario].partitions
        partition = partition_of(each.asset.encode(), partitions)
        begin = self._begins[each.scenario, partition]
        first, later = (
            [(record, self._readable(record, partition)) for record in records]
            for records in (each.first, each.later)
        )
        folded = changes_of(each.scenario, [*first, *later])
        due = len(changes_of(each.scenario, first)) if later else len(folded)
        history = self.histories[each.scenario]
        changes, compared = history.of_asset(folded, each.stored, due=due, begin=begin)
        return self._of_row(each, first[-1:] + later), changes, compared

    def _readable(self, record: FoldedRecord, partition: int) -> ReadableRecord:
        """Return a record as the materialiser reads it, in the epoch that the job has reached."""
        epoch = self.epochs.get((record.scenario, partition), 0)
        return read_folded(record, self._folded_epoch, epoch)

    def _of_row(
        self, each: AssetEvidence, emitted: list[tuple[FoldedRecord, ReadableRecord]]
    ) -> RowDifference | None:
        if each.row is None:
            missing = emitted and not self._long_gone(emitted[0][1])
            return RowDifference(each.scenario, each.asset, "missing") if missing else None
        if not emitted:
            return RowDifference(each.scenario, each.asset, "extra")
        scenario = self._scenarios[each.scenario]
        fields = self._differing(scenario, each.row, emitted)
        return RowDifference(each.scenario, each.asset, "differs", fields) if fields else None

    def _long_gone(self, record: ReadableRecord) -> bool:
        """Return whether the row of a purged asset may have been deleted by now."""
        return not record.state and record.shape.cause.time < self._clock() - HIDDEN_KEPT_MS

    def _differing(
        self,
        scenario: Scenario,
        row: Row,
        emitted: list[tuple[FoldedRecord, ReadableRecord]],
    ) -> dict[str, tuple[Any, Any]]:
        """Return the fields in which a row differs from the emission of its version, or the last.

        A snapshot may hold a record of an older epoch than the job's.
        """
        version = Version.parse(row[VERSION_COLUMN])
        fitting = [pair for pair in emitted if pair[0].place == version.in_log()]
        record, readable = (fitting or emitted)[-1]
        if record.restored and version.epoch < Version.parse(readable.version).epoch:
            readable = read_folded(record, self._folded_epoch, version.epoch)
        expected = record_row(scenario, readable)
        if expected == row:
            return {}
        pairs = zip(COLUMNS, expected, row, strict=True)
        fields = {name: pair for name, *pair in pairs if pair[0] != pair[1]}
        if "record" in fields and same_content(*fields["record"]):
            del fields["record"]
        return {name: (one, other) for name, (one, other) in fields.items()}


def read_folded(record: FoldedRecord, written: int, epoch: int) -> ReadableRecord:
    """Return a record of the fold as the materialiser reads it. Raises UnreadableState.

    written: the epoch in its version; epoch: the one to read instead.
    """
    value, headers = record.value, [(n, text.encode()) for n, text in record.headers.items()]
    if written != epoch:
        version = f"{record.offset}.{record.step}"
        before, after = f"{written}.{version}", f"{epoch}.{version}"
        if value is not None:
            value = value.replace(f'"version":"{before}"', f'"version":"{after}"', 1)
        headers = [(n, after.encode() if n == "version" else text) for n, text in headers]
    return read(record.asset.encode(), None if value is None else value.encode(), headers)


class Reconciler:
    """One run of reconcile."""

    def __init__(
        self,
        bus: Bus,
        topics: Topics,
        scenarios: dict[str, Scenario],
        snapshots: Snapshots,
        clock: Callable[[], int],
        *,
        progress: OnProgress = lambda _done, _total: None,
        comparing: OnProgress = lambda _done, _total: None,
        patience_s: float = 60,
        grace_s: float = 5,
        from_snapshot: bool = False,
        kernel: bool | None = False,
        buckets: Collection[str] | None = None,
        totals: bool = True,
        folder: Path | None = None,
    ) -> None:
        """Prepare a run.

        progress: of the fold, in records; comparing: of the comparison, in assets; patience_s: how
        long the database may take to catch up with the log; grace_s: how long a difference may
        take to disappear, as the job's sinks have no order across topics; from_snapshot: whether to
        begin at each bucket's newest snapshot even if its log is complete; kernel: whether the
        kernel folds what it can, None: if the log is long; buckets: the names of those that are
        judged, None for all; totals: whether the totals kept beside the rows are compared too;
        folder: for the run's files.
        """
        self._bus, self._topics, self._scenarios = bus, topics, scenarios
        self._snapshots, self._clock = snapshots, clock
        self._progress, self._comparing = progress, comparing
        self._patience_s, self._grace_s = patience_s, grace_s
        self._from_snapshot, self._kernel = from_snapshot, kernel
        self._buckets, self._totals, self._folder = buckets, totals, folder
        self._lost: set[TopicPartition] = set()

    def run(self) -> Result:
        """Replay and compare, and return the result. Raises Behind and BusError."""
        starts = self._prepare()
        with ExitStack() as stack:
            folder = self._folder or Path(stack.enter_context(TemporaryDirectory()))
            epoch = max(_epochs().values(), default=1)
            try:
                folds = self._folds(starts, epoch, folder)
                for fold in folds:
                    stack.callback(fold.close)
                reached = self._fold_on(folds, self._progress)
                self._wait_for_database(reached.ends)
                judgement = Judgement(self._topics, self._scenarios, starts, epoch, self._clock)
                comparison = Comparison(judgement, folder, self._names(starts), self._comparing)
                comparison.compare_all(reached.files)
                self._settle(comparison, folds)
            except FoldProblem as problem:
                raise Behind(str(problem)) from None
        differences, changes = comparison.end()
        return Result(
            reached.records,
            comparison.compared,
            self._unjudged(),
            differences,
            miscounted() if self._totals else [],
            changes,
            comparison.changes_compared,
            comparison.unlisted,
        )

    # ---- the log ----------------------------------------------------------------------------

    def _sources(self) -> list[str]:
        return [self._topics.reports(name) for name in self._scenarios]

    def _prepare(self) -> Starts:
        """Return where the fold of each bucket begins that is judged. Raises Behind."""
        places = self._bus.offsets(self._sources())
        missing = set(self._sources()) - {topic for topic, _ in places}
        if missing:
            raise Behind(f"topics are missing: {', '.join(sorted(missing))}")
        starts: dict[TopicPartition, FoldSnapshot | None] = {}
        for place, (begin, _) in sorted(places.items()):
            if self._buckets is not None and self._name(place) not in self._buckets:
                continue
            row = self._snapshot(place, begin)
            if row is None and begin > 0:
                self._lost.add(place)
            else:
                starts[place] = row
        return starts

    def _snapshot(self, place: TopicPartition, begin: int) -> FoldSnapshot | None:
        scenario = self._scenario(place[0])
        if self._from_snapshot:
            return self._snapshots.newest(scenario, place[1], begin)
        return None if begin == 0 else self._snapshots.oldest(scenario, place[1], begin)

    def _scenario(self, topic: str) -> Scenario:
        return self._scenarios[self._topics.scenario_of(topic) or ""]

    def _name(self, place: TopicPartition) -> str:
        return bucket_name(self._scenario(place[0]).name, place[1])

    def _names(self, starts: Starts) -> list[str]:
        """Return the scenarios of which something is judged, in order."""
        return sorted({self._scenario(topic).name for topic, _ in starts})

    def _folds(self, starts: Starts, epoch: int, folder: Path) -> list[LogFold]:
        """Return the folds, which together cover all buckets that are judged."""
        kernel = is_long(self._bus, starts) if self._kernel is None else self._kernel
        plain = {
            place: row
            for place, row in starts.items()
            if not (kernel and in_kernel(self._scenario(place[0])))
        }
        rest = {place: row for place, row in starts.items() if place not in plain}
        common = self._topics, self._scenarios, self._snapshots
        folds: list[LogFold] = []
        if plain:
            folds.append(PlainFold(self._bus, *common, plain, epoch, folder / "plain"))
        if rest:
            order = kernel_order(*common, rest, epoch, folder / "kernel")
            folds.append(KernelFold(order, self._topics, folder / "kernel.log"))
        return folds

    @staticmethod
    def _fold_on(folds: Iterable[LogFold], progress: OnProgress) -> FoldRound:
        parts = [fold.fold_on(progress) for fold in folds]
        ends = {place: end for part in parts for place, end in part.ends.items()}
        files = [file for part in parts for file in part.files]
        return FoldRound(ends, sum(part.records for part in parts), files)

    # ---- the database -----------------------------------------------------------------------

    def _wait_for_database(self, ends: Mapping[TopicPartition, int]) -> None:
        self._wait(lambda: self._job_behind(ends), "the job has not reached the log's end")
        sinks = self._bus.offsets([self._topics.states(name) for name in self._scenarios])
        self._wait(
            lambda: _materialiser_behind({place: end for place, (_, end) in sinks.items()}),
            "the materialiser has not reached the end of the states topics",
        )

    def _wait(self, behind: Callable[[], list[str]], what: str) -> None:
        deadline = time.monotonic() + self._patience_s
        while waiting := behind():
            if time.monotonic() > deadline:
                raise Behind(f"{what} within {self._patience_s:g} s: {', '.join(waiting)}")
            time.sleep(0.1)

    def _job_behind(self, ends: Mapping[TopicPartition, int]) -> list[str]:
        reached = dict(BucketStatus.objects.values_list("bucket", "offset"))
        names = {self._name(place): end for place, end in ends.items()}
        return [name for name, end in names.items() if reached.get(name, -1) < end - 1]

    def _unjudged(self) -> int:
        return sum(
            AssetState.objects.filter(
                scenario=self._scenario(topic).name, partition=partition, purged=False
            ).count()
            for topic, partition in self._lost
        )

    # ---- what differs at first --------------------------------------------------------------

    def _settle(self, comparison: Comparison, folds: list[LogFold]) -> None:
        """Compare what is open with the rest of the log, and again with the database for a while.

        The rows that were read are from before the log's present end.
        """
        if not comparison.open:
            return
        ignored: OnProgress = lambda _done, _total: None  # noqa: E731
        comparison.compare_open(self._fold_on(folds, ignored).files)
        deadline = time.monotonic() + self._grace_s
        while comparison.listed:
            comparison.read_again()
            comparison.compare_listed(self._fold_on(folds, ignored).files)
            if time.monotonic() > deadline:
                return
            if comparison.listed:
                time.sleep(0.2)


class Comparison:
    """The comparison of all assets, and what is left of it to be settled.

    compared, changes_compared: how many assets and changes; open: how many assets wait in the file;
    listed: those that still differ; unlisted: how many more do.
    """

    def __init__(
        self, judgement: Judgement, folder: Path, scenarios: list[str], progress: OnProgress
    ) -> None:
        """scenarios: the names of those that are judged, in order."""
        self._judgement, self._file = judgement, folder / "open.jsonl"
        self._scenarios, self._progress = scenarios, progress
        self.compared = self.changes_compared = self.open = self.unlisted = 0
        self.listed: list[AssetEvidence] = []

    def compare_all(self, files: Iterable[str]) -> None:
        """Compare every asset that the fold emitted, or that has a row or a change."""
        folder = self._file.parent
        folder.mkdir(parents=True, exist_ok=True)
        total, encode = self._total(), msgspec.json.Encoder().encode
        with self._file.open("wb") as file:
            for number, each in enumerate(self._all(files)):
                if number % PROGRESS_EVERY == 0:
                    self._progress(min(number, total), total)
                if not self._is_settled(each):
                    file.write(encode(each) + b"\n")
                    self.open += 1
        self._progress(total, total)

    def _total(self) -> int:
        """Return about how many assets there are, as the heartbeats have it."""
        rows = BucketStatus.objects.filter(scenario__in=self._scenarios)
        return sum(rows.values_list("assets", flat=True))

    def _is_settled(self, each: AssetEvidence) -> bool:
        """Return whether an asset agrees, and count what was compared if so."""
        difference, changes, compared = self._judgement.of(each)
        if difference is not None or changes:
            return False
        self.compared += each.row is not None
        self.changes_compared += compared
        return True

    def _all(self, files: Iterable[str]) -> Iterator[AssetEvidence]:
        """Yield the evidence on each asset that is judged, in order."""
        folded = groupby(read_emissions(files), key=attrgetter("scenario", "asset"))
        for key, own in aligned(
            ((key, list(records)) for key, records in folded),
            chain.from_iterable(map(self._rows, self._scenarios)),
            chain.from_iterable(map(self._changes, self._scenarios)),
        ):
            if self._judgement.covers(*key):
                records, row, stored = own
                scenario, asset = key
                yield AssetEvidence(scenario, asset, row, stored or [], records or [])

    def _rows(self, scenario: str) -> Iterator[tuple[tuple[str, str], Row]]:
        rows = AssetState.objects.filter(scenario=scenario).order_by(*by_code_points("asset"))
        for row in rows.values_list(*COLUMNS).iterator(2_000):
            yield (scenario, row[ASSET]), row

    def _changes(self, scenario: str) -> Iterator[tuple[tuple[str, str], list[RecordedChange]]]:
        for asset, changes in self._judgement.histories[scenario].rows():
            yield (scenario, asset), changes

    # ---- what is left -----------------------------------------------------------------------

    def compare_open(self, files: Iterable[str]) -> None:
        """Compare the assets that wait, with what the fold emitted since."""
        decode = msgspec.json.Decoder(AssetEvidence).decode
        folded = groupby(read_emissions(files), key=attrgetter("scenario", "asset"))
        with self._file.open("rb") as file:
            waiting = ((each.key, each) for each in map(decode, file))
            for _, (each, records) in aligned(
                waiting, ((key, list(records)) for key, records in folded)
            ):
                if each is not None:
                    each.later += records or []
                    self._list(each)

    def _list(self, each: AssetEvidence) -> None:
        """List an asset that differs, or count it if too many are listed."""
        if self._is_settled(each):
            return
        if len(self.listed) < MOST_LISTED:
            self.listed.append(each)
        else:
            self.unlisted += 1
            self.compared += 1

    def read_again(self) -> None:
        """Read rows and changes of the listed assets again."""
        for scenario in self._scenarios:
            listed = {each.asset: each for each in self.listed if each.scenario == scenario}
            rows = _rows_of(scenario, listed)
            stored = self._judgement.histories[scenario].rows_of(listed)
            for asset, each in listed.items():
                each.row, each.stored = rows.get(asset), stored.get(asset, [])
        self._judgement.epochs = _epochs()

    def compare_listed(self, files: Iterable[str]) -> None:
        """Compare the listed assets, with what the fold emitted since."""
        listed = {each.key: each for each in self.listed}
        for record in read_emissions(files):
            each = listed.get((record.scenario, record.asset))
            if each is not None:
                each.later.append(record)
        self.listed = [each for each in self.listed if not self._is_settled(each)]

    def end(self) -> tuple[list[RowDifference], list[ChangeDifference]]:
        """Return how rows and changes of the listed assets differ, and count these as compared."""
        differences, all_changes = [], list[ChangeDifference]()
        for each in self.listed:
            difference, changes, compared = self._judgement.of(each)
            self.compared += difference is not None or each.row is not None
            self.changes_compared += compared
            if difference is not None:
                differences.append(difference)
            all_changes += changes[: MOST_LISTED - len(all_changes)]
        return differences, all_changes


def aligned(*streams: Iterable[tuple[Any, Any]]) -> Iterator[tuple[Any, list[Any]]]:
    """Yield each key of some streams of (key, item), with the item of each stream, or None.

    Each stream is in order of its keys, which are not repeated.
    """
    iterators = [iter(stream) for stream in streams]
    heads = [next(iterator, None) for iterator in iterators]
    while any(heads):
        key = min(head[0] for head in heads if head is not None)
        items = []
        for number, head in enumerate(heads):
            here = head is not None and head[0] == key
            items.append(head[1] if here and head is not None else None)
            if here:
                heads[number] = next(iterators[number], None)
        yield key, items


def _rows_of(scenario: str, assets: Iterable[str]) -> dict[str, Row]:
    rows_by_asset: dict[str, Row] = {}
    for chunk in chunks(sorted(assets), STATEMENT):
        rows = AssetState.objects.filter(scenario=scenario, asset__in=chunk)
        rows_by_asset |= {row[ASSET]: row for row in rows.values_list(*COLUMNS)}
    return rows_by_asset


def _epochs() -> dict[tuple[str, int], int]:
    """Return the epoch that the job has reached in each bucket, by scenario and partition."""
    rows = BucketStatus.objects.values_list("scenario", "partition", "epoch")
    return {(scenario, partition): epoch for scenario, partition, epoch in rows}


def _materialiser_behind(ends: Mapping[TopicPartition, int]) -> list[str]:
    known = sink_offsets()
    return [f"{place[0]}/{place[1]}" for place, end in ends.items() if known.get(place, 0) < end]


# ---- the daily sample ----------------------------------------------------------------------------

log = structlog.get_logger(__name__)

JUDGED_WITHIN_DAYS = 6
"""Each bucket's turn comes so often: before Kafka deletes what its log holds, after a week."""

NAMED = 20
"""Differences that are kept in words."""


def sample(scenarios: Mapping[str, Scenario]) -> list[BucketJudgement]:
    """Return the buckets whose turn it is: those judged longest ago, or never."""
    stored = {(row.scenario, row.partition): row for row in BucketJudgement.objects.all()}
    places = [(name, at) for name, each in scenarios.items() for at in range(each.partitions)]
    rows = [
        stored.get(place) or BucketJudgement(scenario=place[0], partition=place[1], begun_at=0)
        for place in places
    ]
    rows.sort(key=lambda row: (row.begun_at, row.scenario, row.partition))
    return rows[: -(-len(rows) // JUDGED_WITHIN_DAYS)]


def judge(
    rows: Iterable[BucketJudgement],
    reconciler: Callable[[str], Reconciler],
    clock: Callable[[], int],
) -> bool:
    """Judge buckets one by one, and store each outcome. Returns whether all agree.

    reconciler: returns what judges the bucket of a name.
    """
    agree = True
    for row in rows:
        name = bucket_name(row.scenario, row.partition)
        row.begun_at, row.ended_at = clock(), None
        row.save()
        try:
            _note(row, reconciler(name).run())
        except (Behind, BusError) as error:
            row.problem = str(error)
        row.ended_at = clock()
        row.save()
        agree &= not row.problem
        if row.problem:
            log.error("the plain fold does not confirm a bucket", bucket=name, why=row.problem)
    return agree


def _note(row: BucketJudgement, result: Result) -> None:
    """Put a result into a bucket's row."""
    row.records, row.compared = result.records, result.compared
    row.differences = len(result.differences) + len(result.changes) + result.unlisted
    lines = [f"{each.asset}: {each.kind}" for each in result.differences[:NAMED]]
    lines += [f"{each.asset}: change {each.kind}" for each in result.changes[:NAMED]]
    if result.unjudged:
        lines.append(f"{result.unjudged} assets could not be judged: no snapshot meets the log")
    row.problem = "\n".join(lines)
