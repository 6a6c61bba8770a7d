"""A log folded by a process of its own: what it is asked, what it answers, the files it writes.

Requests and answers are lines on the process's standard input and output. The first line is a
FoldOrder; each line after it asks to fold on to the log's present end (ON), or to save snapshots of
the fold after it has folded on once (SAVE), and is answered with FoldProgress, then with Folded,
Saved or FoldFailed.
"""

from __future__ import annotations

import gzip
import heapq
from collections.abc import Iterable, Iterator
from dataclasses import replace
from operator import attrgetter
from pathlib import Path

import msgspec

from domain.bounds import Bound
from domain.quarantine import QuarantinedRange
from domain.records import StateRecord, Tombstone
from wire.sink import encode_headers, encode_state
from wire.snapshot import FileName

# ---- requests and answers ------------------------------------------------------------------------


class FoldStart(msgspec.Struct, frozen=True):
    """How a bucket's fold begins, and on which terms it goes on.

    offset: of the first record that is read; snapshot: the file of the state there, empty for none;
    digest: its SHA-256; bounds, asides: see domain/bounds.py and domain/quarantine.py.
    """

    offset: int = 0
    snapshot: FileName = ""
    digest: str = ""
    bounds: list[Bound] = []
    asides: list[QuarantinedRange] = []


class FoldOrder(msgspec.Struct, frozen=True):
    """Fold the logs of some buckets.

    folder: where the files go; snapshots: the folder of the snapshots; epoch: of the versions;
    partitions: of each scenario's source topic; buckets: by name, `attack/0`.
    """

    folder: str
    snapshots: str
    epoch: int
    partitions: dict[str, int]
    buckets: dict[str, FoldStart]


class FoldProgress(msgspec.Struct, frozen=True, tag="progress"):
    """How many records have been read, of how many."""

    done: int
    of: int


class Folded(msgspec.Struct, frozen=True, tag="folded"):
    """The log is folded up to `ends`, the next offset by bucket.

    records: how many were read; files: those of the emissions, each in order.
    """

    ends: dict[str, int]
    records: int
    files: list[str]


class SavedSnapshot(msgspec.Struct, frozen=True):
    """A snapshot of a bucket's fold. file: below the folder of the snapshots; digest: its SHA-256;
    next_offset: of the first record after it; clock: Unix ms; assets: how many exist."""

    bucket: str
    file: FileName
    digest: str
    next_offset: int
    clock: int
    assets: int


class Saved(msgspec.Struct, frozen=True, tag="saved"):
    """Snapshots of the fold as it stood after the first answer."""

    snapshots: list[SavedSnapshot]


class FoldFailed(msgspec.Struct, frozen=True, tag="failed"):
    """The log cannot be folded. why: in words."""

    why: str


FoldAnswer = FoldProgress | Folded | Saved | FoldFailed

# What is asked, line by line, after the order.
ON, SAVE = b"on\n", b"save\n"


# ---- emissions -----------------------------------------------------------------------------------


class FoldedRecord(msgspec.Struct, frozen=True, gc=False):
    """A record that the fold emitted for a states topic.

    offset, step: of its version; value: its JSON, None for a purge; headers: of a purge alone;
    restored: whether the snapshot held it at which the fold began.
    """

    scenario: str
    asset: str
    offset: int
    step: int
    value: str | None = None
    headers: dict[str, str] = {}
    restored: bool = False

    @property
    def place(self) -> tuple[int, int]:
        """Return its version without the epoch."""
        return self.offset, self.step


def record_of(
    scenario: str, emission: StateRecord | Tombstone, epoch: int, *, restored: bool = False
) -> FoldedRecord:
    """Return an emission of the fold, in this epoch."""
    version = emission.version._replace(epoch=epoch)
    place = scenario, emission.asset, version.offset, version.step
    emission = replace(emission, version=version)
    if isinstance(emission, StateRecord):
        return FoldedRecord(*place, encode_state(emission).decode(), restored=restored)
    headers = {name: data.decode() for name, data in encode_headers(emission)}
    return FoldedRecord(*place, None, headers, restored)


def write_emissions(path: Path, records: Iterable[FoldedRecord]) -> None:
    """Write records, which are in order of scenario, asset, offset and step."""
    encode = msgspec.json.Encoder().encode
    with gzip.open(path, "wb", compresslevel=1) as file:
        for record in records:
            file.write(encode(record) + b"\n")


def read_emissions(paths: Iterable[str | Path]) -> Iterator[FoldedRecord]:
    """Yield the records of files as one, in order of scenario, asset, offset and step.

    A record of each file is in memory, however long they are.
    """
    order = attrgetter("scenario", "asset", "offset", "step")
    return heapq.merge(*map(_records, paths), key=order)


def _records(path: str | Path) -> Iterator[FoldedRecord]:
    decode = msgspec.json.Decoder(FoldedRecord).decode
    with gzip.open(path, "rb") as file:
        yield from map(decode, file)
