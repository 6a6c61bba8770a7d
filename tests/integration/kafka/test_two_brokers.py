"""Replicas: what is committed, what a consumer may read, and who leads after a broker's death."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from django.core.management import call_command

from bus.base import BusError, TopicSpec, Unavailable
from bus.kafka import KafkaBus
from bus.kafka_admin import Edges, KafkaAdmin
from support.kafka.brokers import SecondBroker
from support.run.stack import EmbeddedBroker, wait_until

pytestmark = pytest.mark.extensive(
    guard="tests/integration/kafka/test_embedded_broker.py::test_log_survives_kill"
)

TOPIC = "userLogins"


@pytest.fixture
def first(tmp_path: Path, jars_dir: Path) -> Iterator[EmbeddedBroker]:
    """The broker that is also the controller."""
    broker = EmbeddedBroker(tmp_path, jars_dir)
    broker.start()
    yield broker
    broker.kill()


@pytest.fixture
def second(first: EmbeddedBroker, tmp_path: Path) -> Iterator[SecondBroker]:
    broker = SecondBroker(first, tmp_path / "second")
    broker.start()
    yield broker
    broker.kill()


def led_by(admin: KafkaAdmin, bus: KafkaBus, number: int) -> str:
    """A topic of one partition on both brokers, which this one leads."""
    for attempt in range(10):
        name = f"{TOPIC}-{attempt}"
        admin.create(TopicSpec(name, 1, {}), 2)
        bus.ensure_topics([TopicSpec(name, 1, {})], replication=2)
        if leader_of(admin, name) == number:
            return name
    raise AssertionError(f"broker {number} leads none of ten topics")


def leader_of(admin: KafkaAdmin, topic: str) -> int | None:
    """The broker that leads a new topic, once the broker that is asked has heard of it."""
    leaders: list[int | None] = []

    def described() -> bool:
        with suppress(BusError):
            leader = admin.describe(topic)[0].leader
            leaders.append(leader and leader[0])
        return bool(leaders)

    wait_until(described, 30, f"no broker has heard of {topic}")
    return leaders[-1]


@pytest.mark.slow
def test_consumers_read_up_to_the_high_watermark(
    first: EmbeddedBroker, second: SecondBroker
) -> None:
    """While the follower stands still, what the leader alone has is not read."""
    options = {"bootstrap.servers": first.bootstrap}
    admin, bus = KafkaAdmin(options), KafkaBus(options)
    topic = led_by(admin, bus, 1)
    assert admin.describe(topic)[0].in_sync == (1, 2)
    bus.producer().send_and_wait(topic, b"k", b"on both")
    wait_until(lambda: admin.edges([(topic, 0)])[topic, 0] == Edges(0, 1, 1), 20, "both have it")

    second.stand_still()
    hasty = Producer({**options, "acks": "1"})
    hasty.produce(topic, b"on the leader alone")
    assert hasty.flush(10) == 0

    reader = bus.reader({(topic, 0): 0})
    assert admin.edges([(topic, 0)]) == {(topic, 0): Edges(0, 1, 2)}
    wait_until(lambda: [m.value for m in reader.poll(1)] == [b"on both"], 10, "the first is read")
    assert reader.poll(1) == []

    second.go_on()
    assert [message.value for message in reader.poll(20)] == [b"on the leader alone"]
    wait_until(lambda: admin.edges([(topic, 0)])[topic, 0] == Edges(0, 2, 2), 20, "both have it")


def test_a_follower_in_sync_takes_over_with_all_that_was_confirmed(
    first: EmbeddedBroker, second: SecondBroker, settings: Any, db: None
) -> None:
    """The controller is broker 1, so broker 2 is the leader that dies."""
    settings.TALLYBOARD = first.settings()
    output = StringIO()
    made = ("topics", "create", TOPIC, "--partitions", "4", "--replication", "2")
    call_command(*made, stdout=output)
    admin = KafkaAdmin({"bootstrap.servers": first.bootstrap})
    before = admin.describe(TOPIC)
    assert {part.leader and part.leader[0] for part in before.values()} == {1, 2}
    call_command("produce", TOPIC, "--count", "40", stdout=output)
    ends = {place: edges.log_end for place, edges in edges_of(admin).items()}
    assert sum(ends.values()) == 40

    second.kill()

    def led() -> bool:
        leaders = {part.leader and part.leader[0] for part in admin.describe(TOPIC).values()}
        with suppress(Unavailable):  # it may lead a moment before it answers as the leader
            return leaders == {1} and bool(edges_of(admin))
        return False

    wait_until(led, 60, "broker 1 leads every partition")
    assert all(part.in_sync == (1,) for part in admin.describe(TOPIC).values())
    assert {place: edges.high_watermark for place, edges in edges_of(admin).items()} == ends
    call_command("topics", "describe", TOPIC, stdout=output)
    assert " 1  " in output.getvalue()


def edges_of(admin: KafkaAdmin) -> dict[tuple[str, int], Edges]:
    """How far the topic's logs go."""
    return admin.edges((TOPIC, number) for number in range(4))
