"""A bucket's assets and dues over Spark's state: read once, written once per batch."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, MutableMapping
from typing import Protocol

from domain.asset import Asset, next_due
from domain.dues import Dues
from domain.scenario import Scenario
from wire.asset import dump_asset, load_asset

SLOT = 1000
"""Assets are noted down for the second in which something is due, ms."""

PROBES = 4096
"""A gap of more slots than this is crossed by listing the slots that exist."""


class Map(Protocol):
    """What is used of Spark's MapState: keys and values are tuples."""

    def getValue(self, key: tuple) -> tuple | None: ...  # noqa: N802
    def updateValue(self, key: tuple, value: tuple) -> None: ...  # noqa: N802
    def removeKey(self, key: tuple) -> None: ...  # noqa: N802
    def keys(self) -> Iterator[tuple]: ...


class AssetStore(MutableMapping[str, Asset]):
    """The assets of a bucket. Each is read at its first use and written by `flush`, if changed.

    An entry of the state is (asset as bytes, slot in which it is noted down as due, or None).
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
        """The asset, or the default."""
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
        """Note that the asset is now noted down in another slot."""
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


class DueStore:
    """The dues of a bucket: those of this batch in order, the others by the second in the state.

    An entry of the state is slot -> names of assets, as JSON: an asset is noted down in the
    slot of its next due or an earlier one, so that a due that only moves away costs no write. A
    slot is read when the clock reaches it; what turns out to be due later is noted down anew.
    """

    def __init__(self, entries: Map, assets: AssetStore, slot: int, waiting: int) -> None:
        """slot: the first that has not been passed; waiting: assets noted down so far."""
        self._entries, self._assets = entries, assets
        self._exact = Dues()
        self._due: dict[str, int | None] = {}
        self._read: dict[int, set[str]] = {}
        self._next = slot
        self._slot = slot
        self._waiting = waiting
        self.scenario: Callable[[], Scenario] | None = None

    def set(self, asset: str, due: int | None) -> None:
        """From now on `asset` has something due at `due` ms, or nothing."""
        self._due[asset] = due
        self._exact.set(asset, due)

    def pop(self, upto: int) -> tuple[int, str] | None:
        """Take out the earliest (due, asset) that is due at or before `upto` ms."""
        if upto // SLOT >= self._next:
            self._reach(upto // SLOT)
        return self._exact.pop(upto)

    def __len__(self) -> int:
        """Assets that had something due after the last flush."""
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
        """Put the assets noted down in a slot into the order of this batch."""
        assert self.scenario is not None
        rule = self.scenario()
        for name in self._read[number]:
            if name in self._due:
                continue
            asset = self._assets.get(name)
            if asset is not None and self._assets.slots[name] == number:
                due = next_due(asset, rule)
                self.set(name, due.time if due else None)

    def flush(self, clock: int) -> tuple[int, int]:
        """Note down what is due later; call it before the assets are written.

        Returns the first slot not yet passed and the number of assets noted down.
        """
        current = max(clock // SLOT, self._slot)
        fresh: dict[int, list[str]] = {}
        for name, due in self._due.items():
            self._note(name, due, current, fresh)
        for slot, names in fresh.items():
            self._append(slot, names)
        for slot in self._read:
            if slot < current:
                self._entries.removeKey((slot,))
        return current, self._waiting

    def _note(self, name: str, due: int | None, current: int, fresh: dict[int, list[str]]) -> None:
        noted = self._assets.slots.get(name)
        wanted = None if due is None else max(due // SLOT, current)
        if wanted is not None and noted is not None and current <= noted <= wanted:
            return
        if wanted == noted:
            return
        if wanted is not None:
            fresh.setdefault(wanted, []).append(name)
        self._waiting += (wanted is not None) - (noted is not None)
        self._assets.move(name, wanted)

    def _append(self, slot: int, names: list[str]) -> None:
        known = self._read.get(slot)
        if known is None:
            entry = self._entries.getValue((slot,))
            known = set(json.loads(entry[0])) if entry is not None else set()
        self._entries.updateValue((slot,), (json.dumps(sorted(known.union(names))),))
