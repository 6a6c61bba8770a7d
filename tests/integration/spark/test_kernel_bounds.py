"""The kernel takes bounds on append times as the plain fold does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bus.base import ConsumerRecord
from domain.bounds import Bound, applied_time
from domain.fold import Bucket
from domain.records import DeadLetter, StateRecord
from domain.scenario_parser import load_scenarios
from streaming.fold.epochs import EpochStart
from streaming.fold.plan import Plan
from streaming.fold.rules import dump_rule, load_rule
from streaming.state.buckets import BucketId
from support.histories.sharedlog import PARTITIONS, SCENARIOS, shared_log
from support.spark.kernel_replay import Log, Replay
from wire.job import Heartbeat, decode_heartbeat
from wire.sink import encode_state
from wire.source import decode_placed
from wire.topics import Topics

AHEAD = 23 * 3_600_000
CUTS = ((1, 1), (7, 3), (5000, 1))
"""Records of a batch, and batches until the bucket is read from its state."""

Emissions = dict[bytes, list[bytes | None]]
"""By asset: the values that were emitted, in order."""


def disturbed(log: list[ConsumerRecord]) -> tuple[list[ConsumerRecord], list[Bound]]:
    """A log of which two stretches were stamped ahead, each with the bound that is right for it."""
    size, bounds, messages = len(log), list[Bound](), list(log)
    for part in (1, 3):
        begin, end = size * part // 5, size * (part + 1) // 5
        bounds.append((max(m.timestamp for m in log[:end]), log[end].offset))
        for at in range(begin, end - (end - begin) // 2):
            messages[at] = replace(log[at], timestamp=log[at].timestamp + part * AHEAD)
    return messages, bounds


def folded(plan: Plan, bucket: BucketId, log: list[ConsumerRecord]) -> tuple[Bucket, Emissions]:
    """The plain fold after a log, and what it emitted of each asset."""
    fold = Bucket(load_rule(plan.rules[bucket]), bucket.partition, plan.epoch)
    bounds = plan.start.bounds[str(bucket)]
    emissions: Emissions = {}
    for m in log:
        count = plan.partitions[bucket.scenario]
        record = decode_placed(m.key, m.value, m.timestamp, bucket.partition, count)
        time = applied_time(bounds, m.offset, m.timestamp, fold.clock)
        for out in fold.apply(record, m.offset, time):
            if not isinstance(out, DeadLetter):
                value = encode_state(out) if isinstance(out, StateRecord) else None
                emissions.setdefault(out.asset.encode(), []).append(value)
    return fold, emissions


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.spread(1)
def test_the_kernel_holds_time_as_the_fold_does(replay: Replay, tmp_path: Path, seed: int) -> None:
    (tmp_path / "scenarios.toml").write_text(SCENARIOS)
    scenarios = load_scenarios(tmp_path / "scenarios.toml")
    log = dict(shared_log(seed, 300, 40).messages(Topics()))
    buckets = [BucketId(name, at) for name, n in PARTITIONS.items() for at in range(n)]
    given = {bucket: disturbed(log[bucket.scenario, bucket.partition]) for bucket in buckets}
    rules = {bucket: dump_rule(scenarios[bucket.scenario]) for bucket in buckets}
    bounds = {str(bucket): own for bucket, (_, own) in given.items()}
    plan = Plan("", 3, PARTITIONS, rules, EpochStart(bounds=bounds))
    cut = [
        Log(str(bucket), records, *CUTS[(seed + n) % len(CUTS)])
        for n, (bucket, (records, _)) in enumerate(given.items())
    ]
    for (bucket, (records, _)), played in zip(given.items(), replay.run(plan, cut), strict=True):
        fold, wanted = folded(plan, bucket, records)
        states = f"{bucket.scenario}.states"
        emissions: Emissions = {}
        for record in played.records:
            if record.topic == states:
                emissions.setdefault(record.key or b"", []).append(record.value)
        assert emissions == wanted, bucket
        beats = [decode_heartbeat(r.value) for r in played.records if r.topic == "job.buckets"]
        assert last(beats).log_time <= fold.clock < max(m.timestamp for m in records)


def last(beats: list[Heartbeat]) -> Heartbeat:
    return max(beats, key=lambda beat: beat.offset)
