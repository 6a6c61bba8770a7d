"""Places in a log by time: single records are looked up, however long it is."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from bus.base import Bus, TopicPartition, Unavailable

PATIENCE_S = 15.0


class Times:
    """The append times of records of some partitions."""

    def __init__(self, bus: Bus) -> None:
        self._reader = bus.reader({})

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _e: BaseException | None, _tb: TracebackType | None
    ) -> None:
        self._reader.close()

    def at(self, place: TopicPartition, offset: int) -> int:
        """Return the time (Unix ms) of the first record at or after an offset.

        Raises Unavailable.
        """
        self._reader.assign({place: offset})
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            for message in self._reader.poll(0.5, 1):
                return message.timestamp
        raise Unavailable(f"{place[0]}/{place[1]}: offset {offset} cannot be read")

    def first_since(self, place: TopicPartition, begin: int, end: int, since: int) -> int:
        """Return the first offset of [begin, end) whose record is not before `since`, else `end`.

        since: Unix ms. Raises Unavailable.
        """
        while begin < end:
            middle = (begin + end) // 2
            if self.at(place, middle) < since:
                begin = middle + 1
            else:
                end = middle
        return begin
