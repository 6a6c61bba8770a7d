"""What Kafka's tools read from options, how they send, and what they print of hostile bytes."""

from __future__ import annotations

import time
from argparse import ArgumentTypeError
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from bus.base import BusError, Delivered
from bus.memory import MemoryBus
from dashboard.operate.console.kafka_tools import (
    MAX_SHOWN,
    DeliveryCounts,
    _shown,
    aligned,
    name,
    produce_async,
    produce_sync,
    produce_with_callback,
    seconds,
    target,
    whole,
)
from support.kafka.bus_contract import made

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.fixture
def bus() -> MemoryBus:
    return MemoryBus(lambda: int(time.time() * 1000))


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("begin", "begin"),
        ("earliest", "begin"),
        ("end", "end"),
        ("latest", "end"),
        ("0", 0),
        ("42", 42),
        ("2026-01-31T12:00:00Z", NOON),
        ("2026-01-31T13:00:00+01:00", NOON),
        ("2026-01-31T12:00", NOON),
    ],
)
def test_a_place_in_a_log(text: str, meant: object) -> None:
    assert target(text) == meant


@pytest.mark.parametrize("text", ["", "never", "-1", "1.5", "9" * 30, "12:00"])
def test_what_is_no_place_in_a_log(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match="expected begin, earliest, end, latest, an offset"):
        target(text)


@pytest.mark.parametrize(
    ("read", "text", "words"),
    [
        (whole(1, 1000), "0", r"expected 1 to 1,000, got '0'"),
        (whole(1, 1000), "1001", "expected 1 to 1,000"),
        (whole(1, 1000), "two", "expected 1 to 1,000"),
        (seconds, "5", r'expected a duration such as "30s"'),
        (seconds, "0s", "expected a duration"),
        (name, "", "expected 1 to 249 printable characters"),
        (name, "a\nb", "printable"),
        (name, "x" * 250, "expected 1 to 249"),
    ],
)
def test_an_option_says_what_it_expects(
    read: Callable[[str], object], text: str, words: str
) -> None:
    with pytest.raises(ArgumentTypeError, match=words):
        read(text)


def test_durations_are_seconds() -> None:
    assert [seconds(text) for text in ("500ms", "5s", "2m")] == [0.5, 5.0, 120.0]


@pytest.mark.parametrize("send", [produce_sync, produce_async, produce_with_callback])
def test_each_record_is_reported_once_with_its_place(bus: MemoryBus, send) -> None:
    topic, outcomes = made(bus, "t"), list[tuple[str, object]]()
    send(bus.producer(), topic, 50, lambda *outcome: outcomes.append(outcome), 5)
    assert [key for key, _ in outcomes] == [f"KEY-{number}" for number in range(50)]
    assert [place.offset for _, place in outcomes if isinstance(place, Delivered)] == [*range(50)]


def test_sending_one_by_one_ends_at_the_first_error(bus: MemoryBus) -> None:
    topic, lines = made(bus, "t"), list[str]()
    bus.stop()
    tally = DeliveryCounts(lines.append)
    produce_sync(bus.producer(message_timeout_s=0.05), topic, 100, tally.report, 1)
    assert (lines, tally.delivered) == (["KEY-0 error: the bus is stopped"], 0)


@pytest.mark.parametrize("send", [produce_async, produce_with_callback])
def test_sending_all_reports_the_error_of_each(bus: MemoryBus, send) -> None:
    topic, outcomes = made(bus, "t"), list[object]()
    bus.stop()
    producer = bus.producer(message_timeout_s=0.05)
    send(producer, topic, 100, lambda _, outcome: outcomes.append(outcome), 5)
    assert len(outcomes) == 100
    assert all(isinstance(outcome, BusError) for outcome in outcomes)


def test_a_future_without_an_answer_says_so(bus: MemoryBus) -> None:
    topic, outcomes = made(bus, "t"), list[object]()
    bus.stop()
    produce_async(bus.producer(), topic, 2, lambda _, outcome: outcomes.append(outcome), 0.05)
    assert [str(outcome) for outcome in outcomes] == ["no answer in time"] * 2


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (None, "null"),
        (b"", "''"),
        ("Zürich".encode(), "'Zürich'"),
        (b"\x1b[2J\r\n", r"'\x1b[2J\r\n'"),
        (b"\xff\x00", r"'\\xff\x00'"),
        ("\u202eabc".encode(), r"'\u202eabc'"),
    ],
)
def test_what_is_printed_obeys_nobody(data: bytes | None, text: str) -> None:
    assert _shown(data) == text


def test_a_long_value_is_cut() -> None:
    assert _shown(b"x" * 1000).endswith("x… (1000 bytes)")
    assert len(_shown(b"x" * 1000)) < MAX_SHOWN + 20


def test_columns_stand_below_each_other() -> None:
    assert aligned([("a", "bb"), ("ccc", "d")]) == ["a    bb", "ccc  d"]
