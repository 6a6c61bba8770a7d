"""Committed state as seeds: what an epoch begins with whose checkpoint is divided otherwise.

Spark fixes the number of state partitions for the life of a checkpoint. It can rewrite one offline,
but keeps the grouping keys, and ours hold the number: `bucket_key` puts a bucket where it belongs.
So the entries are read as they were committed, byte for byte, and written as files with which each
bucket begins under its new key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from domain.records import Mute
from streaming.state.buckets import BucketId, Engine
from streaming.state.restore import Head, framed
from streaming.state.storage import StoragePath

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession


class Seed(NamedTuple):
    """What a bucket begins with: a file below a folder, and the rule in force there, as JSON."""

    file: str
    rule: str


class _Head(NamedTuple):
    data: bytes
    rule: str


def committed_state(spark: SparkSession, checkpoint: str, batch: int, variable: str) -> DataFrame:
    """Return a variable of the state as a batch has committed it, with Spark's own columns."""
    reader = spark.read.format("statestore").option("stateVarName", variable)
    return reader.option("path", checkpoint).option("batchId", batch).load()


def write_seeds(
    spark: SparkSession, engine: Engine, checkpoint: StoragePath, batch: int, folder: StoragePath
) -> dict[str, Seed]:
    """Write the state that a batch has committed, a file for each bucket. Returns them by bucket.

    Raises OSError, and what Spark raises where it cannot read the state.
    """
    read = partial(committed_state, spark, str(checkpoint), batch)
    heads = _kernel_heads(read) if engine == "kernel" else _python_heads(read)
    names = {key: _file_name(key) for key in heads}
    with ExitStack() as stack:
        files = {key: stack.enter_context((folder / names[key]).filled()) for key in heads}
        for key, head in heads.items():
            files[key].write_bytes(framed(head.data))
        for variable in ("assets", "last"):
            _append(files, _entries(read(variable)))
    return {str(BucketId.parse(key)): Seed(names[key], head.rule) for key, head in heads.items()}


def _file_name(key: str) -> str:
    bucket = BucketId.parse(key)
    return f"{bucket.scenario}-{bucket.partition}.seed"


def _kernel_heads(read: Callable[[str], DataFrame]) -> dict[str, _Head]:
    rules = {row[0]: row[1] for row in _values(read("rule"))}
    return {row[0]: _Head(bytes(row[1]), rules[row[0]]) for row in _values(read("meta"))}


def _python_heads(read: Callable[[str], DataFrame]) -> dict[str, _Head]:
    mutes = {row[0]: row[1] for row in _values(read("mutes"))}
    heads = {}
    for row in read("meta").select("key.*", "value.*").collect():
        muted = msgspec.json.decode(mutes.get(row[0]) or "[]", type=list[Mute])
        head = Head(row.clock, row.offset, row.live, muted)
        heads[row[0]] = _Head(msgspec.json.encode(head), row.scenario)
    return heads


def _values(rows: DataFrame) -> list[Any]:
    return rows.select("key.*", "value.*").collect()


def _entries(rows: DataFrame) -> Iterator[tuple[str, str, bytes]]:
    """Yield grouping key, name and data of each entry; read bit by bit."""
    columns = rows.select("key.*", "user_map_key.*", "user_map_value.*")
    for row in columns.toLocalIterator(prefetchPartitions=True):
        yield row[0], row[1], row[2]


def _append(files: dict[str, Path], entries: Iterable[tuple[str, str, bytes]]) -> None:
    """Append a part of a seed to each file. Spark reads a bucket's entries one after another."""
    for key, of_bucket in groupby(entries, key=lambda entry: entry[0]):
        with files[key].open("ab") as file:
            for _, name, data in of_bucket:
                file.write(framed(name.encode()) + framed(bytes(data)))
    for path in files.values():
        with path.open("ab") as file:
            file.write(framed(None))
