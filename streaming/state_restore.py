"""How the Python engine begins in mid-log: a bucket's seed, and what is held back meanwhile."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol

from domain.asset import next_timer
from domain.scenario import Scenario
from streaming.initial_state import Head, pack, read_initial_state, unpack
from streaming.state_store import SLOT, AssetStore, Map, TimerStore
from wire.asset import load_asset

# A record's value and headers.
Record = tuple[bytes | None, list[tuple[str, bytes]]]


class Listed(Map, Protocol):
    """What is used of Spark's MapState where its entries are gone through."""

    def iterator(self) -> Iterator[tuple[tuple, tuple]]: ...
    def clear(self) -> None: ...


class RestoredState(NamedTuple):
    """What a bucket begins with; slot, waiting: see TimerStore."""

    head: Head
    slot: int
    waiting: int


def restore_state(
    path: str, assets: Map, timers: Map, last: Map, scenario: Scenario
) -> RestoredState:
    """Put a seed into a bucket's empty state."""
    head, entries, emitted = read_initial_state(path)
    store = AssetStore(assets)
    index = TimerStore(timers, store, head.clock // SLOT, 0)
    for name, data in entries:
        asset = load_asset(data)
        store[name] = asset
        timer = next_timer(asset, scenario)
        index.set(name, timer.time if timer else None)
    slot, waiting = index.flush(head.clock)
    store.flush()
    for name, record in emitted:
        last.updateValue((name,), (record,))
    return RestoredState(head, slot, waiting)


class SuppressedOutput:
    """The last record of each asset, while the log is read up to where readers have been before.

    They would see the past otherwise: versions of a later epoch are the higher ones.
    """

    def __init__(self, entries: Listed, upto: int) -> None:
        """upto: the last offset whose records are held back, -1 for none."""
        self._entries, self._upto = entries, upto
        self._fresh: dict[str, bytes] = {}

    def covers(self, offset: int) -> bool:
        """Return whether what the record at this offset causes is held back."""
        return offset <= self._upto

    def put(self, name: str, value: bytes | None, headers: Iterable[tuple[str, bytes]]) -> None:
        """Hold a record back, in place of the asset's one before."""
        self._fresh[name] = pack(value, headers)

    def before(self, offset: int, reached: int) -> Iterator[tuple[str, Record]]:
        """Return what is to be emitted before the record at `offset`, the one after `reached`."""
        if not reached <= self._upto < offset:
            return
        self.flush()
        for (name,), (data,) in list(self._entries.iterator()):
            yield name, unpack(bytes(data))
        self._entries.clear()

    def flush(self) -> None:
        """Write what has been held back since."""
        for name, data in self._fresh.items():
            self._entries.updateValue((name,), (data,))
        self._fresh = {}
