"""A pipeline's Delta table: each row once, days, small files, what readers see."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable

from streaming.pipelines import table_writer
from streaming.pipelines.declaration import Table
from streaming.pipelines.table_writer import HOUR_MS, READERS_H, TableProblem, TableWriter, day_of

TABLE = Table("invoices_table", keys=("invoice", "line"), keep_days=30)
NOON_MS = 1_795_435_200_000
DAY_MS = 24 * HOUR_MS


@dataclass
class Archive:
    """A table in a folder, and a writer of it at a time that the test sets."""

    folder: Path
    now: int = NOON_MS
    writers: list[TableWriter] = field(default_factory=list)

    def writer(self) -> TableWriter:
        """A new writer, as after a start of the process."""
        return TableWriter(str(self.folder), TABLE, lambda: self.now)

    def read(self) -> pa.Table:
        return DeltaTable(str(self.folder)).to_pyarrow_table()

    def keys(self) -> list[str]:
        rows = self.read().select(["invoice", "line"]).to_pylist()
        return sorted(f"{row['invoice']}/{row['line']}" for row in rows)

    def files(self) -> list[str]:
        return DeltaTable(str(self.folder)).file_uris()


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return Archive(tmp_path / "invoices")


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
    writer = archive.writer()
    writer.add(rows(1, 2))
    writer.add(rows(1, 2))
    archive.writer().add(rows(2, 3))
    assert archive.keys() == keys(1, 2, 3)


def test_an_empty_batch_makes_no_table(archive: Archive) -> None:
    archive.writer().add(rows())
    assert not archive.folder.exists()


def test_rows_are_divided_by_day(archive: Archive) -> None:
    archive.writer().add(pa.concat_tables([rows(1), rows(2, at=NOON_MS - DAY_MS)]))
    days = sorted(path.name for path in archive.folder.glob("day=*"))
    assert days == ["day=2026-11-22", "day=2026-11-23"]
    assert archive.keys() == keys(1, 2)


def test_a_row_of_another_day_is_another_row(archive: Archive) -> None:
    archive.writer().add(rows(1))
    archive.writer().add(rows(1, at=NOON_MS - DAY_MS))
    assert archive.keys() == sorted(keys(1) * 2)


def test_a_column_that_is_new_is_empty_in_old_rows(archive: Archive) -> None:
    archive.writer().add(rows(1))
    archive.writer().add(rows(2, till=7))
    tills = {row["invoice"]: row["till"] for row in archive.read().to_pylist()}
    assert tills == {"inv-1": None, "inv-2": 7}


def test_a_quote_in_a_day_stays_a_text(archive: Archive) -> None:
    odd = rows(1).set_column(3, "day", pa.array(["o'clock"] * 2))
    archive.writer().add(odd)
    archive.writer().add(odd)
    assert archive.keys() == keys(1)


# ---- small files --------------------------------------------------------------------------------


def test_small_files_of_a_day_that_is_over_become_one(archive: Archive) -> None:
    writer = archive.writer()
    for number in range(5):
        writer.add(rows(number))
    archive.now += DAY_MS
    writer.add(rows(9, at=archive.now))
    assert len(archive.files()) == 2
    assert archive.keys() == keys(0, 1, 2, 3, 4, 9)


def test_small_files_of_today_become_one_before_they_are_many(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_writer, "MOST_SMALL", 3)
    writer, most = archive.writer(), 0
    for number in range(12):
        writer.add(rows(number))
        most = max(most, len(archive.files()))
    assert most == 3
    assert archive.keys() == keys(*range(12))


def test_a_reader_that_has_begun_reads_on_for_a_day(archive: Archive) -> None:
    writer = archive.writer()
    for number in range(5):
        writer.add(rows(number))
    before = DeltaTable(str(archive.folder))
    archive.now += DAY_MS
    writer.add(rows(9, at=archive.now))
    assert len(set(before.file_uris()) & set(archive.files())) == 0
    assert pc.count_distinct(before.to_pyarrow_table()["invoice"]).as_py() == 5
    assert READERS_H == 24


def test_files_of_no_commit_are_deleted_once_they_are_old(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive.writer().add(rows(1))
    [kept] = archive.files()
    left = Path(kept).with_name("part-00000-of-a-killed-writer.snappy.parquet")
    left.write_bytes(Path(kept).read_bytes()[:100])
    assert archive.keys() == keys(1)
    archive.writer().add(rows(2))
    assert left.exists()
    monkeypatch.setattr(table_writer, "READERS_H", 0)
    archive.writer().add(rows(3))
    assert not left.exists()
    assert archive.keys() == keys(1, 2, 3)


def test_days_that_are_too_old_are_deleted(archive: Archive) -> None:
    archive.writer().add(rows(1, at=NOON_MS - 31 * DAY_MS))
    archive.writer().add(rows(2, at=NOON_MS - 30 * DAY_MS))
    assert archive.keys() == keys(2)


# ---- problems -----------------------------------------------------------------------------------


def test_a_table_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    writer = TableWriter(str(tmp_path / "file" / "x"), TABLE, lambda: NOON_MS)
    with pytest.raises(TableProblem, match=r"TableProblem: .*/file/x: "):
        writer.add(rows(1))


def test_rows_of_other_types_are_refused_and_leave_the_table_as_it_was(archive: Archive) -> None:
    archive.writer().add(rows(1))
    other = rows(2).set_column(1, "line", pa.array([["a"], ["b"]]))
    with pytest.raises(TableProblem):
        archive.writer().add(other)
    assert archive.keys() == keys(1)
