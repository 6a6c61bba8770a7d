"""Snapshots of the fold: where reconcile starts when the log's beginning has been deleted."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import structlog
from django.conf import settings

from bus.base import Bus
from dashboard.checkpoints.models import FoldSnapshot
from dashboard.core.scenarios import scenarios, topics
from dashboard.core.times import now_ms
from dashboard.reconciliation.log_bounds import Terms, dump, fits, terms_of
from dashboard.reconciliation.log_reader import OnProgress, read_on
from dashboard.reconciliation.partition_replay import Replay
from domain.fold import UnknownFoldVersion
from domain.scenario import Scenario
from wire.snapshot import DamagedSnapshot, dump_snapshot, load_snapshot
from wire.topics import Topics

log = structlog.get_logger(__name__)

# Snapshots kept per bucket: one a day, for longer than the log is kept.
KEPT = 9


class Snapshots:
    """The snapshots below `folder`, with their rows in the database."""

    def __init__(self, folder: Path, clock: Callable[[], int]) -> None:
        self._folder, self._clock = folder, clock

    def save(self, replay: Replay) -> FoldSnapshot | None:
        """Store the fold as it stands and return its row; None where its rule is not known yet."""
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

    def oldest(self, scenario: Scenario, partition: int, begin: int) -> Replay | None:
        """Return the oldest snapshot that still meets a log which begins at offset `begin`."""
        return self._first(scenario, partition, begin, "next_offset")

    def newest(self, scenario: Scenario, partition: int, begin: int) -> Replay | None:
        """Return the newest snapshot that still meets a log which begins at offset `begin`."""
        return self._first(scenario, partition, begin, "-next_offset")

    def _first(self, scenario: Scenario, partition: int, begin: int, order: str) -> Replay | None:
        rows = FoldSnapshot.objects.filter(
            scenario=scenario.name, partition=partition, next_offset__gte=begin
        )
        terms = terms_of(scenario.name, partition)
        for row in rows.order_by(order):
            if not fits(row, terms):
                continue  # it was taken with a clock that no longer counts
            try:
                return self._load(row, scenario, terms)
            except DamagedSnapshot as error:
                log.warning("snapshot cannot be used", file=row.file, error=str(error))
        return None

    def _load(self, row: FoldSnapshot, scenario: Scenario, terms: Terms) -> Replay:
        try:
            data = (self._folder / row.file).read_bytes()
        except OSError as error:
            raise DamagedSnapshot(error.strerror) from None
        if hashlib.sha256(data).hexdigest() != row.digest:
            raise DamagedSnapshot("its digest is not the recorded one")
        replay = Replay(row.scenario, row.partition, scenario.partitions, terms)
        replay.next_offset = row.next_offset
        _restore(replay, data)
        return replay

    def _prune(self, replay: Replay) -> None:
        rows = FoldSnapshot.objects.filter(scenario=replay.scenario, partition=replay.partition)
        for row in rows.order_by("-next_offset")[KEPT:]:
            (self._folder / row.file).unlink(missing_ok=True)
            row.delete()


def begun(scenario: Scenario, partition: int) -> Replay:
    """Return a fold at the beginning of a bucket's log."""
    terms = terms_of(scenario.name, partition)
    return Replay(scenario.name, partition, scenario.partitions, terms)


def take(
    bus: Bus,
    topics: Topics,
    scenarios: dict[str, Scenario],
    snapshots: Snapshots,
    progress: OnProgress,
) -> list[FoldSnapshot]:
    """Fold every bucket from its newest snapshot on to the end of the log, and store that.

    Returns the rows of the snapshots.
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


def _restore(replay: Replay, data: bytes) -> None:
    replay.bucket, replay.last = load_snapshot(data, epoch=1)
    replay.restored = set(replay.last)


def _write(path: Path, data: bytes) -> None:
    """Write the file whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(f".{os.getpid()}.draft")
    with draft.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def snapshot_now() -> int:
    """Keep a snapshot of every bucket's fold. Returns how many were taken."""
    from bus.kafka import KafkaBus  # only a process that reads loads Kafka's library

    tallyboard = settings.TALLYBOARD
    kept = Snapshots(tallyboard.data_dir / "snapshots", now_ms)
    bus = KafkaBus(tallyboard.kafka_options())
    return len(take(bus, topics(), scenarios(), kept, lambda _done, _total: None))
