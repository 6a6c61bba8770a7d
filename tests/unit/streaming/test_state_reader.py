"""The reader of committed state, while the query that commits it drops older batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException

from streaming.queries import state_reader
from streaming.queries.protocol import QueryRefused, ReadRequest
from streaming.queries.state_reader import ATTEMPTS
from streaming.state.storage import LocalPath
from wire.batch_query import ReadState

REQUEST = ReadRequest("1", ReadState("sites"), 1, "", "kernel", 1)


class Commits:
    """The commits of a checkpoint, of which a reader meets `dropped` that are gone by then."""

    def __init__(self, folder: Path, dropped: int) -> None:
        self.folder, self.left = folder / "commits", dropped
        self.folder.mkdir()
        self.read: list[int] = []
        self.commit(1)

    def commit(self, batch: int) -> None:
        for older in self.folder.iterdir():
            older.unlink()
        (self.folder / str(batch)).touch()

    def store(self, _spark: Any, _request: Any, batch: int) -> Commits:
        self.read.append(batch)
        return self

    def metas(self) -> dict[Any, Any]:
        if self.left:
            self.left -= 1
            self.commit(self.read[-1] + 1)
            raise PySparkException("no committed batch")
        return {}

    def assets(self, _metas: Any) -> Any:
        return iter(())


@pytest.fixture
def read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    def read(dropped: int) -> tuple[Commits, Any]:
        commits = Commits(tmp_path, dropped)
        monkeypatch.setattr(state_reader, "_Store", commits.store)
        return commits, lambda: state_reader._newest(None, LocalPath(tmp_path), REQUEST)  # type: ignore[arg-type]

    return read


@pytest.mark.parametrize("dropped", range(ATTEMPTS))
def test_the_newest_is_read_in_place_of_a_batch_that_was_dropped_meanwhile(read: Any, dropped: int):
    commits, newest = read(dropped)
    assert newest().checkpoint.batch == commits.read[-1] == dropped + 1


def test_it_is_refused_where_each_is_dropped_before_it_was_read(read: Any):
    _, newest = read(ATTEMPTS)
    with pytest.raises(QueryRefused, match="4 batches were dropped while they were read"):
        newest()


def test_a_batch_that_is_there_and_cannot_be_read_fails(read: Any, monkeypatch: pytest.MonkeyPatch):
    commits, newest = read(1)
    monkeypatch.setattr(commits, "commit", lambda _batch: None)
    with pytest.raises(PySparkException):
        newest()
    assert commits.read == [1]
