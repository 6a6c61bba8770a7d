"""A pipeline's Delta table, as Spark's tasks write it: rows, days, small files, readers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, Schema
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from streaming.pipelines import table_writer
from streaming.pipelines.declaration import OutputTable
from streaming.pipelines.table_writer import (
    HOUR_MS,
    READERS_H,
    TableProblem,
    TableWriter,
    day_of,
    writing,
)

pytestmark = [pytest.mark.timeout(300), pytest.mark.slow]

TABLE = OutputTable("invoices_table", keys=("invoice", "line"), keep_days=30)
NOON_MS = 1_795_435_200_000
DAY_MS = 24 * HOUR_MS


@dataclass
class Archive:
    """A table in a folder, and a writer of it at a time that the test sets."""

    spark: SparkSession
    folder: Path
    now: int = NOON_MS
    tasks: int = 1

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Have a new writer, as after a start of the process."""
        self._writer = TableWriter(str(self.folder), TABLE, lambda: self.now, self.tasks)

    def add(self, rows: pa.Table) -> None:
        self.write(self.spark.createDataFrame(rows))

    def write(self, batch: DataFrame) -> None:
        self._writer.write(batch, 0)

    def read(self) -> pa.Table:
        return DeltaTable(str(self.folder)).to_pyarrow_table()

    def keys(self) -> list[str]:
        rows = self.read().select(["invoice", "line"]).to_pylist()
        return sorted(f"{row['invoice']}/{row['line']}" for row in rows)

    def files(self) -> list[str]:
        return DeltaTable(str(self.folder)).file_uris()


@pytest.fixture
def archive(spark: SparkSession, tmp_path: Path) -> Archive:
    return Archive(spark, tmp_path / "invoices")


def rows(*invoices: int, at: int = NOON_MS, **more: Any) -> pa.Table:
    """Two lines of each invoice."""
    return pa.Table.from_pylist(
        [
            {"invoice": f"inv-{n}", "line": line, "at": at + n, "day": day_of(at + n), **more}
            for n in invoices
            for line in (1, 2)
        ]
    )


def keys(*invoices: int) -> list[str]:
    return sorted(f"inv-{n}/{line}" for n in invoices for line in (1, 2))


def test_a_row_that_is_there_is_not_written_again_whoever_writes(archive: Archive) -> None:
    archive.add(rows(1, 2))
    archive.add(rows(1, 2))
    archive.restart()
    archive.add(pa.concat_tables([rows(2, 3), rows(3)]))
    assert archive.keys() == keys(1, 2, 3)


def test_tasks_write_the_files_of_a_batch(archive: Archive) -> None:
    archive.tasks = 3
    archive.restart()
    archive.add(rows(*range(30)))
    assert sorted(Path(file).name[:11] for file in archive.files()) == [
        "part-00000-", "part-00001-", "part-00002-",
    ]  # fmt: skip
    assert archive.keys() == keys(*range(30))


def test_an_empty_batch_makes_no_table(archive: Archive) -> None:
    archive.write(archive.spark.createDataFrame(rows(1)).where("line > 2"))
    assert not archive.folder.exists()


def test_a_table_that_was_made_and_never_written_takes_rows(archive: Archive) -> None:
    schema = Schema.from_arrow(rows(1).schema)
    DeltaTable.create(str(archive.folder), schema, partition_by=["day"])
    archive.add(rows(1))
    assert archive.keys() == keys(1)


def test_rows_are_divided_by_day(archive: Archive) -> None:
    archive.add(pa.concat_tables([rows(1), rows(2, at=NOON_MS - DAY_MS)]))
    days = sorted(path.name for path in archive.folder.glob("day=*"))
    assert days == ["day=2026-11-22", "day=2026-11-23"]
    assert archive.keys() == keys(1, 2)


def test_a_row_of_another_day_is_another_row(archive: Archive) -> None:
    archive.add(rows(1))
    archive.add(pa.concat_tables([rows(1), rows(1, at=NOON_MS - DAY_MS)]))
    assert archive.keys() == sorted(keys(1) * 2)


def test_a_column_that_is_new_is_empty_in_old_rows(archive: Archive) -> None:
    archive.add(rows(1))
    archive.add(rows(2, till=7))
    archive.add(rows(3))
    tills = {row["invoice"]: row["till"] for row in archive.read().to_pylist()}
    assert tills == {"inv-1": None, "inv-2": 7, "inv-3": None}


def test_a_quote_in_a_day_stays_a_text(archive: Archive) -> None:
    odd = rows(1).set_column(3, "day", pa.array(["o'clock/1 %"] * 2))
    archive.add(odd)
    archive.add(odd)
    assert archive.keys() == keys(1)


def test_a_batch_is_not_committed_onto_a_commit_that_it_has_not_read(archive: Archive) -> None:
    archive.add(rows(1))

    def rival() -> int:
        """Have another writer add the rows of the batch, right before it is committed."""
        if archive.keys() == keys(1):
            archive.add(rows(2))
        return NOON_MS

    writer, batch = TableWriter(str(archive.folder), TABLE, rival), rows(2)
    with pytest.raises(TableProblem, match="Failed to commit"):
        writer.write(archive.spark.createDataFrame(batch), 0)
    writer.write(archive.spark.createDataFrame(batch), 0)
    assert archive.keys() == keys(1, 2)


# ---- small files --------------------------------------------------------------------------------


def test_small_files_of_a_day_that_is_over_become_one(archive: Archive) -> None:
    for number in range(3):
        archive.add(rows(number))
    archive.now += DAY_MS
    archive.add(rows(9, at=archive.now))
    assert len(archive.files()) == 2
    archive.add(rows(2, 9, at=archive.now))
    archive.add(rows(0, 1, 2))
    assert archive.keys() == sorted([*keys(0, 1, 2, 9), *keys(2)])


def test_small_files_of_today_become_one_before_they_are_many(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_writer, "MOST_SMALL", 3)
    most = 0
    for number in range(6):
        archive.add(rows(number))
        most = max(most, len(archive.files()))
    assert most == 3
    assert archive.keys() == keys(*range(6))


def test_a_reader_that_has_begun_reads_on_for_a_day(archive: Archive) -> None:
    for number in range(3):
        archive.add(rows(number))
    before = DeltaTable(str(archive.folder))
    archive.now += DAY_MS
    archive.add(rows(9, at=archive.now))
    assert len(set(before.file_uris()) & set(archive.files())) == 0
    assert pc.count_distinct(before.to_pyarrow_table()["invoice"]).as_py() == 3
    assert READERS_H == 24


def test_files_of_no_commit_are_deleted_once_they_are_old(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive.add(rows(1))
    [kept] = archive.files()
    left = Path(kept).with_name("part-00000-of-a-killed-writer.snappy.parquet")
    left.write_bytes(Path(kept).read_bytes())
    assert archive.keys() == keys(1)
    archive.restart()
    archive.add(rows(2))
    assert left.exists()
    monkeypatch.setattr(table_writer, "READERS_H", 0)
    archive.restart()
    archive.add(rows(3))
    assert not left.exists()
    assert archive.keys() == keys(1, 2, 3)


def test_days_that_are_too_old_are_deleted(archive: Archive) -> None:
    archive.add(rows(1, at=NOON_MS - 31 * DAY_MS))
    archive.restart()
    archive.add(rows(2, at=NOON_MS - 30 * DAY_MS))
    assert archive.keys() == keys(2)


# ---- problems -----------------------------------------------------------------------------------


def test_a_table_that_cannot_be_written_is_named(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(TableProblem, match=r"TableProblem: .*/file/x: "):
        Archive(spark, tmp_path / "file" / "x").add(rows(1))


def test_records_that_cannot_be_read_are_no_problem_of_the_table(archive: Archive) -> None:
    broken = archive.spark.createDataFrame(rows(1)).withColumn("x", sql.raise_error(sql.lit("?")))
    with pytest.raises(PySparkException) as raised:
        archive.write(broken)
    assert "TableProblem" not in str(raised.value)


def test_files_that_are_somewhere_else_are_not_committed(
    archive: Archive, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As where executors of other machines write to a path of their own."""
    archive.add(rows(1))
    elsewhere = tmp_path / "of another machine"
    elsewhere.mkdir()
    monkeypatch.setattr(table_writer, "writing", lambda _, *more: writing(str(elsewhere), *more))
    with pytest.raises(TableProblem, match="expected a place that the driver and all executors"):
        archive.add(rows(2))
    assert archive.keys() == keys(1)


def test_rows_of_other_types_are_refused_and_leave_the_table_as_it_was(archive: Archive) -> None:
    archive.add(rows(1))
    other = rows(2).set_column(1, "line", pa.array([["a"], ["b"]]))
    with pytest.raises(TableProblem):
        archive.add(other)
    assert archive.keys() == keys(1)
