"""The kernel alone, on a JVM without Spark, is the fold: byte for byte, however its log is cut."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections import defaultdict
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path

import pytest

from bus.base import ConsumerRecord
from domain.fold import Bucket, UnknownFoldVersion
from domain.records import DeadLetter, StateRecord
from domain.scenario import FOLD
from domain.scenario_parser import load_scenarios
from streaming.fold.epochs import EpochStart
from streaming.fold.plan import Plan
from streaming.fold.rules import dump_rule, load_rule
from streaming.state.buckets import BucketId
from streaming.state.restore import write_initial_state
from support.histories.sharedlog import PARTITIONS, SCENARIOS, shared_log
from support.spark.kernel_replay import Log, Replay, SinkRecord, State
from wire.asset import load_bucket
from wire.sink import MAX_DEAD_VALUE, encode_headers, encode_state
from wire.snapshot import Emitted
from wire.source import decode_placed
from wire.topics import Topics

KERNEL = Path(__file__).resolve().parents[2] / "kernel"
DEAD = "dead-letters"
CUTS = ((1, 1), (1, 7), (7, 3), (5000, 1))
"""Records of a batch, and batches until the bucket is read from its state."""


def folded(
    plan: Plan, bucket: BucketId, log: list[ConsumerRecord], fold: Bucket | None = None
) -> list[SinkRecord]:
    """Return what the plain fold emits for a bucket's log. fold: as it is before that log."""
    topics = Topics(plan.prefix)
    fold = fold or Bucket(load_rule(plan.rules[bucket]), bucket.partition, plan.epoch)
    partitions = plan.partitions[bucket.scenario]
    out = []
    for m in log:
        record = decode_placed(m.key, m.value, m.timestamp, bucket.partition, partitions)
        for emission in fold.apply(record, m.offset, m.timestamp):
            if isinstance(emission, DeadLetter):
                reason = (("reason", emission.reason.encode()),)
                value = m.value and m.value[:MAX_DEAD_VALUE]
                out.append(SinkRecord(topics.dead_letters, m.key, value, reason))
                continue
            value = encode_state(emission) if isinstance(emission, StateRecord) else None
            key, headers = emission.asset.encode(), encode_headers(emission)
            out.append(SinkRecord(topics.states(bucket.scenario), key, value, headers))
    return out


def by_asset(records: list[SinkRecord]) -> dict[tuple[str, bytes | None], list[SinkRecord]]:
    """The records of each asset in order, without heartbeats; of dead letters the reason alone.

    Among assets the order is nobody's business: a change of rule goes through them in any.
    """
    found = defaultdict(list)
    for record in records:
        dead = record.topic == "dead-letters"
        if record.topic != "job.buckets":
            headers = record.headers[:1] if dead else record.headers
            found[record.topic, record.key].append(record._replace(headers=headers))
    return found


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.spread(1)
def test_the_kernel_is_the_fold(replay: Replay, tmp_path: Path, seed: int) -> None:
    file = tmp_path / "scenarios.toml"
    file.write_text(SCENARIOS)
    scenarios = load_scenarios(file)
    buckets = [BucketId(name, at) for name, n in PARTITIONS.items() for at in range(n)]
    rules = {b: dump_rule(scenarios[b.scenario]) for b in buckets}
    plan = Plan("", 3, PARTITIONS, rules)
    log = dict(shared_log(seed, 500, 40).messages(Topics()))
    logs = [
        Log(str(b), log[b.scenario, b.partition], *CUTS[(seed + n) % len(CUTS)])
        for n, b in enumerate(buckets)
    ]
    for bucket, given, found in zip(buckets, logs, replay.run(plan, logs), strict=True):
        wanted = by_asset(folded(plan, bucket, given.records))
        emitted = by_asset(found.records)
        assert len(wanted) > 50
        for key, records in wanted.items():
            for n, (one, other) in enumerate(zip_longest(records, emitted.pop(key, []))):
                assert one == other, f"{bucket}, {key}, emission {n}"
        assert not emitted


@pytest.mark.parametrize("seeded", [False, pytest.param(True, marks=pytest.mark.extensive)])
def test_the_kernel_begins_in_mid_log_and_is_silent_until_there(
    replay: Replay, tmp_path: Path, seeded: bool
) -> None:
    """From a seed, or from the log's beginning: then the last record of each asset, then all."""
    file = tmp_path / "scenarios.toml"
    file.write_text(SCENARIOS)
    scenarios = load_scenarios(file)
    log = dict(shared_log(9, 500, 40).messages(Topics()))
    for bucket in [BucketId(name, at) for name, n in PARTITIONS.items() for at in range(n)]:
        given = log[bucket.scenario, bucket.partition]
        half = len(given) // 2
        rule = dump_rule(scenarios[bucket.scenario])
        start = EpochStart(quiet={str(bucket): given[half - 1].offset})
        plan = Plan("", 3, PARTITIONS, {bucket: rule}, start)
        if seeded:
            fold, last = stood(plan, bucket, given[:half])
            write_initial_state(tmp_path / "seed", fold, last, "kernel", 3)
            plan.rules[bucket] = dump_rule(fold.scenario)  # type: ignore[index]
            start.seeds[str(bucket)] = str(tmp_path / "seed")
        before = folded(replace(plan, rules={bucket: rule}), bucket, given[:half])
        whole = folded(replace(plan, rules={bucket: rule}), bucket, given)
        last_ones = {key: found[-1:] for key, found in by_asset(before).items() if key[0] != DEAD}
        wanted = by_asset(whole[len(before) :])
        read = given[half:] if seeded else given
        [played] = replay.run(plan, [Log(str(bucket), read, 7, 3)])
        emitted = by_asset(played.records)
        for key in last_ones.keys() | wanted.keys():
            expected = [*last_ones.get(key, []), *wanted.get(key, [])]
            assert emitted.pop(key) == expected, f"{bucket}, {key}"
        assert not emitted


def stood(
    plan: Plan, bucket: BucketId, log: list[ConsumerRecord]
) -> tuple[Bucket, dict[str, Emitted]]:
    """The plain fold after a log, and what it last emitted."""
    fold = Bucket(load_rule(plan.rules[bucket]), bucket.partition, 1)
    last: dict[str, Emitted] = {}
    for m in log:
        record = decode_placed(
            m.key, m.value, m.timestamp, bucket.partition, plan.partitions[bucket.scenario]
        )
        for out in fold.apply(record, m.offset, m.timestamp):
            if not isinstance(out, DeadLetter):
                last[out.asset] = out
    return fold, last


class Kept:
    """A state that an earlier release's kernel wrote, its rule, and records that came after it."""

    def __init__(self, name: str) -> None:
        kept = json.loads((KERNEL / name).read_text())
        self.bucket = BucketId.parse(kept["bucket"])
        self.plan = Plan("", 3, PARTITIONS, {self.bucket: kept["rule"]})
        self.entries = {name: b64decode(data) for name, data in kept["entries"].items()}
        topic = Topics().reports(self.bucket.scenario)
        self.records = [
            ConsumerRecord(topic, 1, offset, time, read(key), b64decode(value), ())
            for key, value, offset, time in kept["records"]
        ]
        self.log = Log(kept["bucket"], self.records, 5, 2, State(read(kept["meta"]), self.entries))
        self.fold = load_bucket(b64decode(kept["fold"]), 3) if "fold" in kept else None
        self.emitted = kept.get("emitted", [])


def test_a_state_of_version_1_of_the_codec_is_read(replay: Replay) -> None:
    """The file was written by the first kernel: a state, records, and what it made of them.

    It is of a life cycle, of which the meaning has stayed; why one is unconfirmed was not told.
    """
    kept = Kept("state-1.json")
    assert {data[0] for data in kept.entries.values()} == {1}
    [played] = replay.run(kept.plan, [kept.log])
    emitted = [
        [r.key, without_reason(r.value), r.headers]
        for r in played.records
        if r.topic == "gate.states" and b'"state":"unknown"' not in (r.value or b"")
    ]
    expected = [
        [read(key), read(value), tuple((name, read(data)) for name, data in headers)]
        for key, value, headers in kept.emitted
    ]
    # A pin on an asset that nobody had reported ended: it showed what had been pinned, then.
    ended = [record for record in expected if record[0] == b"site-455"][-1:]
    assert sorted(emitted) == sorted(record for record in expected if record not in ended)
    assert {data[0] for data in played.state.entries.values()} == {6}


def without_reason(value: bytes | None) -> bytes | None:
    """A state record as it was before it said why it is unconfirmed."""
    return value and re.sub(rb',"unconfirmed_reason":"[^"]*"', b"", value)


@pytest.mark.parametrize(
    ("file", "versions"),
    [("state-3.json", {2, 3}), ("state-4.json", {4}), ("state-5.json", {5})],
)
def test_a_state_of_an_earlier_codec_is_read_as_the_fold_reads_its_own(
    replay: Replay, file: str, versions: set[int]
) -> None:
    """The file was written by an earlier release: one bucket's state as each engine kept it."""
    kept = Kept(file)
    assert {data[0] for data in kept.entries.values()} == versions
    assert kept.fold is not None
    assert kept.fold.mutes
    assert any(asset.waits for asset in kept.fold.assets.values())
    wanted = by_asset(folded(kept.plan, kept.bucket, kept.records, kept.fold))
    [played] = replay.run(kept.plan, [kept.log])
    assert by_asset(played.records) == wanted
    assert len(wanted) > 5


def test_a_rule_for_a_later_fold_stops_the_kernel(replay: Replay, tmp_path: Path) -> None:
    """As it stops the plain fold; one under another scenario's name is a dead letter for both."""
    file = tmp_path / "scenarios.toml"
    file.write_text(SCENARIOS)
    watch = load_scenarios(file)["watch"]
    bucket = BucketId("watch", 0)
    plan = Plan("", 1, PARTITIONS, {bucket: dump_rule(watch)})
    foreign, own = (
        ConsumerRecord("watch.reports", 0, at, 1_000 + at, None, json.dumps(record).encode(), ())
        for at, record in enumerate(
            {"type": "scenario", "scenario": {"name": name, "fold": FOLD + 1}}
            for name in ("gate", "watch")
        )
    )
    [played] = replay.run(plan, [Log(str(bucket), [foreign])])
    assert by_asset(played.records) == by_asset(folded(plan, bucket, [foreign]))
    with pytest.raises(UnknownFoldVersion) as raised:
        folded(plan, bucket, [own])
    with pytest.raises(AssertionError, match=re.escape(str(raised.value))):
        replay.run(plan, [Log(str(bucket), [own])])


def read(text: str | None) -> bytes | None:
    """Bytes out of the kept file."""
    return None if text is None else b64decode(text)
