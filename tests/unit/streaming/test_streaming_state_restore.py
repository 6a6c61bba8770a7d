"""A bucket that begins in mid-log from a seed, or is silent up to where readers have been."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.tws_tester import TwsTester

from domain.fold import Bucket
from domain.records import DeadLetter, StateRecord
from streaming.fold.epochs import EpochStart
from streaming.fold.plan import Plan
from streaming.fold.processor import TallyProcessor, _load_headers
from streaming.fold.rules import dump_rule
from streaming.state.restore import pack, unpack, write_initial_state
from support.histories.batch_feed import BUCKET, feed, row
from support.histories.histories import History, seeded
from wire.sink import encode_headers, encode_state
from wire.source import decode_placed

EPOCH = 4
EmittedRecord = tuple[str, bytes | None, tuple[tuple[str, bytes], ...]]


def folded(
    history: History, upto: int | None = None
) -> tuple[Bucket, dict[str, Any], list[EmittedRecord]]:
    """The plain fold of a history's first records: what it last emitted, and all it emitted."""
    bucket = Bucket(history.scenario, 0, EPOCH)
    last, emissions = {}, []
    for one in map(row, history.entries[:upto]):
        record = decode_placed(one.key, one.value, one.time, 0, 1)
        for out in bucket.apply(record, one.offset, one.time):
            if not isinstance(out, DeadLetter):
                last[out.asset] = out
                value = encode_state(out) if isinstance(out, StateRecord) else None
                emissions.append((out.asset, value, encode_headers(out)))
    return bucket, last, emissions


def states(rows: list[dict[str, Any]]) -> list[EmittedRecord]:
    """The records of the states topic among what was emitted."""
    return [
        (r["key"].decode(), r["value"], _load_headers(r["headers"]))
        for r in rows
        if r["topic"] == "watch.states"
    ]


def by_asset(emissions: list[EmittedRecord]) -> dict[str, list[EmittedRecord]]:
    """The records of each asset in order: a change of rule goes through the assets in any."""
    return {
        name: [one for one in emissions if one[0] == name] for name in {one[0] for one in emissions}
    }


def processor(history: History, start: EpochStart, rule: str) -> TwsTester:
    plan = Plan("", EPOCH, {"watch": 1}, {BUCKET: rule}, start)
    return TwsTester(TallyProcessor(plan))


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.spread(4)
def test_a_seeded_bucket_goes_on_as_the_fold(tmp_path: Path, seed: int) -> None:
    history = seeded(seed)
    half = len(history.entries) // 2
    bucket, last, before = folded(history, half)
    write_initial_state(tmp_path / "seed", bucket, last, "python", EPOCH)
    start = EpochStart(
        seeds={"watch/0": str(tmp_path / "seed")},
        quiet={"watch/0": history.entries[half - 1].offset},
    )
    spark = processor(history, start, dump_rule(bucket.scenario))
    emissions = []
    for entry in history.entries[half:]:
        emissions += states(feed(spark, [row(entry)]))
    renewed, rest = emissions[: len(last)], emissions[len(last) :]
    assert {name for name, _, _ in renewed} == set(last)
    _, _, wanted = folded(history)
    assert by_asset(rest) == by_asset(wanted[len(before) :])
    assert sorted(renewed) == sorted({one[0]: one for one in before}.values())


@pytest.mark.parametrize("batch", [1, 7, 1000])
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.spread(6)
def test_up_to_where_readers_have_been_only_the_last_record_counts(seed: int, batch: int) -> None:
    history = seeded(seed)
    half = len(history.entries) // 2
    _, _, before = folded(history, half)
    _, _, wanted = folded(history)
    start = EpochStart(quiet={"watch/0": history.entries[half - 1].offset})
    spark = processor(history, start, dump_rule(history.scenario))
    emissions = []
    for at in range(0, len(history.entries), batch):
        emissions += states(feed(spark, [row(e) for e in history.entries[at : at + batch]]))
    newest = {one[0]: one for one in before}
    assert sorted(emissions[: len(newest)]) == sorted(newest.values())
    assert by_asset(emissions[len(newest) :]) == by_asset(wanted[len(before) :])


def test_a_record_is_packed_and_unpacked() -> None:
    for value in (None, b"", b"x" * 300):
        headers = [("version", b"1.2.3"), ("command", b"")]
        assert unpack(pack(value, headers)) == (value, headers)
