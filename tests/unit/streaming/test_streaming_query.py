"""How a driver waits for the end of a query, with Spark played."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from streaming.fold.query import watch


class Query:
    """Spark's query, played. end: when it ends; error: what ends it."""

    lastProgress = {"batchId": 7, "numInputRows": 400_000}  # noqa: N815, Spark's name

    def __init__(self, error: Exception | None = None) -> None:
        self.end = threading.Event()
        self._error = error

    def awaitTermination(self) -> None:  # noqa: N802, Spark's name
        self.end.wait(10)
        if self._error is not None:
            raise self._error


def test_the_last_batch_of_a_query_that_ends_is_reported() -> None:
    query, reported = Query(), list[dict[str, Any]]()
    query.end.set()
    watch(query, lambda: False, reported.append)  # type: ignore[arg-type]
    assert reported == [Query.lastProgress]


def test_what_ended_a_query_is_raised() -> None:
    query, reported = Query(OSError("the disk is full")), list[dict[str, Any]]()
    query.end.set()
    with pytest.raises(OSError, match="the disk is full"):
        watch(query, lambda: False, reported.append)  # type: ignore[arg-type]
    assert not reported


def test_a_query_that_goes_on_is_left_when_it_is_due_to_end() -> None:
    query, looks = Query(), iter([False, True])
    reported: list[dict[str, Any]] = []
    watch(query, lambda: next(looks), reported.append)  # type: ignore[arg-type]
    assert reported == [Query.lastProgress]
    query.end.set()
