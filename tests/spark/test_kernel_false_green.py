"""The kernel, too, turns nothing to green that nobody said is green."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from falsegreen import SITE, Board, Example, examples
from replaying import Log, Replay, SinkRecord

from bus.base import Message
from domain.records import (
    Command,
    Record,
    Refusal,
    Report,
    ScenarioChange,
    StateRecord,
    Tick,
    Tombstone,
)
from domain.scenario import Scenario
from streaming.buckets import BucketId
from streaming.processor import Plan
from streaming.rules import dump_rule
from wire.sink import decode_state
from wire.source import encode_command, encode_report, encode_scenario, encode_tick


def named(scenario: Scenario, number: int) -> Scenario:
    """The example's scenario under a name of its own, so that one plan holds them all."""
    return replace(scenario, name=f"watch-{number}")


def message(number: int, offset: int, time: int, record: Record) -> Message:
    """A record of an example's log, as it stands in its topic."""
    key, value = SITE.encode(), b""
    if isinstance(record, Report):
        value = encode_report(record)
    elif isinstance(record, Command):
        value = encode_command(record)
    elif isinstance(record, Refusal):
        value = b'{"type":"set","id":"%s"}' % record.id.encode()
    elif isinstance(record, ScenarioChange):
        value = encode_scenario(named(record.scenario, number))
    elif isinstance(record, Tick):
        value = encode_tick()
    return Message(f"watch-{number}.reports", 0, offset, time, key, value, ())


def emitted(records: list[SinkRecord], number: int) -> list[StateRecord | Tombstone]:
    """What the kernel emitted of an example's asset."""
    topic = f"watch-{number}.states"
    return [decode_state(r.key, r.value, r.headers) for r in records if r.topic == topic]


@pytest.fixture(scope="module")
def boards(jars_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Board]:
    """What the kernel makes of every example."""
    kernel = Replay(jars_dir, tmp_path_factory.mktemp("replay"))
    rules = {
        BucketId(f"watch-{n}", 0): dump_rule(named(example.scenario, n))
        for n, example in enumerate(examples())
    }
    plan = Plan("", 1, {bucket.scenario: 1 for bucket in rules}, rules)
    logs = [
        Log(str(bucket), [message(n, *line) for line in example.lines], 7, 3)
        for n, (bucket, example) in enumerate(zip(rules, examples(), strict=True))
    ]
    played = kernel.run(plan, logs)
    return [Board(emitted(found.records, n)) for n, found in enumerate(played)]


@pytest.mark.parametrize("number", range(len(examples())), ids=[e.title for e in examples()])
def test_no_false_green(boards: list[Board], number: int) -> None:
    example: Example = examples()[number]
    example.check(boards[number])
