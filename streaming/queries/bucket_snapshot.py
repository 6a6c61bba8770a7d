"""Snapshots of buckets out of a committed state: read by Spark, written asset by asset."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from pyspark.sql import functions as sql
from pyspark.sql.types import StringType

from domain.fold import Bucket
from domain.records import Mute
from domain.scenario import Scenario
from streaming.fold.rules import load_rule
from streaming.state.buckets import BucketId
from streaming.state.transfer import committed_state
from wire.bucket_fold import FoldedRecord, SavedSnapshot
from wire.partitioner import partition_of
from wire.snapshot import SnapshotWriter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# How the kernel keeps a bucket's own: see Meta in kernel/Run.java.
META, WITH_LATENESS = struct.Struct(">x7q"), 3


class CommittedState:
    """The state of a checkpoint's last committed batch."""

    def __init__(self, spark: SparkSession, checkpoint: Path, batch: int) -> None:
        self._spark, self._checkpoint, self._batch = spark, checkpoint, batch

    def buckets(self) -> dict[BucketId, Bucket]:
        """Return the buckets without their assets."""
        rules = {BucketId.parse(key): str(text) for key, text in self._values("rule")}
        metas = {BucketId.parse(key): bytes(data) for key, data in self._values("meta")}
        return {
            bucket: _bucket(load_rule(rules[bucket]), bucket.partition, meta)
            for bucket, meta in metas.items()
        }

    def assets(self) -> Iterator[tuple[BucketId, str, Any]]:
        """Yield each asset with its fields, in order of the names; read bit by bit."""
        self._spark.udf.registerJavaFunction(
            "asset_json", "tallyboard.kernel.AssetJson", StringType()
        )
        rows = self._read("assets").select("key.*", "user_map_key.*", "user_map_value.*")
        rows = rows.toDF("bucket", "name", "data")
        rows = rows.select("bucket", "name", sql.expr("asset_json(data)").alias("data"))
        for bucket, name, data in rows.orderBy("name").toLocalIterator():
            yield BucketId.parse(bucket), name, json.loads(data)

    def _values(self, variable: str) -> list[Any]:
        return self._read(variable).select("key.*", "value.*").collect()

    def _read(self, variable: str) -> DataFrame:
        return committed_state(self._spark, str(self._checkpoint), self._batch, variable)


def _bucket(rule: Scenario, partition: int, data: bytes) -> Bucket:
    """Return a bucket without its assets, from what Run.Meta writes."""
    clock, offset, live, *_ = META.unpack_from(data)
    rest = data[META.size :]
    if data[0] == WITH_LATENESS:
        rest = rest[4 + int.from_bytes(rest[:4], "big") :]
    mutes = msgspec.json.decode(rest, type=list[Mute]) if rest else []
    return Bucket(rule, partition, 1, clock=clock, offset=offset, live=live, mutes=mutes)


def write_snapshots(
    state: CommittedState,
    last: Iterable[FoldedRecord],
    partitions: Mapping[str, int],
    folder: Path,
) -> list[SavedSnapshot]:
    """Write a snapshot of each bucket below a folder, and return them. Raises OSError.

    last: what was emitted, in order, each asset's last record as its last; partitions: of each
    scenario's source topic.
    """
    folder.mkdir(parents=True, exist_ok=True)
    drafts = {each: _Draft(each, bucket, folder) for each, bucket in state.buckets().items()}
    for each, name, fields in state.assets():
        drafts[each].writer.add_asset(name, fields)
    for record in last_of_each(last):
        partition = partition_of(record.asset.encode(), partitions[record.scenario])
        value = None if record.value is None else record.value.encode()
        headers = [(name, text.encode()) for name, text in record.headers.items()]
        writer = drafts[BucketId(record.scenario, partition)].writer
        writer.add_last(record.asset, value, headers)
    return [draft.end() for draft in drafts.values()]


class _Draft:
    """A bucket's snapshot while it is written."""

    def __init__(self, name: BucketId, bucket: Bucket, folder: Path) -> None:
        self._name, self._bucket = name, bucket
        self._path = folder / f"{name.scenario}-{name.partition}-{bucket.offset + 1}.fold"
        self._draft = self._path.with_suffix(f".{os.getpid()}")
        self.writer = SnapshotWriter(self._draft)

    def end(self) -> SavedSnapshot:
        """Put the file where it belongs, and return what is to be known of it."""
        bucket, digest = self._bucket, self.writer.end(self._bucket)
        self._draft.replace(self._path)
        own = bucket.offset + 1, bucket.clock, bucket.live
        return SavedSnapshot(str(self._name), self._path.name, digest, *own)


def last_of_each(records: Iterable[FoldedRecord]) -> Iterator[FoldedRecord]:
    """Yield the last record of each asset, of records in order."""
    for _, own in groupby(records, key=attrgetter("scenario", "asset")):
        *_, last = own
        yield last
