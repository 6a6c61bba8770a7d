"""A broker that is killed and comes back costs neither a record nor a process."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from bus.base import Unavailable
from bus.kafka import KafkaBus
from support.kafka.bus_contract import made, read
from support.run.stack import EmbeddedBroker, free_port


@pytest.fixture
def own_broker(tmp_path: Path, jars_dir: Path) -> Iterator[EmbeddedBroker]:
    """A broker that a test may kill."""
    broker = EmbeddedBroker(tmp_path, jars_dir)
    broker.start()
    yield broker
    broker.kill()


@pytest.mark.extensive(
    guard="tests/integration/kafka/test_agents_outage.py::"
    "test_broker_killed_under_reports_and_brought_back"
)
def test_reader_and_producer_go_on_after_a_kill(own_broker: EmbeddedBroker) -> None:
    bus = KafkaBus({"bootstrap.servers": own_broker.bootstrap})
    topic, producer = made(bus, "kept"), bus.producer(message_timeout_s=60)
    reader = bus.reader({(topic, 0): 0})
    producer.send_and_wait(topic, b"k", b"before")
    assert read(reader, 1)[0].value == b"before"

    own_broker.kill()
    outcomes: list[object] = []
    producer.send(topic, b"k", b"during", on_delivery=outcomes.append)
    end = time.monotonic() + 5
    while time.monotonic() < end:
        assert reader.poll(0.2) == []
    with pytest.raises(Unavailable):
        bus.partitions(topic)
    own_broker.start()

    assert producer.flush(30) == 0
    assert [m.value for m in read(reader, 1, 30)] == [b"during"]
    assert reader.positions() == {(topic, 0): 2}
    assert bus.offsets([topic]) == {(topic, 0): (0, 2)}


def test_send_and_wait_says_that_no_broker_answers() -> None:
    bus = KafkaBus({"bootstrap.servers": f"127.0.0.1:{free_port()}"})
    with pytest.raises(Unavailable):
        bus.producer().send_and_wait("t", b"k", b"v", timeout_s=0.5)
    with pytest.raises(Unavailable):
        bus.wait(0.5)


def test_wait_returns_once_the_broker_is_there(tmp_path: Path, jars_dir: Path) -> None:
    broker = EmbeddedBroker(tmp_path, jars_dir)
    bus = KafkaBus({"bootstrap.servers": broker.bootstrap})
    starting = threading.Timer(1, broker.start)
    starting.start()
    try:
        bus.wait(60)
        assert made(bus, "there") == "there"
    finally:
        starting.join()
        broker.kill()


def test_deleted_records_leave_a_gap(broker: EmbeddedBroker) -> None:
    bus = KafkaBus({"bootstrap.servers": broker.bootstrap})
    topic, producer = made(bus, "bus-deleted"), bus.producer()
    for number in range(5):
        producer.send_and_wait(topic, b"k", str(number).encode())
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for future in admin.delete_records([TopicPartition(topic, 0, 3)]).values():
        future.result(20)

    reader = bus.reader({(topic, 0): 1})

    assert [m.value for m in read(reader, 2)] == [b"3", b"4"]
    assert reader.gaps == [(topic, 0, 1, 3)]
    assert bus.offsets([topic]) == {(topic, 0): (3, 5)}
