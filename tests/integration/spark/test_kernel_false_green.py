"""The histories that once turned red to green, and those that the promises are held to, in the
kernel on a JVM without Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from bus.base import ConsumerRecord
from domain.fold import Bucket
from domain.records import DeadLetter, Emission, StateRecord
from domain.scenario import Scenario
from streaming.fold.plan import Plan
from streaming.fold.rules import dump_rule
from streaming.state.buckets import BucketId
from support.histories.doubtful import doubtful_examples
from support.histories.false_green import Board, Example, Line, examples
from support.histories.histories import Entry, seeded
from support.histories.last_words import kept_words, last_words
from support.histories.source_records import encoded
from support.spark.kernel_replay import Log, Played, Replay, SinkRecord
from wire.sink import decode_state, encode_headers, encode_state
from wire.source import decode_source

HISTORIES = 500
"""How many generated ones, of those of tests/unit/domain/test_safety_invariants.py."""

ALL = (*examples(), *doubtful_examples(), *last_words(), *kept_words())

Rule = tuple[BucketId, Scenario]


def rule(number: int, scenario: Scenario) -> Rule:
    """A bucket of its own for a history, and its first rule, which bears the bucket's name."""
    bucket = BucketId(f"history-{number}", 0)
    return bucket, replace(scenario, name=bucket.scenario)


def messages(bucket: BucketId, lines: Sequence[Line] | Sequence[Entry]) -> list[ConsumerRecord]:
    """The history's log as it lies in the bucket's topic."""
    return [
        ConsumerRecord(
            f"{bucket.scenario}.reports", 0, *line[:2], *encoded(bucket.scenario, line[2]), ()
        )
        for line in lines
    ]


def play(
    replay: Replay, rules: Sequence[Rule], logs: Sequence[list[ConsumerRecord]]
) -> list[Played]:
    """What the kernel makes of the logs: all in one JVM, read from their state now and then."""
    plan = Plan("", 1, {b.scenario: 1 for b, _ in rules}, {b: dump_rule(s) for b, s in rules})
    given = [Log(str(b), log, 3, 2) for (b, _), log in zip(rules, logs, strict=True)]
    return replay.run(plan, given)


@pytest.fixture(scope="module")
def played(replay: Replay) -> dict[str, Played]:
    """Return what the kernel makes of every example, by title."""
    rules = [rule(number, example.scenario) for number, example in enumerate(ALL)]
    logs = [messages(b, e.lines) for (b, _), e in zip(rules, ALL, strict=True)]
    titles = [example.title for example in ALL]
    return dict(zip(titles, play(replay, rules, logs), strict=True))


def emissions(played: Played) -> Iterator[Emission]:
    """Yield what it emitted into the states topic."""
    for record in played.records:
        if record.topic.endswith(".states"):
            yield decode_state(record.key, record.value, record.headers)


@pytest.mark.parametrize("example", ALL, ids=lambda example: example.title)
def test_no_false_green(played: dict[str, Played], example: Example) -> None:
    example.check(Board(emissions(played[example.title])))


def folded(bucket: BucketId, scenario: Scenario, log: Sequence[ConsumerRecord]) -> list[SinkRecord]:
    """Return what the fold emits into the states topic for a history's log."""
    fold, topic = Bucket(scenario, 0, 1), f"{bucket.scenario}.states"
    out = []
    for m in log:
        record = decode_source(m.key, m.value, m.timestamp)
        for each in fold.apply(record, m.offset, m.timestamp):
            if not isinstance(each, DeadLetter):
                value = encode_state(each) if isinstance(each, StateRecord) else None
                key, headers = each.asset.encode(), encode_headers(each)
                out.append(SinkRecord(topic, key, value, headers))
    return out


def test_the_kernel_keeps_the_promises_of_the_fold(replay: Replay) -> None:
    """Byte for byte on the very histories in which the fold keeps them."""
    histories = [seeded(seed) for seed in range(HISTORIES)]
    rules = [rule(number, history.scenario) for number, history in enumerate(histories)]
    logs = [messages(b, h.entries) for (b, _), h in zip(rules, histories, strict=True)]
    for (bucket, scenario), log, played_log in zip(
        rules, logs, play(replay, rules, logs), strict=True
    ):
        states = [record for record in played_log.records if record.topic.endswith(".states")]
        assert by_asset(states) == by_asset(folded(bucket, scenario, log)), bucket


def by_asset(records: Sequence[SinkRecord]) -> dict[bytes | None, list[SinkRecord]]:
    """The records of each asset in order: a change of rule goes through the assets in any."""
    grouped: dict[bytes | None, list[SinkRecord]] = {}
    for record in records:
        grouped.setdefault(record.key, []).append(record)
    return grouped
