"""The Parquet files of a Delta table, as Spark's tasks write them and look rows up in them.

They do so in Python's workers of the executors, with delta-rs's own way to the files, so that the
driver and they reach the same places by the same URL and credentials. What a task returns is small:
the names of files, and keys.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote
from uuid import uuid4

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow.fs import FileSystem
    from pyspark.sql.types import StructType

# A file of a table, below it; of one that was written also its stats, JSON as Delta's log has them.
FILE = "path string, day string"
WRITTEN = f"{FILE}, bytes long, rows long, stats string"

Batches = Iterable["pa.RecordBatch"]
Step = Callable[[Batches], Iterator["pa.RecordBatch"]]


class Span(NamedTuple):
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
            told = {"path": path, "day": value, "bytes": size, "rows": own.num_rows}
            yield pa.RecordBatch.from_pylist([{**told, "stats": _stats(own, time)}])

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


def reading(url: str, columns: StructType, day: str, span: Span) -> Step:
    """Return a step that takes files, each a `path` and a `day`, and yields the columns of those
    of their rows whose time lies in the span."""

    def read(batches: Batches) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        import pyarrow.parquet as pq
        from pyspark.sql.pandas.types import to_arrow_schema

        files, wanted = _files(url), to_arrow_schema(columns, timezone="UTC")
        names = [name for name in columns.names if name != day]
        within = [(span.column, ">=", span.first), (span.column, "<=", span.last)]
        for file in (row for batch in batches for row in batch.to_pylist()):
            with files.open_input_file(file["path"]) as opened:
                rows = pq.read_table(opened, columns=names, filters=within)
            own = rows.append_column(day, pa.array([file["day"]] * rows.num_rows, pa.string()))
            yield from own.select(columns.names).cast(wanted).to_batches()

    return read


def unseen_files(url: str, written: Sequence[tuple[str, int]]) -> list[str]:
    """Return which of the files that tasks wrote, by path and bytes, are not so from here."""
    files = _files(url)
    return [path for path, size in written if files.get_file_info(path).size != size]


def _files(url: str) -> FileSystem:
    from deltalake.fs import DeltaStorageHandler
    from pyarrow.fs import PyFileSystem

    return PyFileSystem(DeltaStorageHandler(url))
