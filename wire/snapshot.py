"""A snapshot of a bucket's fold as bytes: the bucket, and each asset's last emission."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import msgspec

from domain.fold import Bucket
from domain.records import StateRecord, Tombstone
from wire.asset import UnreadableAsset, bucket_frame, dump_bucket, load_bucket, open_bucket
from wire.sink import decode_state, encode_headers, encode_state

Emitted = StateRecord | Tombstone

# A snapshot's file in the snapshots' folder; empty: none.
FileName = Annotated[str, msgspec.Meta(pattern=r"\A([A-Za-z0-9_-][A-Za-z0-9._-]{0,199})?\Z")]


class DamagedSnapshot(Exception):
    """A snapshot's file is missing, or is not what was written."""


def dump_snapshot(bucket: Bucket, last: Mapping[str, Emitted]) -> bytes:
    """Return a bucket and the last emission of each asset, as bytes."""
    emitted = [
        [
            asset,
            encode_state(record) if isinstance(record, StateRecord) else None,
            encode_headers(record),
        ]
        for asset, record in sorted(last.items())
    ]
    return msgspec.msgpack.encode([dump_bucket(bucket), emitted])


class SnapshotWriter:
    """Writes a snapshot asset by asset, so that a bucket's assets need not be in memory.

    What it writes is what `dump_snapshot` returns, but for the form of its lengths.
    """

    def __init__(self, path: Path) -> None:
        """path: of the file, beside which there are two more until the end."""
        self._path = path
        self._parts = {part: path.with_suffix(f".{part}") for part in ("assets", "last")}
        self._files = {part: file.open("wb") for part, file in self._parts.items()}
        self._counts = dict.fromkeys(self._parts, 0)

    def add_asset(self, name: str, fields: Any) -> None:
        """Write an asset's state, in order of the names. fields: as wire/asset.py has them."""
        self._add("assets", [name, fields])

    def add_last(
        self, name: str, value: bytes | None, headers: Iterable[tuple[str, bytes]]
    ) -> None:
        """Write the last emission of an asset, in order of the names."""
        self._add("last", [name, value, list(headers)])

    def _add(self, part: str, item: Any) -> None:
        self._files[part].write(msgspec.msgpack.encode(item))
        self._counts[part] += 1

    def end(self, bucket: Bucket) -> str:
        """Write the file and return its SHA-256. bucket: without its assets. Raises OSError."""
        for file in self._files.values():
            file.close()
        head, tail = bucket_frame(bucket)
        size = len(head) + _HEADER + self._parts["assets"].stat().st_size + len(tail)
        digest = hashlib.sha256()
        with self._path.open("wb") as out:
            self._put(out, digest, b"\x92\xc6" + size.to_bytes(4, "big") + head)
            self._copy(out, digest, "assets")
            self._put(out, digest, tail)
            self._copy(out, digest, "last")
            out.flush()
            os.fsync(out.fileno())
        return digest.hexdigest()

    @staticmethod
    def _put(out: BinaryIO, digest: Any, data: bytes) -> None:
        out.write(data)
        digest.update(data)

    def _copy(self, out: BinaryIO, digest: Any, part: str) -> None:
        """Write a part as an array, and delete its file."""
        self._put(out, digest, b"\xdd" + self._counts[part].to_bytes(4, "big"))
        with self._parts[part].open("rb") as file:
            while data := file.read(1 << 20):
                self._put(out, digest, data)
        self._parts[part].unlink()


# Bytes of an array's header, as it is written here.
_HEADER = 5


def load_snapshot(data: bytes, epoch: int) -> tuple[Bucket, dict[str, Emitted]]:
    """Return what `dump_snapshot` wrote, to continue in `epoch`. Raises DamagedSnapshot.

    Emissions keep their original epoch.
    """
    try:
        fields, emitted = msgspec.msgpack.decode(data)
        bucket = load_bucket(fields, epoch)
        last = {
            asset: decode_state(asset.encode(), value, headers) for asset, value, headers in emitted
        }
    except (TypeError, ValueError, UnreadableAsset) as error:  # the others are ValueErrors
        raise DamagedSnapshot(str(error)) from None
    return bucket, last


class PackedEmissions(Mapping[str, Emitted]):
    """The last emission of each asset as bytes: each is unpacked when it is asked for."""

    def __init__(self, entries: Iterable[msgspec.Raw]) -> None:
        """entries: as `dump_snapshot` has them."""
        decode = msgspec.msgpack.Decoder(tuple[str, msgspec.Raw, msgspec.Raw]).decode
        self._packed = {asset: rest for asset, *rest in map(decode, entries)}

    def __getitem__(self, asset: str) -> Emitted:
        value, headers = map(msgspec.msgpack.decode, self._packed[asset])
        return decode_state(asset.encode(), value, headers)

    def __iter__(self) -> Iterator[str]:
        return iter(self._packed)

    def __len__(self) -> int:
        return len(self._packed)


def open_snapshot(data: bytes, epoch: int) -> tuple[Bucket, Mapping[str, Emitted]]:
    """Return what `load_snapshot` does, to be copied: a third of the memory, and no timers.

    Raises DamagedSnapshot.
    """
    try:
        fields, emitted = msgspec.msgpack.decode(data, type=tuple[bytes, list[msgspec.Raw]])
        return open_bucket(fields, epoch), PackedEmissions(emitted)
    except (TypeError, ValueError, UnreadableAsset) as error:  # the others are ValueErrors
        raise DamagedSnapshot(str(error)) from None


def load_fold(data: bytes, epoch: int) -> Bucket:
    """Return only the bucket written by `dump_snapshot`: half the work. Raises DamagedSnapshot."""
    try:
        fields, _ = msgspec.msgpack.decode(data, type=tuple[bytes, msgspec.Raw])
        return load_bucket(fields, epoch)
    except ValueError as error:  # the others are ValueErrors
        raise DamagedSnapshot(str(error)) from None
