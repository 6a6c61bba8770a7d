"""Reconcile: the topics replayed through the fold, compared with the database row by row.

The job keeps running meanwhile. So the fold runs to the end that the log has at the start; the
database must then reach that point; its rows are read; and the fold continues to the end that the
log has by then. Each row must equal what was last emitted at the start, or an emission since. In
the end, the totals that the database keeps besides the rows are compared with the rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from bus.base import Bus
from dashboard.core.common.sql import STATEMENT, chunks
from dashboard.core.job.models import BucketStatus
from dashboard.core.rules.changes import ChangeComparison, ChangeDifference, FoldedHistory
from dashboard.core.rules.log_replay import (
    Emitted,
    OnProgress,
    PartitionReplay,
    Snapshots,
    begun,
    read_on,
)
from dashboard.core.states.aggregates import Miscounted, miscounted
from dashboard.core.states.models import HIDDEN_KEPT_MS, AssetState
from dashboard.core.states.queries import sink_offsets
from dashboard.core.states.rows import COLUMNS, record_row, same_content, seen_of
from domain.fold import UnknownFoldVersion
from domain.records import Tombstone
from domain.scenario import Scenario
from domain.version import Version
from wire.job import bucket_name
from wire.topics import Topics

PartitionKey = tuple[str, int]
Row = dict[str, Any]
Asset = tuple[str, int, str]
"""Topic, partition, asset."""
Epochs = dict[tuple[str, int], int]
"""Epoch by scenario and partition."""


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
    changes: those that differ; changes_compared: stored changes of the records replayed."""

    records: int
    compared: int
    unjudged: int
    differences: list[RowDifference]
    miscounted: list[Miscounted]
    changes: list[ChangeDifference] = field(default_factory=list)
    changes_compared: int = 0

    @property
    def agrees(self) -> bool:
        """Return whether no difference was found."""
        return not self.differences and not self.miscounted and not self.changes


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
        patience_s: float = 60,
        grace_s: float = 5,
        from_snapshot: bool = False,
    ) -> None:
        """Prepare a run.

        patience_s: how long the database may take to catch up with the log; grace_s: how long a
        difference may take to disappear, as the job's sinks have no order across topics;
        from_snapshot: whether to begin at each bucket's newest snapshot even if its log is
        complete.
        """
        self._bus, self._topics, self._scenarios = bus, topics, scenarios
        self._snapshots, self._clock = snapshots, clock
        self._progress = progress
        self._patience_s, self._grace_s = patience_s, grace_s
        self._from_snapshot = from_snapshot
        self._replays: dict[PartitionKey, PartitionReplay] = {}
        self._lost: set[PartitionKey] = set()

    def run(self) -> Result:
        """Replay and compare, and return the result. Raises Behind and BusError."""
        ends = self._prepare()
        try:
            records = read_on(self._bus, self._replays, ends, self._progress)
        except UnknownFoldVersion as error:
            raise Behind(str(error)) from None
        self._wait_for_database(ends)
        for replay in self._replays.values():
            replay.watch()
        compared, differing = self._compare_all()
        differences = self._settle(differing)
        changes, changes_compared = self._compare_changes()
        return Result(
            records,
            compared,
            self._unjudged(),
            differences,
            miscounted(),
            changes,
            changes_compared,
        )

    # ---- the log ----------------------------------------------------------------------------

    def _sources(self) -> list[str]:
        return [self._topics.reports(name) for name in self._scenarios]

    def _prepare(self) -> dict[PartitionKey, int]:
        places = self._bus.offsets(self._sources())
        missing = set(self._sources()) - {topic for topic, _ in places}
        if missing:
            raise Behind(f"topics are missing: {', '.join(sorted(missing))}")
        for place, (begin, _) in places.items():
            replay = self._start(place, begin)
            if replay is None:
                self._lost.add(place)
            else:
                replay.history = FoldedHistory(replay.next_offset)
                self._replays[place] = replay
        return {place: end for place, (_, end) in places.items() if place in self._replays}

    def _start(self, place: PartitionKey, begin: int) -> PartitionReplay | None:
        scenario = self._scenario(place[0])
        if self._from_snapshot:
            newest = self._snapshots.newest(scenario, place[1], begin)
            if newest is not None:
                return newest
        if begin == 0:
            return begun(scenario, place[1])
        return self._snapshots.oldest(scenario, place[1], begin)

    def _scenario(self, topic: str) -> Scenario:
        return self._scenarios[self._topics.scenario_of(topic) or ""]

    def _fold_on(self) -> None:
        places = self._bus.offsets(self._sources())
        ends = {place: end for place, (_, end) in places.items() if place in self._replays}
        read_on(self._bus, self._replays, ends, lambda _done, _total: None)

    # ---- the database -----------------------------------------------------------------------

    def _wait_for_database(self, ends: Mapping[PartitionKey, int]) -> None:
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

    def _job_behind(self, ends: Mapping[PartitionKey, int]) -> list[str]:
        reached = dict(BucketStatus.objects.values_list("bucket", "offset"))
        names = {
            bucket_name(self._scenario(topic).name, partition): end
            for (topic, partition), end in ends.items()
        }
        return [name for name, end in names.items() if reached.get(name, -1) < end - 1]

    def _all_rows(self) -> Iterator[tuple[Asset, Row]]:
        rows = AssetState.objects.filter(scenario__in=list(self._scenarios))
        for row in rows.values(*COLUMNS).iterator(2000):
            yield self._key(row), row

    def _rows_of(self, assets: Iterable[Asset]) -> dict[Asset, Row]:
        rows_by_asset: dict[Asset, Row] = {}
        for chunk in chunks(sorted(assets), STATEMENT):
            rows = AssetState.objects.filter(asset__in={asset for _, _, asset in chunk})
            rows_by_asset |= {self._key(row): row for row in rows.values(*COLUMNS)}
        return rows_by_asset

    def _key(self, row: Row) -> Asset:
        return (self._topics.reports(row["scenario"]), row["partition"], row["asset"])

    def _unjudged(self) -> int:
        return sum(
            AssetState.objects.filter(
                scenario=self._scenario(topic).name, partition=partition, purged=False
            ).count()
            for topic, partition in self._lost
        )

    # ---- the comparison ---------------------------------------------------------------------

    def _compare_all(self) -> tuple[int, set[Asset]]:
        """Compare every row. Return how many were compared, and the assets that differ."""
        epochs = _epochs()
        unseen = {
            (topic, partition, asset)
            for (topic, partition), replay in self._replays.items()
            for asset in replay.last
        }
        compared, differing = 0, set()
        for key, row in self._all_rows():
            if key[:2] not in self._lost:
                compared += 1
                unseen.discard(key)
                if self._compare(key, row, epochs):
                    differing.add(key)
        missing = {key for key in unseen if self._compare(key, None, epochs)}
        return compared + len(missing), differing | missing

    def _settle(self, open_ones: set[Asset]) -> list[RowDifference]:
        """Compare the differing assets again, reading on in the log, for a while at most.

        Return what still differs.
        """
        deadline = time.monotonic() + self._grace_s
        while open_ones:
            rows = self._rows_of(open_ones)
            self._fold_on()
            epochs = _epochs()
            differences = {key: self._compare(key, rows.get(key), epochs) for key in open_ones}
            differing = {key: difference for key, difference in differences.items() if difference}
            if time.monotonic() > deadline:
                return [differing[key] for key in sorted(differing)]
            open_ones = set(differing)
            if open_ones:
                time.sleep(0.2)
        return []

    def _compare(self, key: Asset, row: Row | None, epochs: Epochs) -> RowDifference | None:
        topic, partition, asset = key
        scenario = self._scenario(topic)
        replay = self._replays.get((topic, partition))
        emitted = replay.emissions_of(asset) if replay else []
        if row is None:
            missing = emitted and not self._long_gone(emitted[0])
            return RowDifference(scenario.name, asset, "missing") if missing else None
        if replay is None or not emitted:
            return RowDifference(scenario.name, asset, "extra")
        fields = _differing(scenario, row, emitted, replay, epochs)
        return RowDifference(scenario.name, asset, "differs", fields) if fields else None

    # ---- changes ----------------------------------------------------------------------------

    def _compare_changes(self) -> tuple[list[ChangeDifference], int]:
        """Return the changes that differ, and how many stored ones were compared."""
        found: list[ChangeDifference] = []
        compared = 0
        for name, scenario in self._scenarios.items():
            comparison = ChangeComparison(
                name, scenario.partitions, self._histories(name), self._clock
            )
            differences = comparison.all()
            compared += comparison.compared
            found += self._settle_changes(comparison, differences)
        return found, compared

    def _histories(self, scenario: str) -> dict[int, FoldedHistory]:
        topic = self._topics.reports(scenario)
        return {
            partition: replay.history
            for (own, partition), replay in self._replays.items()
            if own == topic and replay.history is not None
        }

    def _settle_changes(
        self, comparison: ChangeComparison, differences: list[ChangeDifference]
    ) -> list[ChangeDifference]:
        """Compare the differing changes again, as `_settle` does."""
        deadline = time.monotonic() + self._grace_s
        while differences:
            assets = {each.asset for each in differences}
            rows = comparison.rows_of(assets)
            self._fold_on()
            differences = comparison.of(assets, rows)
            if time.monotonic() > deadline:
                break
            if differences:
                time.sleep(0.2)
        return differences

    # ---- ages -------------------------------------------------------------------------------

    def _long_gone(self, record: Emitted) -> bool:
        """Return whether the row of a purged asset may have been deleted by now."""
        purged = isinstance(record, Tombstone)
        return purged and record.cause.time < self._clock() - HIDDEN_KEPT_MS


def _differing(
    scenario: Scenario, row: Row, emitted: list[Emitted], replay: PartitionReplay, epochs: Epochs
) -> dict[str, tuple[Any, Any]]:
    """Return the fields in which the row differs from the emission of its version, or the last."""
    version = Version.parse(row["version"])
    fitting = [record for record in emitted if record.version.in_log() == version.in_log()]
    record = (fitting or emitted)[-1]
    epoch = epochs.get((scenario.name, replay.partition), 0)
    if row["asset"] in replay.restored and record is emitted[0]:
        epoch = min(version.epoch, epoch)  # emitted before the snapshot, perhaps in an older epoch
    there = replace(record, version=record.version._replace(epoch=epoch))
    expected = dict(zip(COLUMNS, record_row(scenario, seen_of(there)), strict=True))
    if same_content(expected["record"], row["record"]):
        expected["record"] = row["record"]
    return {name: (expected[name], row[name]) for name in COLUMNS if expected[name] != row[name]}


def _epochs() -> Epochs:
    """Return the epoch that the job has reached in each bucket."""
    rows = BucketStatus.objects.values_list("scenario", "partition", "epoch")
    return {(scenario, partition): epoch for scenario, partition, epoch in rows}


def _materialiser_behind(ends: Mapping[PartitionKey, int]) -> list[str]:
    known = sink_offsets()
    return [f"{place[0]}/{place[1]}" for place, end in ends.items() if known.get(place, 0) < end]
