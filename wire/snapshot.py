"""A snapshot of a bucket's fold as bytes: the bucket, and each asset's last emission."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import msgspec

from domain.fold import Bucket
from domain.records import StateRecord, Tombstone
from wire.asset import UnreadableAsset, dump_bucket, load_bucket
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


def load_fold(data: bytes, epoch: int) -> Bucket:
    """Return only the bucket written by `dump_snapshot`: half the work. Raises DamagedSnapshot."""
    try:
        fields, _ = msgspec.msgpack.decode(data, type=tuple[bytes, msgspec.Raw])
        return load_bucket(fields, epoch)
    except ValueError as error:  # the others are ValueErrors
        raise DamagedSnapshot(str(error)) from None
