"""The kernel alone, on a JVM without Spark, is the fold: byte for byte, however its log is cut."""

from __future__ import annotations

import json
from base64 import b64decode
from collections import defaultdict
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path

import pytest
from replaying import Log, Replay, SinkRecord, State
from sharedlog import PARTITIONS, SCENARIOS, shared_log

from bus.base import Message
from domain.fold import Bucket
from domain.records import DeadLetter, StateRecord
from domain.scenario import load_scenarios
from streaming.buckets import BucketId
from streaming.processor import Plan
from streaming.rules import dump_rule, load_rule
from streaming.seeds import write_seed
from streaming.starts import Start
from wire.sink import MAX_DEAD_VALUE, encode_headers, encode_state
from wire.snapshot import Emitted
from wire.source import decode_placed
from wire.topics import Topics

STATE_1 = Path(__file__).resolve().parent.parent / "kernel" / "state-1.json"
DEAD = "dead-letters"
CUTS = ((1, 1), (1, 7), (7, 3), (5000, 1))
"""Records of a batch, and batches until the bucket is read from its state."""


@pytest.fixture(scope="session")
def replay(jars_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Replay:
    """The kernel, compiled, beside its harness."""
    return Replay(jars_dir, tmp_path_factory.mktemp("replay"))


def folded(plan: Plan, bucket: BucketId, log: list[Message]) -> list[SinkRecord]:
    """What the plain fold emits for a bucket's log."""
    topics = Topics(plan.prefix)
    fold = Bucket(load_rule(plan.rules[bucket]), bucket.partition, plan.epoch)
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


@pytest.mark.parametrize("seeded", [False, True])
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
        start = Start(quiet={str(bucket): given[half - 1].offset})
        plan = Plan("", 3, PARTITIONS, {bucket: rule}, start)
        if seeded:
            fold, last = stood(plan, bucket, given[:half])
            write_seed(tmp_path / "seed", fold, last, "kernel", 3)
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


def stood(plan: Plan, bucket: BucketId, log: list[Message]) -> tuple[Bucket, dict[str, Emitted]]:
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


def test_a_state_that_version_1_of_the_codec_wrote_is_read(replay: Replay) -> None:
    """The file was written by the first kernel: a state, records, and what it made of them."""
    kept = json.loads(STATE_1.read_text())
    plan = Plan("", 3, PARTITIONS, {BucketId.parse(kept["bucket"]): kept["rule"]})
    entries = {name: b64decode(data) for name, data in kept["entries"].items()}
    assert {data[0] for data in entries.values()} == {1}
    records = [
        Message("gate.reports", 1, offset, time, read(key), b64decode(value), ())
        for key, value, offset, time in kept["records"]
    ]
    log = Log(kept["bucket"], records, 5, 2, State(read(kept["meta"]), entries))
    [played] = replay.run(plan, [log])
    emitted = [[r.key, r.value, r.headers] for r in played.records if r.topic == "gate.states"]
    assert sorted(emitted) == sorted(
        [read(key), read(value), tuple((name, read(data)) for name, data in headers)]
        for key, value, headers in kept["emitted"]
    )
    assert {data[0] for data in played.state.entries.values()} == {2}


def read(text: str | None) -> bytes | None:
    """Bytes out of the kept file."""
    return None if text is None else b64decode(text)
