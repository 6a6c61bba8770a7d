"""One record fetched from a real broker for a page, and what a real log answers instead."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from django.test import Client

from bus.base import TopicSpec
from bus.kafka import KafkaBus
from dashboard.board.assets.log_records import NotShown, fetch
from dashboard.core.common import kafka
from dashboard.core.common.kafka import Gateway
from dashboard.core.common.scenarios import scenarios
from domain.records import Report
from support.run.stack import wait_until
from support.web.web_fixtures import forget_limits, make_user
from wire.source import encode_report
from wire.topics import Topics

pytestmark = pytest.mark.django_db

COUNT = 50


@pytest.fixture
def to(broker) -> Iterator[Gateway]:
    """The gateway to a real broker, whose partition 1 holds COUNT reports."""
    forget_limits()
    bus = KafkaBus(broker.settings().kafka_options())
    topics = Topics(f"records-{uuid.uuid4().hex[:8]}.")
    bus.ensure_topics(TopicSpec(*spec) for spec in topics.specs(scenarios().values()))
    producer = bus.producer()
    for number in range(COUNT):
        value = encode_report(Report("d", f"waf-{number}", "clear"))
        producer.send_and_wait(topics.reports("attack"), b"d", value, partition=1)
    producer.close()
    with kafka.use(bus, topics) as gateway:
        yield gateway


def test_the_very_record_is_fetched(to: Gateway):
    topic = to.topics.reports("attack")
    for offset in (0, 1, COUNT // 2, COUNT - 1):
        record = fetch(to.bus, topic, 1, offset)
        assert (record.topic, record.partition, record.offset) == (topic, 1, offset)
        assert f'"waf-{offset}"'.encode() in (record.value or b"")


@pytest.mark.parametrize(
    ("partition", "offset", "reason"),
    [(1, COUNT, "not-yet"), (0, 0, "not-yet"), (77, 0, "no-partition")],
)
def test_what_is_not_there_is_named(to: Gateway, partition: int, offset: int, reason: str):
    with pytest.raises(NotShown) as refused:
        fetch(to.bus, to.topics.reports("attack"), partition, offset)
    assert refused.value.reason == reason


def test_what_was_deleted_is_gone(broker, to: Gateway):
    topic = to.topics.reports("attack")
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for future in admin.delete_records([TopicPartition(topic, 1, 20)]).values():
        future.result(20)
    wait_until(lambda: to.bus.offsets([topic])[topic, 1][0] == 20, 20, "the log begins at 20")
    with pytest.raises(NotShown) as refused:
        fetch(to.bus, topic, 1, 19)
    assert refused.value.reason == "gone"
    assert "it now begins at 20" in str(refused.value)
    assert fetch(to.bus, topic, 1, 20).offset == 20


def test_a_broker_that_does_not_answer_is_waited_for_no_longer_than_asked(to: Gateway):
    nowhere = KafkaBus({"bootstrap.servers": "127.0.0.1:1"})
    begun = time.monotonic()
    with pytest.raises(NotShown) as refused:
        fetch(nowhere, to.topics.reports("attack"), 1, 0, timeout_s=1)
    assert refused.value.reason == "no-answer"
    assert time.monotonic() - begun < 5


def test_the_page_shows_it(to: Gateway):
    client = Client()
    client.force_login(make_user("manager"))
    response = client.get(f"/s/attack/record/1/{COUNT - 1}/")
    assert response.status_code == 200
    assert f"waf-{COUNT - 1}" in response.content.decode()
    assert client.get(f"/s/attack/record/1/{COUNT}/").status_code == 404
