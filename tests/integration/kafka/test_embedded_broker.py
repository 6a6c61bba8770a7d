"""The embedded broker keeps its log through a kill, and says so when it cannot start."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer as KafkaConsumer
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from ops.broker import prepare
from ops.ports import PortProblem
from support.run.stack import EmbeddedBroker


@pytest.fixture
def own_broker(tmp_path: Path, jars_dir: Path) -> Iterator[EmbeddedBroker]:
    """A broker that a test may kill."""
    broker = EmbeddedBroker(tmp_path, jars_dir)
    broker.start()
    yield broker
    broker.kill()


def test_log_survives_kill(own_broker: EmbeddedBroker) -> None:
    create_topic(own_broker, "kept")
    producer = Producer({"bootstrap.servers": own_broker.bootstrap, "acks": "all"})
    for number in range(100):
        producer.produce("kept", str(number).encode())
    assert producer.flush(20) == 0

    own_broker.kill()
    own_broker.start()

    assert end_offset(own_broker, "kept") == 100


def test_unknown_topic_is_not_created(broker: EmbeddedBroker) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.list_topics("never-made", timeout=10)
    assert "never-made" not in admin.list_topics(timeout=10).topics


def test_taken_port_is_named_with_its_setting(broker: EmbeddedBroker, tmp_path: Path) -> None:
    with pytest.raises(PortProblem, match=f"{broker.port} is taken.*TALLYBOARD_KAFKA_PORT"):
        prepare(tmp_path, broker.jars_dir, broker.port)


def create_topic(broker: EmbeddedBroker, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(20)


def end_offset(broker: EmbeddedBroker, topic: str) -> int:
    consumer = KafkaConsumer({"bootstrap.servers": broker.bootstrap, "group.id": "count"})
    try:
        return int(consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=20)[1])
    finally:
        consumer.close()
