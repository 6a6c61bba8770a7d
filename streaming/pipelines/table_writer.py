"""Tables written as files, each batch once."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote, unquote
from uuid import uuid4

from pyspark.sql import functions as sql

from streaming.pipelines.declaration import OutputTable

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable, Schema
    from deltalake.transaction import AddAction
    from pyarrow.fs import FileSystem
    from pyspark.sql import DataFrame, Row
    from pyspark.sql.types import StructField, StructType


# ---- table files ---------------------------------------------------------------------------------
# The Parquet files of a Delta table, as Spark's tasks write them and look rows up in them.
#
# They do so in Python's workers of the executors, with delta-rs's own way to the files, so that the
# driver and they reach the same places by the same URL and credentials. What a task returns is
# small: the names of files, and keys.

# A file of a table, below it; of one that was written also its stats, JSON as Delta's log has them.
FILE = "path string, day string"
WRITTEN = f"{FILE}, bytes long, rows long, stats string"

Batches = Iterable["pa.RecordBatch"]
Step = Callable[[Batches], Iterator["pa.RecordBatch"]]


class TimeRange(NamedTuple):
    """The column of times and its least and greatest value, ms."""

    column: str
    first: int
    last: int


def writing(url: str, day: str, time: str) -> Step:
    """Return a step that writes the rows of a task, a file for each day, and yields WRITTEN.

    A file belongs to the table once a commit names it: that of a task that failed never does.
    """

    def write(batches: Batches) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        import pyarrow.compute as pc

        if not (parts := [each for each in batches if each.num_rows]):
            return
        files, rows = _files(url), pa.Table.from_batches(parts)
        for value in pc.unique(rows[day]).to_pylist():
            own = rows.filter(pc.equal(rows[day], value)).drop_columns([day])
            path = f"{day}={quote(value, safe='')}/part-{_task():05}-{uuid4()}.snappy.parquet"
            size = _write(files, path, own)
            file = {"path": path, "day": value, "bytes": size, "rows": own.num_rows}
            yield pa.RecordBatch.from_pylist([{**file, "stats": _stats(own, time)}])

    return write


def _write(files: FileSystem, path: str, rows: pa.Table) -> int:
    """Write a file; return its bytes."""
    import pyarrow.parquet as pq

    with files.open_output_stream(path) as out:
        pq.write_table(rows, out)
    return int(files.get_file_info(path).size)


def _task() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    return context.partitionId() if context else 0


def _stats(rows: pa.Table, time: str) -> str:
    """Return what spares readers a file: of the times, by which rows are looked up."""
    import pyarrow.compute as pc

    edges = pc.min_max(rows[time]).as_py()
    return json.dumps({
        "numRecords": rows.num_rows,
        "minValues": {time: edges["min"]},
        "maxValues": {time: edges["max"]},
        "nullCount": {time: 0},
    })  # fmt: skip


def reading(url: str, columns: StructType, day: str, span: TimeRange) -> Step:
    """Return a step that takes files, each a `path` and a `day`, and yields the columns of those
    of their rows whose time lies in the span."""

    def read(batches: Batches) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        import pyarrow.parquet as pq
        from pyspark.sql.pandas.types import to_arrow_schema

        files, schema = _files(url), to_arrow_schema(columns, timezone="UTC")
        names = [name for name in columns.names if name != day]
        within = [(span.column, ">=", span.first), (span.column, "<=", span.last)]
        for file in (row for batch in batches for row in batch.to_pylist()):
            with files.open_input_file(file["path"]) as opened:
                rows = pq.read_table(opened, columns=names, filters=within)
            own = rows.append_column(day, pa.array([file["day"]] * rows.num_rows, pa.string()))
            yield from own.select(columns.names).cast(schema).to_batches()

    return read


def unseen_files(url: str, written: Sequence[tuple[str, int]]) -> list[str]:
    """Return which of the files that tasks wrote, by path and bytes, are not so from here."""
    files = _files(url)
    return [path for path, size in written if files.get_file_info(path).size != size]


def _files(url: str) -> FileSystem:
    from deltalake.fs import DeltaStorageHandler
    from pyarrow.fs import PyFileSystem

    return PyFileSystem(DeltaStorageHandler(url))


# ---- table writer --------------------------------------------------------------------------------
# The sink of a pipeline that writes a Delta table: batches of rows, each row once.
#
# Spark's tasks write the files of a batch (above), and the driver commits their names. A
# commit of Delta shows all files of a batch or none, so no reader sees half of one, whatever was
# killed when; what a killed writer left behind belongs to no commit, and is deleted after a while.
# A row that is there by its keys is not written again: so a batch that is done again, a source
# record that came twice, and a reset that reads the whole log again all leave the table as it was.
# Which rows are there is read from the newest commit, and a batch is committed onto that one or not
# at all.

log = logging.getLogger("streaming.pipelines.table_writer")

HOUR_MS = 3_600_000
# Small files are put together up to this size; two below half of it always fit into one.
FILE_BYTES = 100 << 20
# So many small files a day may gather before they are put together at once.
MOST_SMALL = 50
# How often days that are over are looked at, and what nobody reads any more is deleted.
TIDY_EVERY_MS = HOUR_MS
# How long a reader may go on reading the files of a commit that a later one has replaced.
READERS_H = 24


class TableProblem(Exception):
    """A table that could not be written; the message names it."""


class Extent(NamedTuple):
    """What a batch holds: how many rows, of which days, of which times."""

    rows: int
    days: Sequence[str]
    span: TimeRange


class TableWriter:
    """Writes the batches of one query."""

    def __init__(
        self, url: str, table: OutputTable, clock: Callable[[], int], tasks: int = 1
    ) -> None:
        """clock: returns Unix ms; tasks: how many write the files of a batch."""
        self._url, self._declared, self._clock, self._tasks = url, table, clock, tasks
        self._identity = [table.day, *table.keys]
        self._tidied_at: int | None = None

    def write(self, batch: DataFrame, _number: int) -> None:
        """Add the rows of a batch that the table does not have yet, and put small files together.

        Raises TableProblem.
        """
        rows = batch.repartition(self._tasks, *self._identity).dropDuplicates(self._identity)
        kept = rows.persist()  # else its records were read from the log, and counted, twice
        try:
            extent = self._extent(kept)  # what fails in here is not the table's fault
            self._add(kept, extent)
        finally:
            kept.unpersist()

    def _add(self, rows: DataFrame, extent: Extent) -> None:
        try:
            if extent.rows:
                self._commit(rows, extent)
            self._tidy()
        except Exception as error:  # Delta's own are of no common class
            raise TableProblem(f"TableProblem: {self._url}: {error}") from error

    def _extent(self, rows: DataFrame) -> Extent:
        day, time = self._declared.day, self._declared.time
        columns = sql.count("*"), sql.collect_set(day), sql.min(time), sql.max(time)
        number, days, first, last = rows.agg(*columns).collect()[0]
        return Extent(number, days, TimeRange(time, first, last))

    def _commit(self, rows: DataFrame, extent: Extent) -> None:
        from deltalake import CommitProperties

        table = self._open(rows.schema)
        fresh = self._without_known(table, _typed_as(table, rows), extent)
        files = self._written(table, fresh)
        if files:
            table.create_write_transaction(
                [self._action(file) for file in files],
                mode="append",
                schema=table.schema(),
                partition_by=[self._declared.day],
                # A commit of somebody else's may have these rows too: then all is done again.
                commit_properties=CommitProperties(max_commit_retries=0),
            )
        if known := extent.rows - sum(file["rows"] for file in files):
            log.info("%s: %d rows were there already", self._url, known)

    def _written(self, table: DeltaTable, rows: DataFrame) -> list[Row]:
        """Have Spark's tasks write rows; return their files. Raises TableProblem where the driver
        does not see them."""
        write = writing(table.table_uri, self._declared.day, self._declared.time)
        files = rows.mapInArrow(write, WRITTEN).collect()
        sizes = [(file["path"], file["bytes"]) for file in files]
        if unseen := unseen_files(table.table_uri, sizes):
            raise TableProblem(
                f"{unseen[0]}: expected a place that the driver and all executors share"
            )
        return files

    def _open(self, schema: StructType) -> DeltaTable:
        """Return the table with all columns of a schema; it is made where it is missing."""
        # Takes a while to load, and few pipelines write tables.
        from deltalake import DeltaTable

        if not DeltaTable.is_deltatable(self._url):
            days = [self._declared.day]
            fields = _delta_schema(list(schema))
            return DeltaTable.create(self._url, fields, mode="ignore", partition_by=days)
        table = DeltaTable(self._url)
        there = {field.name for field in table.schema().fields}
        if new := [field for field in schema if field.name not in there]:
            table.alter.add_columns(_delta_schema(new).fields)
        return table

    def _without_known(self, table: DeltaTable, rows: DataFrame, extent: Extent) -> DataFrame:
        """Return the rows that no file has, by day and keys."""
        files = self._files_within(table, extent)
        if not files:
            return rows
        columns = rows.select(*self._identity).schema
        read = reading(table.table_uri, columns, self._declared.day, extent.span)
        listed = rows.sparkSession.createDataFrame(files, FILE).repartition(self._tasks)
        known = listed.mapInArrow(read, columns)
        return rows.join(known.hint("merge"), self._identity, "left_anti")

    def _files_within(self, table: DeltaTable, extent: Extent) -> list[tuple[str, str]]:
        """Return path and day of each file that may have a row of the extent."""
        files, (column, first, last) = table.get_add_actions(flatten=True), extent.span
        names = "path", f"partition.{self._declared.day}", f"min.{column}", f"max.{column}"
        columns = [files[name].to_pylist() for name in names]
        return [
            (unquote(path), day)
            for path, day, least, most in zip(*columns, strict=True)
            if day in extent.days and (least is None or (least <= last and most >= first))
        ]

    def _action(self, file: Row) -> AddAction:
        from deltalake.transaction import AddAction

        day = {self._declared.day: file["day"]}
        return AddAction(
            file["path"], file["bytes"], day, self._clock(), data_change=True, stats=file["stats"]
        )

    # ---- files ----------------------------------------------------------------------------------

    def _tidy(self) -> None:
        """Put small files together; now and then delete what is too old or of no commit."""
        from deltalake import DeltaTable

        if not DeltaTable.is_deltatable(self._url):
            return
        now, table = self._clock(), DeltaTable(self._url)
        due = self._tidied_at is None or now - self._tidied_at >= TIDY_EVERY_MS
        for day, number in self._small_files(table).items():
            if number > MOST_SMALL or (due and number > 1 and day < day_of(now)):
                log.info("%s: %d small files of %s become one", self._url, number, day)
                only = [(self._declared.day, "=", day)]
                table.optimize.compact(partition_filters=only, target_size=FILE_BYTES)
        if due:
            self._delete_old(table, day_of(now - self._declared.keep_days * 24 * HOUR_MS))
            self._tidied_at = now

    def _small_files(self, table: DeltaTable) -> Counter[str]:
        """Return how many small files each day has."""
        files = table.get_add_actions(flatten=True)
        days, sizes = files[f"partition.{self._declared.day}"], files["size_bytes"]
        pairs = zip(days.to_pylist(), sizes.to_pylist(), strict=True)
        return Counter(day for day, size in pairs if size < FILE_BYTES // 2)

    def _delete_old(self, table: DeltaTable, first: str) -> None:
        """Delete the days before `first`, and files that no commit has named for READERS_H."""
        column = self._declared.day
        days = table.get_add_actions(flatten=True)[f"partition.{column}"].to_pylist()
        if any(day < first for day in days):
            table.delete(f"{column} < {_quoted(first)}")
        table.vacuum(READERS_H, dry_run=False, enforce_retention_duration=False, full=True)


def day_of(time: int) -> str:
    """Return the UTC day of a time, Unix ms, as 2026-11-23."""
    return (datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=time)).strftime("%Y-%m-%d")


def _delta_schema(fields: Sequence[StructField]) -> Schema:
    """Return Spark's columns as Delta's, any of which may be empty."""
    from deltalake import Schema
    from pyspark.sql.types import StructField, StructType

    return Schema.from_json(StructType([StructField(f.name, f.dataType) for f in fields]).json())


def _typed_as(table: DeltaTable, rows: DataFrame) -> DataFrame:
    """Return rows with the table's types. Raises Spark's errors where they have no such values."""
    from pyspark.sql.types import StructType

    there = StructType.fromJson(json.loads(table.schema().to_json()))
    own = [field for field in there if field.name in rows.columns]
    return rows.select(*[rows[field.name].cast(field.dataType) for field in own])


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
