"""The kernel judges signatures as the plain fold does: the same bytes, the same outcome."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from bus.base import ConsumerRecord
from domain.fold import Bucket
from domain.records import Command, DeadLetter, Mute, Report, StateRecord, Unmute
from domain.scenario_parser import scenario_from_plain
from streaming.fold.plan import Plan
from streaming.fold.rules import dump_rule, load_rule
from streaming.state.buckets import BucketId
from support.spark.kernel_replay import Log, Replay
from wire.keys import Key, KeyFile, Ring
from wire.signature import FAULTS, MAX_SKEW, Trust, signed
from wire.sink import encode_state
from wire.source import (
    decode_placed,
    encode_command,
    encode_mute,
    encode_report,
    encode_scenario,
    encode_tick,
)

NOW = 1_790_000_000_000
TOPIC = "sites.reports"
BUCKET = BucketId("sites", 0)
SITES = scenario_from_plain(
    {
        "name": "sites",
        "partitions": 1,
        "states": [{"name": "down"}, {"name": "odd"}, {"name": "up"}],
        "rule": {"kind": "latest"},
        "commands": "signed",
    }
)
RING = Ring(
    (
        Key("first", "ä" * 32, 0, NOW + 500_000),
        Key("second", "s" * 43, NOW + 300_000),
        Key("stolen", "t" * 43, 0, NOW + 100_000),
    )
)
UNREAD = Key("unread", "u" * 43)
MESSAGES = 1_500


class Maker:
    """A log in which much is signed, and some of it wrongly. Times in ms."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.time = NOW

    def messages(self) -> Iterator[ConsumerRecord]:
        for offset in range(MESSAGES):
            self.time += self.random.choice((1, 20, 1_000))
            key, value = self.record()
            yield ConsumerRecord(TOPIC, 0, offset, self.time, key, value, ())

    def record(self) -> tuple[bytes | None, bytes]:
        key, value = self.plain()
        if self.random.random() < 0.15:
            return key, value
        return self.spoilt(key, self.sealed(key, value))

    def plain(self) -> tuple[bytes | None, bytes]:
        pick, asset = self.random.randrange(10), self.random.choice(("a", "bé", "😀"))
        id_ = str(UUID(int=self.random.getrandbits(128)))
        match pick:
            case 0:
                return None, encode_tick()
            case 1 | 2:
                agent, state = self.random.choice("vw"), self.random.choice(("down", "odd", "up"))
                return asset.encode(), encode_report(Report(asset, agent, state))
            case 3:
                return None, encode_mute(Mute("w", None, "olga", "wild", id_))
            case 4:
                return None, encode_mute(Unmute("w", "olga", "", id_))
            case 5:
                return None, encode_scenario(
                    replace(SITES, signed_commands=self.random.random() < 0.6)
                )
        kind = self.random.choice(("set", "vote", "release", "purge"))
        command = Command(kind, asset, id_, "olga", "é", self.random.choice(("down", "up")))  # type: ignore[arg-type]
        value = encode_command(command)
        return asset.encode(), value if pick < 9 else value.replace(
            b'"state":"', b'"state":5,"x":"'
        )

    def sealed(self, key: bytes | None, value: bytes) -> bytes:
        with_ = self.random.choice((RING.signing(self.time), *RING.keys, UNREAD))
        off = self.random.choice((0, 0, 0, MAX_SKEW, -MAX_SKEW, MAX_SKEW + 1, -MAX_SKEW - 1))
        topic = TOPIC if self.random.random() < 0.9 else "gates.reports"
        return signed(value, topic, key, with_, max(0, self.time + off))

    def spoilt(self, key: bytes | None, value: bytes) -> tuple[bytes | None, bytes]:
        pick, at = self.random.random(), self.random.randrange(len(value))
        if pick > 0.3:
            return key, value
        if pick > 0.25 and key is not None:
            return b"another", value
        if pick > 0.15:
            at = self.random.randrange(value.rfind(b',"signature"'), len(value))
        return key, value[:at] + bytes([self.random.randrange(256)]) + value[at + 1 :]


Emissions = list[tuple[str, bytes | None, bytes | None]]


def folded(plan: Plan, log: list[ConsumerRecord]) -> Emissions:
    """Return what the plain fold emits: topic or reason, key, value."""
    fold, trust = Bucket(load_rule(plan.rules[BUCKET]), 0, 1), Trust(TOPIC, lambda: RING)
    out: Emissions = []
    for m in log:
        record = decode_placed(m.key, m.value, m.timestamp, 0, 1, trust)
        for each in fold.apply(record, m.offset, m.timestamp):
            if isinstance(each, DeadLetter):
                out.append((each.reason, m.key, m.value))
            else:
                value = encode_state(each) if isinstance(each, StateRecord) else None
                out.append(("sites.states", each.asset.encode(), value))
    return out


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.spread(1)
def test_the_kernel_judges_signatures_as_the_fold_does(
    replay: Replay, tmp_path: Path, seed: int
) -> None:
    keys = KeyFile(tmp_path / "keys.json")
    keys.write(RING)
    plan = Plan("", 1, {"sites": 1}, {BUCKET: dump_rule(SITES)}, keys=str(keys.path))
    log = list(Maker(seed).messages())
    wanted = folded(plan, log)
    assert set(FAULTS) <= {topic for topic, *_ in wanted}
    assert sum(topic == "sites.states" for topic, *_ in wanted) > MESSAGES / 5
    [played] = replay.run(plan, [Log(str(BUCKET), log, 7, 3)])
    emissions = [
        (
            dict(r.headers)["reason"].decode() if r.topic == "dead-letters" else r.topic,
            r.key,
            r.value,
        )
        for r in played.records
        if r.topic != "job.buckets"
    ]
    assert by_asset(emissions) == by_asset(wanted)


def by_asset(emissions: Emissions) -> dict[tuple[bool, bytes | None], Emissions]:
    """The records of each asset in order; a mute and a rule go through assets in any."""
    grouped: dict[tuple[bool, bytes | None], Emissions] = {}
    for each in emissions:
        grouped.setdefault((each[0] == "sites.states", each[1]), []).append(each)
    return grouped


def test_keys_that_cannot_be_read_stop_the_kernel(replay: Replay, tmp_path: Path) -> None:
    """Nothing is decided then: what it refused now would be taken when the log is read again."""
    path = tmp_path / "keys.json"
    plan = Plan("", 1, {"sites": 1}, {BUCKET: dump_rule(SITES)}, keys=str(path))
    value = signed(
        encode_command(Command("purge", "a", str(UUID(int=1)), "olga")),
        TOPIC,
        b"a",
        RING.keys[0],
        NOW,
    )
    log = [ConsumerRecord(TOPIC, 0, 0, NOW, b"a", value, ())]
    with pytest.raises(AssertionError, match="KeysProblem"):
        replay.run(plan, [Log(str(BUCKET), log)])
    path.write_text("{")
    with pytest.raises(AssertionError, match=r"KeysProblem.*expected keys as JSON"):
        replay.run(plan, [Log(str(BUCKET), log)])
