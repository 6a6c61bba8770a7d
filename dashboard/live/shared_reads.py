"""One reading of the board for all sockets that request the same page at the same time.

After a restart all browsers of a shift come back together, and most show the same.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any, NamedTuple

import msgspec

from dashboard.live.database_threads import READERS, per_loop, read_in_thread
from dashboard.live.entries import Offsets
from dashboard.live.page_filter import Filter, Order, Page
from dashboard.live.shared_live_view import live_view
from dashboard.live.snapshots import Read, read
from dashboard.states.board_rows import Row
from domain.scenario import Scenario

Key = tuple[str, Page]


class Snapshot(NamedTuple):
    """A page as a socket is sent it and has to know it. body: the message, but for its end."""

    rows: list[Row]
    more: bool
    stopped: Order | None
    offsets: Offsets
    body: bytes

    @classmethod
    def of(cls, snapshot: Read) -> Snapshot:
        """Return the snapshot of what was read; the message is made once for all."""
        merged = snapshot.merged
        beside = {"marks": snapshot.marks, "acknowledged": snapshot.held.counts}
        body = {"type": "snapshot", **merged._asdict(), **beside}
        body["stopped"] = merged.stopped is not None
        more = merged.next is not None
        return cls(merged.rows, more, merged.stopped, snapshot.offsets, msgspec.json.encode(body))

    def message(self, **rest: Any) -> bytes:
        """Return the whole message of one socket."""
        return self.body[:-1] + b"," + msgspec.json.encode(rest)[1:]


class SharedReads:
    """The shared readings for the sockets of one event loop."""

    def __init__(self) -> None:
        self._readers = asyncio.Semaphore(READERS)
        self._waiting: dict[Key, asyncio.Task[Snapshot]] = {}

    async def snapshot(self, scenario: Scenario, wanted: Filter) -> Snapshot:
        """Return the page as it is at some moment after this call. Raises DatabaseError."""
        key = (scenario.name, wanted.page())
        if key not in self._waiting:
            self._waiting[key] = asyncio.create_task(self._read(key, scenario, wanted))
        return await asyncio.shield(self._waiting[key])

    async def _read(self, key: Key, scenario: Scenario, wanted: Filter) -> Snapshot:
        async with self._readers:
            del self._waiting[key]  # who asks from here on wants what is newer
            return await read_in_thread(partial(_snapshot, scenario, wanted))


def _snapshot(scenario: Scenario, wanted: Filter) -> Snapshot:
    return Snapshot.of(read(scenario, wanted, live_view().overlay(scenario.name)))


shared_reads = per_loop(SharedReads)
