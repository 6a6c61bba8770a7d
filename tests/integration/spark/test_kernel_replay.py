"""The kernel alone, on a JVM without Spark, is the fold: byte for byte, however its log is cut."""

from __future__ import annotations

import json
import random
import re
from collections import defaultdict
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path

import pytest

from bus.base import ConsumerRecord
from domain.fold import Bucket, UnknownFoldVersion
from domain.records import DeadLetter, Misrouted, StateRecord
from domain.scenario import FOLD
from domain.scenario_parser import load_scenarios
from streaming.fold.epochs import EpochStart
from streaming.fold.plan import Plan
from streaming.fold.rules import dump_rule, load_rule
from streaming.state.buckets import BucketId
from streaming.state.restore import write_initial_state
from support.histories.sharedlog import PARTITIONS, SCENARIOS, damaged_reports, shared_log
from support.run.selection import examples
from support.spark.kernel_replay import Log, Replay, SinkRecord
from wire.forward import forward_headers
from wire.partitioner import partition_of
from wire.sink import MAX_DEAD_VALUE, encode_headers, encode_state
from wire.snapshot import Emitted
from wire.source import decode_placed
from wire.topics import Topics

DEAD = "dead-letters"
CUTS = ((1, 1), (1, 7), (7, 3), (5000, 1))
"""Records of a batch, and batches until the bucket is read from its state."""


def folded(plan: Plan, bucket: BucketId, log: list[ConsumerRecord]) -> list[SinkRecord]:
    """Return what the plain fold emits for a bucket's log."""
    topics = Topics(plan.prefix)
    fold = Bucket(load_rule(plan.rules[bucket]), bucket.partition, plan.epoch)
    partitions = plan.partitions[bucket.scenario]
    out = []
    for m in log:
        place = bucket.partition, partitions
        record = decode_placed(m.key, m.value, m.timestamp, *place, headers=m.headers)
        if isinstance(record, Misrouted):
            kept = [(name, value or b"") for name, value in m.headers]
            own = forward_headers(bucket.partition, m.offset, m.timestamp, kept)
            key = record.record.asset.encode()
            topic, right = topics.reports(bucket.scenario), partition_of(key, partitions)
            out.append(SinkRecord(topic, key, m.value, tuple(own), right))
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
    grouped = defaultdict(list)
    for record in records:
        dead = record.topic == DEAD
        if record.topic != "job.buckets":
            headers = record.headers[:1] if dead else record.headers
            grouped[record.topic, record.key].append(record._replace(headers=headers))
    return grouped


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
    for bucket, given, played in zip(buckets, logs, replay.run(plan, logs), strict=True):
        wanted = by_asset(folded(plan, bucket, given.records))
        emitted = by_asset(played.records)
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
        states = Topics().states(bucket.scenario)
        last_ones = {
            key: records[-1:] for key, records in by_asset(before).items() if key[0] == states
        }
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


def test_both_read_the_same_out_of_damaged_reports(replay: Replay, tmp_path: Path) -> None:
    """The kernel has bytes of any kind in a report, whole or not, as the plain fold has them."""
    file = tmp_path / "scenarios.toml"
    file.write_text(SCENARIOS)
    bucket = BucketId("watch", 0)
    plan = Plan("", 1, {"watch": 1}, {bucket: dump_rule(load_scenarios(file)["watch"])})
    values = damaged_reports(random.Random(1), examples(20_000))
    log = [
        ConsumerRecord("watch.reports", 0, at, 1_000 + at, b"shop", value, ())
        for at, value in enumerate(values)
    ]
    [played] = replay.run(plan, [Log(str(bucket), log, 5000, 1)])
    wanted = by_asset(folded(plan, bucket, log))
    assert by_asset(played.records) == wanted
    reasons = {record.headers[0][1] for record in wanted[DEAD, b"shop"]}
    assert {b"not-json", b"bad-field", b"bad-time", b"not-utf8", b"too-large"} <= reasons
