"""A table on disk: an SQLite file per partition, with the position in the same transaction.

RocksDB (`rocksdict`) and LMDB (`lmdb`) were considered. SQLite is already available and has what is
needed: assets and position change together or not at all, an index lists the active assets by name,
and a file holds one partition, which is the unit that a server gives up.
"""

from __future__ import annotations

import heapq
import sqlite3
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Lock, local

import msgspec

from stores.base import Change, KeptAsset
from stores.transformation import Transformation

FORMAT = 2
"""Incremented when the transformation or the columns change; older files are rebuilt from the
log."""
STALE_S = 6 * 86_400.0
"""A file not written for this long may lack tombstones that the log has since dropped."""

_SCHEMA = """
PRAGMA journal_mode = WAL;
CREATE TABLE assets (
    name TEXT PRIMARY KEY, version TEXT NOT NULL, active INTEGER NOT NULL,
    purged_at INTEGER, value BLOB
) WITHOUT ROWID;
CREATE INDEX active_assets ON assets (name) WHERE active;
CREATE INDEX purged_assets ON assets (purged_at) WHERE purged_at IS NOT NULL;
CREATE TABLE place (position INTEGER NOT NULL, active INTEGER NOT NULL);
INSERT INTO place VALUES (0, 0);
"""
_UPSERT = """
INSERT INTO assets VALUES (?, ?, ?, ?, ?)
ON CONFLICT (name) DO UPDATE SET version = excluded.version, active = excluded.active,
    purged_at = excluded.purged_at, value = excluded.value
"""
_encode = msgspec.json.Encoder().encode


class DiskTable:
    """Assets of a scenario in files of a folder.

    Can be shared among threads: each has its own connections.
    """

    def __init__(self, folder: Path, kept: Transformation) -> None:
        self._folder, self._name = folder, kept.scenario
        self._decode = msgspec.json.Decoder(kept.kept).decode
        self._lock = Lock()
        self._level: set[int] = set()
        self._as_of: dict[int, int] = {}
        self._connections = local()
        self._opened: list[sqlite3.Connection] = []
        folder.mkdir(parents=True, exist_ok=True)
        for partition in self._partitions():
            if not _usable(self._file(partition)):
                _delete(self._file(partition))

    def apply(
        self,
        partition: int,
        changes: Sequence[Change],
        start: int,  # noqa: ARG002 - nobody else moves it
        position: int,
    ) -> None:
        """Apply changes and the position in one transaction."""
        newest: dict[str, Change] = {}
        for change in changes:
            if change.key not in newest or change.version > newest[change.key].version:
                newest[change.key] = change
        with self._transaction(partition) as connection:
            moved = 0
            kept = _kept(connection, list(newest))
            rows = []
            for change in newest.values():
                version, active = kept.get(change.key, ("", 0))
                if change.version > version:
                    rows.append(_row(change))
                    moved += rows[-1][2] - active
            connection.executemany(_UPSERT, rows)
            update = "UPDATE place SET position = ?, active = active + ?"
            connection.execute(update, (position, moved))

    def begin(self, partition: int, position: int) -> None:
        """Set the position of a partition that is not known yet."""
        if partition not in self.positions():
            with self._transaction(partition) as connection:
                connection.execute("UPDATE place SET position = ?", (position,))

    def get(self, partition: int, key: str) -> KeptAsset | None:
        """Return an asset, or None."""
        rows = self._rows(partition, "SELECT value FROM assets WHERE name = ?", key)
        return self._decode(rows[0][0]) if rows and rows[0][0] is not None else None

    def active(self, partitions: Collection[int], after: str, limit: int) -> list[KeptAsset]:
        """Return the first `limit` active assets after `after`, by name."""
        query = "SELECT value FROM assets WHERE active AND name > ? ORDER BY name LIMIT ?"
        shares: list[list[KeptAsset]] = [
            [self._decode(value) for (value,) in self._rows(at, query, after, limit)]
            for at in partitions
        ]
        return list(heapq.merge(*shares, key=lambda asset: asset.name))[:limit]

    def count(self, partitions: Collection[int]) -> int:
        """Return the number of active assets in these partitions."""
        return sum(n for at in partitions for (n,) in self._rows(at, "SELECT active FROM place"))

    def positions(self) -> dict[int, int]:
        """Return the next offset to read for each partition in the table."""
        return {
            at: position
            for at in self._partitions()
            for (position,) in self._rows(at, "SELECT position FROM place")
        }

    def log(self) -> str:
        """Return the id of the topic that the positions are of, "" where unknown."""
        file = self._folder / f"{self._name}.log-id"
        return file.read_text() if file.exists() else ""

    def set_log(self, log: str) -> None:
        """Record the id of the topic."""
        draft = self._folder / f"{self._name}.draft-id"
        draft.write_text(log)
        draft.replace(self._folder / f"{self._name}.log-id")

    def level(self) -> set[int]:
        """Return the partitions that have reached the end of the log."""
        with self._lock:
            return set(self._level)

    def set_level(self, partition: int, reached: bool) -> None:
        """Set whether a partition has reached the end of the log."""
        with self._lock:
            (self._level.add if reached else self._level.discard)(partition)

    def as_of(self) -> dict[int, int]:
        """Return when each partition last had everything in the log, Unix ms, where known."""
        with self._lock:
            return dict(self._as_of)

    def set_as_of(self, partitions: Collection[int], at: int) -> None:
        """Record that these partitions had everything in the log at a time (Unix ms)."""
        with self._lock:
            self._as_of |= dict.fromkeys(partitions, at)

    def drop(self, partition: int) -> None:
        """Forget a partition."""
        self.set_level(partition, False)
        with self._lock:
            self._as_of.pop(partition, None)
        with self._transaction(partition) as connection:
            connection.execute("DELETE FROM assets")
            connection.execute("DELETE FROM place")

    def prune(self, before: int) -> None:
        """Forget assets that were purged before this time (Unix ms)."""
        for partition in self._partitions():
            with self._transaction(partition) as connection:
                connection.execute("DELETE FROM assets WHERE purged_at < ?", (before,))

    def close(self) -> None:
        """Close the connections of all threads, none of which may use them any more."""
        with self._lock:
            for connection in self._opened:
                connection.close()
            self._opened.clear()

    def _partitions(self) -> list[int]:
        files = self._folder.glob(f"{self._name}-*.sqlite3")
        numbers = [file.stem.removeprefix(f"{self._name}-") for file in files]
        return sorted(int(number) for number in numbers if number.isdecimal())

    def _rows(self, partition: int, question: str, *values: object) -> list[tuple]:
        if not self._file(partition).exists():
            return []
        return self._connection(partition).execute(question, values).fetchall()

    @contextmanager
    def _transaction(self, partition: int) -> Iterator[sqlite3.Connection]:
        connection = self._connection(partition)
        with connection:
            connection.execute("BEGIN IMMEDIATE")
            if not connection.execute("SELECT 1 FROM place").fetchone():
                connection.execute("INSERT INTO place VALUES (0, 0)")
            yield connection

    def _connection(self, partition: int) -> sqlite3.Connection:
        """Return this thread's connection to a partition's file, creating the file if needed."""
        known: dict[int, sqlite3.Connection] = self._connections.__dict__.setdefault("known", {})
        if partition not in known:
            file = self._file(partition)
            if not file.exists():
                _create(file)
            known[partition] = sqlite3.connect(
                file, timeout=10, isolation_level=None, check_same_thread=False
            )
            # What a machine crash loses is read from the log again; a process crash loses nothing.
            known[partition].execute("PRAGMA synchronous = NORMAL")
            with self._lock:
                self._opened.append(known[partition])
        return known[partition]

    def _file(self, partition: int) -> Path:
        return self._folder / f"{self._name}-{partition}.sqlite3"


def _create(file: Path) -> None:
    """Create a partition's file completely before giving it its name."""
    draft = file.with_suffix(".draft")
    _delete(draft)
    with closing(sqlite3.connect(draft)) as connection:
        connection.executescript(_SCHEMA)
        connection.execute(f"PRAGMA user_version = {FORMAT}")
    draft.replace(file)


def _usable(file: Path) -> bool:
    if time.time() - max(each.stat().st_mtime for each in _parts(file)) > STALE_S:
        return False
    try:
        with closing(sqlite3.connect(file)) as connection:
            return bool(connection.execute("PRAGMA user_version").fetchone()[0] == FORMAT)
    except sqlite3.DatabaseError:
        return False


def _parts(file: Path) -> list[Path]:
    names = (file, Path(f"{file}-wal"), Path(f"{file}-shm"))
    return [each for each in names if each.exists()]


def _delete(file: Path) -> None:
    for part in _parts(file):
        part.unlink()


def _kept(connection: sqlite3.Connection, names: list[str]) -> dict[str, tuple[str, int]]:
    """Return version and activity of those of these assets that are known."""
    question = (
        "SELECT name, version, active FROM assets WHERE name IN (SELECT value FROM json_each(?))"
    )
    rows = connection.execute(question, (msgspec.json.encode(names).decode(),))
    return {name: (version, active) for name, version, active in rows}


def _row(change: Change) -> tuple[str, str, int, int | None, bytes | None]:
    asset = change.asset
    if asset is None:
        return (change.key, change.version, 0, change.at, None)
    return (change.key, change.version, int(asset.active), None, _encode(asset))
