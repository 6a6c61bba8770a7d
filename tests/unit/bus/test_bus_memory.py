"""The bus in memory keeps the contract, and plays a broker that goes away."""

from __future__ import annotations

import math
import time

import pytest

from bus.base import Unavailable
from bus.memory import MemoryBus
from support.kafka.bus_contract import *  # noqa: F403
from support.kafka.bus_contract import made, read


@pytest.fixture
def bus() -> MemoryBus:
    memory = MemoryBus(lambda: int(time.time() * 1000))
    memory.longest_wait_s = math.inf  # as it is outside tests
    return memory


@pytest.fixture
def prefix() -> str:
    return "memory"


def test_deleted_records_leave_a_gap(bus: MemoryBus) -> None:
    topic, producer = made(bus, "t"), bus.producer()
    for number in range(5):
        producer.send_and_wait(topic, b"k", str(number).encode())
    bus.truncate(topic, 0, 3)
    reader = bus.reader({(topic, 0): 1})
    assert [m.value for m in read(reader, 2)] == [b"3", b"4"]
    assert reader.gaps == [(topic, 0, 1, 3)]
    assert bus.offsets([topic]) == {(topic, 0): (3, 5)}


def test_stopped_bus_answers_nobody_and_goes_on(bus: MemoryBus) -> None:
    topic, producer = made(bus, "t"), bus.producer()
    reader = bus.reader({(topic, 0): 0})
    bus.stop()
    with pytest.raises(Unavailable):
        bus.wait(0.01)
    with pytest.raises(Unavailable):
        producer.send_and_wait(topic, b"k", b"late", timeout_s=0.05)
    assert reader.poll(0) == []
    bus.start()
    assert producer.flush(1) == 0
    assert [m.value for m in read(reader, 1)] == [b"late"]


def test_record_is_given_up_after_its_timeout(bus: MemoryBus) -> None:
    topic, producer = made(bus, "t"), bus.producer(message_timeout_s=0.01)
    bus.stop()
    with pytest.raises(Unavailable, match="stopped"):
        producer.send_and_wait(topic, b"k", b"v", timeout_s=5)
    bus.start()
    assert bus.offsets([topic]) == {(topic, 0): (0, 0)}


def test_a_topic_made_again_is_another(bus: MemoryBus) -> None:
    before = bus.topic_ids([made(bus, "t")])
    bus.delete("t")
    assert bus.topic_ids(["t"]) == {}
    assert bus.topic_ids([made(bus, "t")]) != before
