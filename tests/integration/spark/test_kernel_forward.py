"""The kernel forwards what the Python engine forwards: the same records, with the same headers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pandas as pd
import pytest
from pyspark.sql.streaming.tws_tester import TwsTester

from bus.base import ConsumerRecord
from domain.records import Command, Leave, Report
from domain.scenario import Scenario
from domain.scenario_parser import scenario_from_plain
from streaming.fold.plan import Plan
from streaming.fold.processor import SourceRow, TallyProcessor, _dump_headers, _load_headers
from streaming.fold.rules import dump_rule
from support.histories.batch_feed import BUCKET, feed
from support.spark.kernel_replay import Log, Replay, SinkRecord
from wire.forward import MAX_FORWARDED, TIME, forward_headers
from wire.partitioner import partition_of
from wire.source import encode_command, encode_leave, encode_report, encode_tick

PARTITIONS = 4
RULE: Scenario = scenario_from_plain(
    {
        "name": "watch",
        "states": [{"name": "bad"}, {"name": "good"}],
        "rule": {"kind": "latest"},
        "partitions": PARTITIONS,
    }
)
NOW = 1_790_000_000_000
HERE, ELSEWHERE = (
    next(name for name in map(str, range(99)) if partition_of(name.encode(), PARTITIONS) == at)
    for at in (0, 1)
)

Headers = tuple[tuple[str, bytes], ...]


def first(time: bytes) -> Headers:
    """The headers of a record that is said to be forwarded."""
    return ((TIME, time),)


def values(asset: str) -> Iterator[bytes]:
    """Values that name their asset in the key alone, and values that repeat or contradict it."""
    yield encode_report(Report(asset, "w1", "bad"))
    yield encode_report(Report(asset, "w2", "good", NOW - 5000))
    yield encode_leave(Leave(asset, "w1"))
    yield encode_leave(Leave(asset, "w2", NOW - 4000))
    yield encode_command(Command("purge", asset, str(uuid4()), "olga"))
    for other in (asset, "", "a\x01b", 7, None, "x" * 256, "ü", "\U0001f600", "\ud800"):
        fields = {"type": "report", "asset": other, "agent": "w3", "state": "bad"}
        yield json.dumps(fields).encode()
        yield json.dumps({**fields, "type": "leave"}).encode()
        yield json.dumps({**fields, "state": 7}).encode()
        yield json.dumps({**fields, "reported_at": -1}).encode()
        yield json.dumps({**fields, "detail": {"n": 1}}).replace("1}", "NaN}").encode()
    yield json.dumps({"type": "report", "agent": "w4", "state": "no-such-state"}).encode()
    yield json.dumps({"type": "report", "agent": "user:w", "state": "bad"}).encode()
    yield json.dumps({"type": "mute", "agent": "w4"}).encode()
    yield b'{"type":"report","agent":"w5","state":"bad","detail":{"x":'
    yield b'{"type":"report","agent":"w6","state":"bad","x":"%s"}' % (b"y" * 70_000)


KEYS: list[bytes | None] = [HERE.encode(), ELSEWHERE.encode(), None, b"", b"\xff", "ü".encode()]
HEADERS: list[Headers] = [
    (),
    (("trace", b"\xff\x00"), ("trace", b"2")),
    tuple(forward_headers(3, 17, NOW - 9000, (("trace", b"1"),))),
    *map(first, (b"", b"x", b"-1", b"9" * 15, b"9" * 16, b"%d" % (NOW + 10**6), b"0")),
]


def records() -> list[ConsumerRecord]:
    """Every value with every key, without and with headers; and what is just too large."""
    out: list[tuple[bytes | None, bytes | None, Headers]] = [
        (key, value, headers)
        for at, key in enumerate(KEYS)
        for n, value in enumerate(values((key or b"x").decode(errors="replace")))
        for headers in ((), HEADERS[(n + at) % len(HEADERS)])
    ]
    begin, end = b'{"type":"report","agent":"w7","state":"bad","x":"', b'"}'
    for more in (-1, 0, 1):
        fill = MAX_FORWARDED - len(begin) - len(end) - len("trace") - 2 + more
        out.append((ELSEWHERE.encode(), begin + b"y" * fill + end, (("trace", b"12"),)))
    out += [(None, encode_tick(), ())]
    return [
        ConsumerRecord("watch.reports", 0, n, NOW + n * 10, key, value, headers)
        for n, (key, value, headers) in enumerate(out)
    ]


def sent(row: dict[str, Any]) -> SinkRecord:
    """What the Python engine emits, as the kernel's harness gives it."""
    headers = tuple(_load_headers(str(row["headers"])))
    partition = None if pd.isna(row["partition"]) else int(row["partition"])
    return SinkRecord(row["topic"], row["key"], row["value"], headers, partition)


@pytest.mark.parametrize("cut", [1, 7, 1000])
def test_both_engines_forward_the_same_records(replay: Replay, cut: int) -> None:
    plan = Plan("", 1, {"watch": PARTITIONS}, {BUCKET: dump_rule(RULE)})
    log = records()
    (played,) = replay.run(plan, [Log(str(BUCKET), log, cut, 3)])
    kernel = [row for row in played.records if row.topic != "job.buckets"]
    rows = [
        SourceRow(
            m.key, m.value, m.offset, m.timestamp, _dump_headers(m.headers) if m.headers else None
        )
        for m in log
    ]
    python = [
        sent(row)
        for row in feed(TwsTester(TallyProcessor(plan)), rows)
        if row["topic"] != "job.buckets"
    ]
    forwarded = [row for row in python if row.topic == "watch.reports"]
    assert [row for row in kernel if row.topic == "watch.reports"] == forwarded
    assert kernel == python
    assert 100 < len(forwarded) < len(log)
    assert {row.topic for row in python} == {"watch.reports", "watch.states", "dead-letters"}
    assert all(row.partition == partition_of(row.key or b"", PARTITIONS) for row in forwarded)
    assert {row.partition for row in python if row.topic != "watch.reports"} == {None}
