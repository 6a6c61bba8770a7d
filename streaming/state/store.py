"""A bucket's assets and timers over Spark's state: read once, written once per batch."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, MutableMapping
from typing import Protocol

from domain.asset import Asset, next_timer
from domain.scenario import Scenario
from domain.timer_index import TimerHeap
from wire.asset import dump_asset, load_asset

SLOT = 1000
# Assets are entered under the second in which their next timer fires, ms.

# A gap of more slots than this is crossed by listing the slots that exist.
PROBES = 4096


class Map(Protocol):
    """What is used of Spark's MapState: keys and values are tuples."""

    def getValue(self, key: tuple) -> tuple | None: ...  # noqa: N802
    def updateValue(self, key: tuple, value: tuple) -> None: ...  # noqa: N802
    def removeKey(self, key: tuple) -> None: ...  # noqa: N802
    def keys(self) -> Iterator[tuple]: ...


class BucketAssets(MutableMapping[str, Asset]):
    """The assets of a bucket. Each is read at its first use and written by `flush`, if changed.

    An entry of the state is (asset as bytes, slot of its next timer or an earlier one, or None).
    """

    def __init__(self, entries: Map) -> None:
        self._entries = entries
        self._assets: dict[str, Asset | None] = {}
        self._stored: dict[str, bytes] = {}
        self._changed: set[str] = set()
        self.slots: dict[str, int | None] = {}

    def __getitem__(self, name: str) -> Asset:
        asset = self._assets[name] if name in self._assets else self._read(name)
        if asset is None:
            raise KeyError(name)
        return asset

    def get(self, name: str, default: Asset | None = None) -> Asset | None:  # type: ignore[override]
        """Return the asset, or the default."""
        asset = self._assets[name] if name in self._assets else self._read(name)
        return default if asset is None else asset

    def __setitem__(self, name: str, asset: Asset) -> None:
        if name not in self._assets:
            self._read(name)
        self._assets[name] = asset
        self._changed.add(name)

    def __delitem__(self, name: str) -> None:
        self[name]
        self._assets[name] = None
        self._changed.add(name)

    def __iter__(self) -> Iterator[str]:
        stored = [name for (name,) in list(self._entries.keys())]
        unseen = [name for name in stored if name not in self._assets]
        yield from [name for name, asset in self._assets.items() if asset is not None]
        yield from unseen

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _read(self, name: str) -> Asset | None:
        entry = self._entries.getValue((name,))
        asset = None
        self.slots[name] = None
        if entry is not None:
            self._stored[name], self.slots[name] = bytes(entry[0]), entry[1]
            asset = load_asset(self._stored[name])
        self._assets[name] = asset
        return asset

    def move(self, name: str, slot: int | None) -> None:
        """Enter the asset under another slot."""
        self.slots[name] = slot
        self._changed.add(name)

    def flush(self) -> None:
        """Write what has changed."""
        for name in self._changed:
            asset = self._assets[name]
            if asset is not None:
                self._entries.updateValue((name,), (dump_asset(asset), self.slots[name]))
            elif name in self._stored:
                self._entries.removeKey((name,))


class TimerStore:
    """The timer index of a bucket: in memory those of this batch, in the state all by the second.

    An entry of the state is slot -> names of assets, as JSON: an asset is entered in the slot of
    its next timer or an earlier one, so that a timer that only moves away costs no write. A slot
    is read when the clock reaches it; an asset whose timer fires later is entered again.
    """

    def __init__(self, entries: Map, assets: BucketAssets, slot: int, waiting: int) -> None:
        """slot: the first that has not been passed; waiting: assets entered so far."""
        self._entries, self._assets = entries, assets
        self._batch = TimerHeap()
        self._times: dict[str, int | None] = {}
        self._read: dict[int, set[str]] = {}
        self._next = slot
        self._slot = slot
        self._waiting = waiting
        self.scenario: Callable[[], Scenario] | None = None

    def set(self, asset: str, time: int | None) -> None:
        """Set when the next timer of `asset` fires, ms; None: it has no timer."""
        self._times[asset] = time
        self._batch.set(asset, time)

    def pop(self, upto: int) -> tuple[int, str] | None:
        """Remove and return the earliest (time, asset) at or before `upto` ms, or None."""
        if upto // SLOT >= self._next:
            self._reach(upto // SLOT)
        return self._batch.pop(upto)

    def __len__(self) -> int:
        """Return the number of assets that had a timer after the last flush."""
        return self._waiting

    def _reach(self, slot: int) -> None:
        for number in self._slots_until(slot):
            entry = self._entries.getValue((number,))
            if entry is not None:
                self._read[number] = set(json.loads(entry[0]))
                self._recall(number)
        self._next = slot + 1

    def _slots_until(self, slot: int) -> list[int] | range:
        if slot - self._next < PROBES:
            return range(self._next, slot + 1)
        return sorted(n for (n,) in list(self._entries.keys()) if self._next <= n <= slot)

    def _recall(self, number: int) -> None:
        """Put the assets entered in a slot into the index of this batch."""
        assert self.scenario is not None
        rule = self.scenario()
        for name in self._read[number]:
            if name in self._times:
                continue
            asset = self._assets.get(name)
            if asset is not None and self._assets.slots[name] == number:
                timer = next_timer(asset, rule)
                self.set(name, timer.time if timer else None)

    def flush(self, clock: int) -> tuple[int, int]:
        """Enter the timers that fire later; call it before the assets are written.

        Returns the first slot not yet passed and the number of assets entered.
        """
        current = max(clock // SLOT, self._slot)
        fresh: dict[int, list[str]] = {}
        for name, time in self._times.items():
            self._enter(name, time, current, fresh)
        for slot, names in fresh.items():
            self._append(slot, names)
        for slot in self._read:
            if slot < current:
                self._entries.removeKey((slot,))
        return current, self._waiting

    def _enter(
        self, name: str, time: int | None, current: int, fresh: dict[int, list[str]]
    ) -> None:
        entered = self._assets.slots.get(name)
        slot = None if time is None else max(time // SLOT, current)
        if slot is not None and entered is not None and current <= entered <= slot:
            return
        if slot == entered:
            return
        if slot is not None:
            fresh.setdefault(slot, []).append(name)
        self._waiting += (slot is not None) - (entered is not None)
        self._assets.move(name, slot)

    def _append(self, slot: int, names: list[str]) -> None:
        known = self._read.get(slot)
        if known is None:
            entry = self._entries.getValue((slot,))
            known = set(json.loads(entry[0])) if entry is not None else set()
        self._entries.updateValue((slot,), (json.dumps(sorted(known.union(names))),))
