"""An open transaction holds nobody up: every reader reads past it, and takes what is aborted."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

import confluent_kafka as ck
import pytest

from bus.base import TopicPartition, TopicSpec
from bus.kafka import KafkaBus
from bus.kafka_consumer import KafkaConsumer, Membership
from support.run.stack import EmbeddedBroker, wait_until


class Everything:
    """A listener that consumes from each partition's beginning."""

    def assigned(self, places: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(places, 0)

    def revoked(self, places: Sequence[TopicPartition], *, lost: bool) -> None:
        pass


@pytest.fixture
def topic(bus: KafkaBus) -> str:
    name = f"transactions-{uuid.uuid4().hex[:8]}"
    bus.ensure_topics([TopicSpec(name, 1, {})])
    return name


@pytest.fixture
def writer(broker: EmbeddedBroker, topic: str) -> ck.Producer:
    """A producer with an open transaction: of one record, that lies in the log."""
    producer = ck.Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "transactional.id": topic,
            "transaction.timeout.ms": 900_000,
        }
    )
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(topic, b"held", key=b"a", partition=0)
    assert producer.flush(20) == 0
    return producer


def after(bus: KafkaBus, topic: str) -> None:
    """Somebody else's record behind the open transaction."""
    bus.producer().send_and_wait(topic, b"a", b"after", partition=0)


def test_a_reader_reads_past_an_open_transaction(
    bus: KafkaBus, topic: str, writer: ck.Producer
) -> None:
    after(bus, topic)
    reader = bus.reader({(topic, 0): 0})
    values: list[bytes | None] = []

    def read() -> bool:
        values.extend(message.value for message in reader.poll(0.2))
        return reader.at_end()

    wait_until(read, 20, "the reader never came to the end")
    assert values == [b"held", b"after"]
    assert bus.offsets([topic]) == {(topic, 0): (0, 2)}
    assert bus.ends([(topic, 0)]) == {(topic, 0): 2}

    writer.abort_transaction(20)  # its record stays what it was; a marker takes an offset
    after(bus, topic)
    wait_until(lambda: read() and len(values) == 3, 20, "nothing came after the abort")
    assert reader.positions() == {(topic, 0): 4}
    reader.close()


def test_a_consumer_reads_past_an_open_transaction(
    broker: EmbeddedBroker, bus: KafkaBus, topic: str, writer: ck.Producer
) -> None:
    after(bus, topic)
    member = Membership(f"{topic}-group", (topic,), "earliest", 6.0, "tests")
    consumer = KafkaConsumer({"bootstrap.servers": broker.bootstrap}, member, Everything())
    values: list[bytes | None] = []

    def read() -> bool:
        values.extend(message.value for message in consumer.poll(0.2, 100))
        return len(values) >= 2

    wait_until(read, 30, "the consumer never came past the transaction")
    assert values == [b"held", b"after"]
    consumer.close()
