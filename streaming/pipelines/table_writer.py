"""The sink of a pipeline that writes a Delta table: batches of rows, each row once.

A commit of Delta shows all files of a batch or none, so no reader sees half of one, whatever was
killed when; what a killed writer left behind belongs to no commit, and is deleted after a while. A
row that is there by its keys is not written again: so a batch that is done again, a source record
that came twice, and a reset that reads the whole log again all leave the table as it was.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from streaming.pipelines.declaration import Table

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable
    from pyspark.sql import DataFrame

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


class TableWriter:
    """Writes the batches of one query."""

    def __init__(self, url: str, table: Table, clock: Callable[[], int]) -> None:
        """clock: returns Unix ms."""
        self._url, self._declared, self._clock = url, table, clock
        self._tidied_at: int | None = None

    def write(self, batch: DataFrame, _number: int) -> None:
        """Add a batch. Raises TableProblem."""
        self.add(batch.dropDuplicates(list(self._declared.keys)).toArrow())

    def add(self, rows: pa.Table) -> None:
        """Add the rows that the table does not have yet, and put small files together.

        rows: each of them once. Raises TableProblem.
        """
        try:
            if rows.num_rows:
                self._merge(rows)
            self._tidy()
        except Exception as error:  # Delta's own are of no common class
            raise TableProblem(f"TableProblem: {self._url}: {error}") from error

    def _open(self, rows: pa.Table | None = None) -> DeltaTable:
        # Takes a while to load, and few pipelines write tables.
        from deltalake import DeltaTable, Schema

        if rows is None or DeltaTable.is_deltatable(self._url):
            return DeltaTable(self._url)
        return DeltaTable.create(
            self._url,
            schema=Schema.from_arrow(rows.schema),
            mode="ignore",
            partition_by=[self._declared.day],
        )

    def _merge(self, rows: pa.Table) -> None:
        there = self._predicate(rows)
        merge = self._open(rows).merge(
            rows, there, source_alias="new", target_alias="old", merge_schema=True
        )
        done = merge.when_not_matched_insert_all().execute()
        if known := rows.num_rows - done["num_target_rows_inserted"]:
            log.info("%s: %d rows were there already", self._url, known)

    def _predicate(self, rows: pa.Table) -> str:
        """Return when a new row is one that is there. The bounds spare reading other files."""
        import pyarrow.compute as pc

        day, time = self._declared.day, self._declared.time
        days = ", ".join(_quoted(each) for each in sorted(pc.unique(rows[day]).to_pylist()))
        edges = pc.min_max(rows[time]).as_py()
        same = [f"old.{name} = new.{name}" for name in (day, *self._declared.keys)]
        bounds = f"old.{time} >= {edges['min']} and old.{time} <= {edges['max']}"
        return " and ".join([f"old.{day} in ({days})", bounds, *same])

    # ---- files ----------------------------------------------------------------------------------

    def _tidy(self) -> None:
        """Put small files together; now and then delete what is too old or of no commit."""
        from deltalake import DeltaTable

        if not DeltaTable.is_deltatable(self._url):
            return
        now, table = self._clock(), self._open()
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


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
