"""Snapshots that are written asset by asset, and files of emissions."""

from __future__ import annotations

import hashlib
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from domain.fold import Bucket
from domain.records import DeadLetter, Report
from support.histories.histories import seeded
from wire.asset import dump_asset
from wire.bucket_fold import FoldedRecord, read_emissions, record_of, write_emissions
from wire.sink import encode_headers
from wire.snapshot import (
    DamagedSnapshot,
    Emitted,
    SnapshotWriter,
    dump_snapshot,
    load_snapshot,
    open_snapshot,
)


def folded(seed: int) -> tuple[Bucket, dict[str, Emitted]]:
    """The fold of a history, and the last emission of each asset."""
    history, last = seeded(seed, most=80), dict[str, Emitted]()
    bucket = Bucket(history.scenario, 0, 1)
    for entry in history.entries:
        for emission in bucket.apply(entry.record, entry.offset, entry.time):
            if not isinstance(emission, DeadLetter):
                last[emission.asset] = emission
    return bucket, last


@pytest.mark.parametrize("seed", range(12))
def test_a_snapshot_written_asset_by_asset_holds_the_same(seed: int, tmp_path: Path) -> None:
    bucket, last = folded(seed)
    writer = SnapshotWriter(tmp_path / "a.fold")
    for name in sorted(bucket.assets):
        writer.add_asset(name, msgspec.msgpack.decode(dump_asset(bucket.assets[name])[1:]))
    for name in sorted(last):
        record = record_of(bucket.scenario.name, last[name], 1)
        value = None if record.value is None else record.value.encode()
        headers = encode_headers(last[name]) if value is None else ()
        writer.add_last(name, value, headers)
    digest = writer.end(bucket)
    data = (tmp_path / "a.fold").read_bytes()
    assert digest == hashlib.sha256(data).hexdigest()
    assert [path.name for path in tmp_path.iterdir()] == ["a.fold"]
    again, emitted = load_snapshot(data, 1)
    assert dump_snapshot(again, emitted) == dump_snapshot(bucket, last)
    assert list(again.mutes.values()) == [bucket.mutes[name] for name in sorted(bucket.mutes)]


@pytest.mark.parametrize("seed", range(12))
def test_an_opened_snapshot_is_the_loaded_one(seed: int) -> None:
    bucket, last = folded(seed)
    opened, emitted = open_snapshot(dump_snapshot(bucket, last), 1)
    assert dump_snapshot(opened, emitted) == dump_snapshot(bucket, last)
    assert dict(opened.assets) == dict(bucket.assets)
    assert dict(emitted) == load_snapshot(dump_snapshot(bucket, last), 1)[1]
    for damaged in (b"", b"\x92\xc4\x00\x90", dump_snapshot(bucket, last)[:-1]):
        with pytest.raises(DamagedSnapshot):
            open_snapshot(damaged, 1)


def test_an_opened_snapshot_takes_a_third_of_the_memory() -> None:
    bucket = Bucket(seeded(1).scenario, 0, 1)
    state = bucket.scenario.states[0].name
    for number in range(3_000):
        for agent in ("waf-0", "waf-1", "waf-2"):
            bucket.apply(Report(f"site-{number}.example", agent, state), number, 1_000)
    data = dump_snapshot(bucket, {})
    loaded = memory_of(lambda: load_snapshot(data, 1))
    opened = memory_of(lambda: open_snapshot(data, 1))
    assert opened < loaded / 3


def memory_of(read: Callable[[], object]) -> int:
    """The bytes that what it returns takes."""
    tracemalloc.start()
    try:
        held = read()
        return tracemalloc.get_traced_memory()[0] if held else 0
    finally:
        tracemalloc.stop()


def test_files_of_emissions_are_read_as_one_in_order(tmp_path: Path) -> None:
    records = [
        FoldedRecord(scenario, asset, offset, step, f'"{offset}"', {}, restored)
        for scenario in ("a", "b")
        for asset in ("x", "é", "\U0001f600")
        for offset, step, restored in ((1, 0, True), (1, 2, False), (10, 0, False))
    ]
    for number in range(3):
        own = [each for each in records if len(each.asset.encode()) % 3 == number]
        write_emissions(tmp_path / f"{number}.gz", own)
    assert list(read_emissions(sorted(tmp_path.iterdir()))) == records
    purge = FoldedRecord("a", "x", 3, 0, None, {"version": "1.3.0"})
    write_emissions(tmp_path / "purge", [purge])
    assert list(read_emissions([tmp_path / "purge"])) == [purge]
