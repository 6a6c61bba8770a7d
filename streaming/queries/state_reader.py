"""What Spark has committed of a scenario's state, row by row, by its own state data source."""

from __future__ import annotations

import json
import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import structlog
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import functions as sql
from pyspark.sql.types import StringType

from domain.asset import Asset, all_timers
from domain.scenario import Scenario
from streaming.fold.rules import load_rule
from streaming.queries.protocol import OnStep, Publisher, QueryRefused, ReadRequest
from streaming.state.buckets import BucketId
from streaming.state.checkpoint import is_committed, measure
from streaming.state.hadoop import storage_at
from streaming.state.transfer import committed_state
from wire.asset import CODEC, load_asset
from wire.batch_query import (
    MOST_ROWS,
    PART_BYTES,
    ReadState,
    Stored,
    StoredAsset,
    StoredBucket,
    portions,
)
from wire.partitioner import partition_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from streaming.state.storage import StoragePath
    from wire.job import Checkpoint

log = structlog.get_logger(__name__)

ATTEMPTS = 4
"""How many batches are read before a request is refused. Spark keeps 20, so a query with short
batches may drop one before it has been read."""

# How the kernel's meta of a bucket begins: codec version, clock, offset, live assets.
KERNEL_META = struct.Struct(">xqqq")


# Of an entry of an asset, whatever either engine calls them; the Python engine has one more.
COLUMNS = ("bucket", "name", "data")


class _Meta(NamedTuple):
    clock: int
    offset: int
    live: int
    rule: str


def read_state(
    spark: SparkSession,
    scratch: Path,
    request: ReadRequest,
    publisher: Publisher,
    on_step: OnStep,
) -> str:
    """Read the newest committed batch, and publish it; what was read, in words.

    scratch: a folder for local copies. Raises QueryRefused or BusError.
    """
    on_step(0, 0, "reading the checkpoint")
    newest, metas, rows, cut = _newest(
        spark, storage_at(request.checkpoint, spark, scratch), request
    )
    rules = {bucket: load_rule(meta.rule) for bucket, meta in metas.items()}
    sent = 0
    assets = (_stored(bucket, name, asset, rules[bucket]) for bucket, name, asset in rows)
    for part, portion in enumerate(portions(assets)):
        publisher.send(Stored(publisher.ask, part, portion, epoch=request.epoch))
        sent += len(portion)
        on_step(sent, len(rows), "assets")
    publisher.send(
        Stored(
            publisher.ask,
            publisher.parts,
            last=True,
            engine=request.engine,
            epoch=request.epoch,
            batch=newest.batch,
            committed_at=newest.at,
            cut=cut,
            buckets=[_bucket(bucket, meta) for bucket, meta in sorted(metas.items())],
        )
    )
    publisher.confirm()
    return f"{sent} assets of batch {newest.batch}" + (", and there are more" if cut else "")


class _Committed(NamedTuple):
    """What a batch has committed. cut: whether there are more rows."""

    checkpoint: Checkpoint
    metas: dict[BucketId, _Meta]
    rows: list[tuple[BucketId, str, Asset]]
    cut: bool


def _newest(spark: SparkSession, checkpoint: StoragePath, request: ReadRequest) -> _Committed:
    """Return what the newest batch has committed.

    The query that writes it continues, and drops its older batches. If one is dropped while it is
    read, the newest is read in its place. Raises QueryRefused.
    """
    for _ in range(ATTEMPTS):
        newest = measure(checkpoint)
        if newest is None:
            raise QueryRefused("nothing has been committed yet: the first batch is under way")
        store = _Store(spark, request, newest.batch)
        try:
            metas = store.metas()
            return _Committed(newest, metas, *_first(store.assets(metas), MOST_ROWS))
        except (PySparkException, Py4JError):
            if is_committed(checkpoint, newest.batch):
                raise
            log.info("a batch was dropped while it was read", batch=newest.batch)
    raise QueryRefused(f"{ATTEMPTS} batches were dropped while they were read: request it later")


def _first(rows: Iterator[Any], most: int) -> tuple[list[Any], bool]:
    """Return the first `most` rows, and whether there were more."""
    read = list(rows)
    return read[:most], len(read) > most


class _Store:
    """The state variables of one committed batch, as either engine names them."""

    def __init__(self, spark: SparkSession, request: ReadRequest, batch: int) -> None:
        self._spark, self._request, self._batch = spark, request, batch

    def metas(self) -> dict[BucketId, _Meta]:
        """Return every bucket that is requested, as the state knows it."""
        if self._request.engine == "kernel":
            return self._kernel_metas()
        rows = self._read("meta").select("key.*", "value.*").collect()
        metas = {self._id(row[0]): row for row in rows}
        return {
            bucket: _Meta(row["clock"], row["offset"], row["live"], row["scenario"])
            for bucket, row in metas.items()
            if self._is_requested(bucket)
        }

    def _kernel_metas(self) -> dict[BucketId, _Meta]:
        rules = {
            self._id(row[0]): row[1]
            for row in self._read("rule").select("key.*", "value.*").collect()
        }
        metas = {
            self._id(row[0]): KERNEL_META.unpack_from(row[1])
            for row in self._read("meta").select("key.*", "value.*").collect()
        }
        return {
            bucket: _Meta(meta[0], meta[1], meta[2], rules[bucket])
            for bucket, meta in metas.items()
            if self._is_requested(bucket)
        }

    def assets(self, metas: dict[BucketId, _Meta]) -> Iterator[tuple[BucketId, str, Asset]]:
        """Yield the requested assets by name, at most one more than an answer may hold."""
        parameters = self._request.parameters
        rows = self._read("assets").select("key.*", "user_map_key.*", "user_map_value.*")
        rows = rows.toDF(*COLUMNS, *rows.columns[len(COLUMNS) :]).select(*COLUMNS)
        here = sql.split("bucket", "#")[0].isin([str(each) for each in metas])
        rows = rows.where(here).where(sql.col("name") > parameters.after)
        if parameters.asset is not None:
            rows = rows.where(sql.col("name") == parameters.asset)
        for row in self._decoded(rows.orderBy("name").limit(MOST_ROWS + 1)).toLocalIterator():
            yield self._id(row["bucket"]), row["name"], _asset(row["data"])

    def _decoded(self, rows: DataFrame) -> DataFrame:
        """Return rows with the kernel's assets as JSON: what it wrote, it alone can read."""
        if self._request.engine == "python":
            return rows
        self._spark.udf.registerJavaFunction(
            "asset_json", "tallyboard.kernel.AssetJson", StringType()
        )
        return rows.withColumn("data", sql.expr("asset_json(data)"))

    def _read(self, variable: str) -> DataFrame:
        return committed_state(self._spark, self._request.checkpoint, self._batch, variable)

    def _is_requested(self, bucket: BucketId) -> bool:
        parameters, partition = self._request.parameters, _partition(self._request)
        return bucket.scenario == parameters.scenario and partition in (None, bucket.partition)

    @staticmethod
    def _id(key: str) -> BucketId:
        return BucketId.parse(key)


def _partition(request: ReadRequest) -> int | None:
    """Return the one partition that is requested, or None for all."""
    parameters: ReadState = request.parameters
    if parameters.asset is not None:
        return partition_of(parameters.asset.encode(), request.partitions)
    return parameters.partition


def _asset(data: bytes | str) -> Asset:
    """Load an asset of either engine's state. The kernel's comes as a list of the same fields."""
    if isinstance(data, str):
        return load_asset(bytes([CODEC]) + msgspec.msgpack.encode(json.loads(data)))
    return load_asset(bytes(data))


def _bucket(bucket: BucketId, meta: _Meta) -> StoredBucket:
    return StoredBucket(bucket.partition, meta.clock, meta.offset, meta.live, json.loads(meta.rule))


def _stored(bucket: BucketId, name: str, asset: Asset, rule: Scenario) -> StoredAsset:
    stored = StoredAsset(
        partition=bucket.partition,
        asset=name,
        tallied=asset.state,
        state=asset.shown,
        previous=asset.previous,
        since=asset.since,
        unconfirmed=asset.unconfirmed is not None,
        offset=asset.offset,
        step=asset.step,
        changed=asset.changed,
        emitted_at=asset.emitted_at,
        votes=sorted(asset.votes.values(), key=lambda vote: vote.agent),
        pending=asset.pending(rule),
        override=asset.override,
        timers=_timers(asset, rule),
        answers=len(asset.answers),
        forget_at=asset.forget_at,
        unconfirmed_reason=asset.unconfirmed,
        disputed=asset.disputed,
        waits=sorted(asset.waits.items()),
        purged_at=asset.purged_at,
        doubts=[asset.doubts[agent] for agent in sorted(asset.doubts)],
    )
    return stored if len(msgspec.json.encode(stored)) <= PART_BYTES else _slim(stored)


def _timers(asset: Asset, rule: Scenario) -> list[tuple[int, str, str]]:
    """Return time and type of each timer, and whose vote it is of."""
    own = Counter(all_timers(replace(asset, votes={}), rule))
    timers = [(timer, "") for timer in own.elements()]
    for agent, vote in asset.votes.items():
        with_vote = Counter(all_timers(replace(asset, votes={agent: vote}), rule))
        timers += [(timer, agent) for timer in (with_vote - own).elements()]
    return [(timer.time, timer.type, agent) for timer, agent in sorted(timers)]


def _slim(stored: StoredAsset) -> StoredAsset:
    """Return the asset without its votes' details, which alone can be too much for a record."""
    votes = [replace(vote, detail=None) for vote in stored.votes]
    return msgspec.structs.replace(stored, votes=votes)
