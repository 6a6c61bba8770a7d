"""A broker that refuses logins and rights: each is named, and all go on once it is put right."""

from __future__ import annotations

import itertools
import logging
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AclOperation

from agents.log_handler import REFUSED, KafkaHandler
from bus.base import (
    AccessRefused,
    ConsumerRecord,
    LoginRefused,
    NotPermitted,
    TopicPartition,
    TopicSpec,
)
from bus.kafka import KafkaBus
from bus.kafka_admin import KafkaAdmin
from bus.kafka_consumer import KafkaConsumer, Membership
from bus.kafka_reader import KafkaReader
from support.kafka.secured_broker import SecuredBroker
from support.run.stack import wait_until

USER, PASSWORD = "board", "the-boards-own"
WRONG = {
    "wrong password": (
        {"sasl.password": "guessed"}, "TALLYBOARD_KAFKA_USERNAME and TALLYBOARD_KAFKA_PASSWORD",
    ),
    "unknown user": (
        {"sasl.username": "nobody"}, "TALLYBOARD_KAFKA_USERNAME and TALLYBOARD_KAFKA_PASSWORD",
    ),
    "unknown mechanism": (
        {"sasl.mechanism": "SCRAM-SHA-256"}, "TALLYBOARD_KAFKA_SASL_MECHANISM",
    ),
}  # fmt: skip
"""Logins that are refused: what is wrong with them, and what is to be checked."""


class Idle:
    """A member of a group that does nothing with its partitions."""

    def assigned(self, partitions: Sequence[TopicPartition]) -> None:
        pass

    def revoked(self, partitions: Sequence[TopicPartition]) -> None:
        pass

    def confirmed(self, asked_at: float) -> None:
        pass


class Listening:
    """A consumer that begins where its group is."""

    def assigned(self, places: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return {}

    def revoked(self, places: Sequence[TopicPartition], *, lost: bool) -> None:
        pass


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory, jars_dir: Path) -> Iterator[SecuredBroker]:
    """A broker that knows one user beside its admin."""
    broker = SecuredBroker(tmp_path_factory.mktemp("secured"), jars_dir, **{USER: PASSWORD})
    broker.start()
    yield broker
    broker.kill()


@pytest.fixture
def topic(secured: SecuredBroker, request: pytest.FixtureRequest) -> Iterator[str]:
    """A topic for the test alone, on which nobody has a right but the admin."""
    name = re.sub(r"\W", "-", request.node.name)[:200]
    KafkaBus(secured.options()).ensure_topics([TopicSpec(name, 1, {})])
    yield name
    secured.revoke(USER)


@pytest.fixture
def bus(secured: SecuredBroker) -> KafkaBus:
    """The cluster as the user sees it."""
    return KafkaBus(secured.options(USER))


def read(reader: KafkaReader, timeout_s: float = 60) -> ConsumerRecord:
    """The next record, in spite of refusals meanwhile."""
    records: list[ConsumerRecord] = []

    def read() -> bool:
        try:
            records.extend(reader.poll(0.2))
        except AccessRefused:
            return False
        return bool(records)

    wait_until(read, timeout_s, "the reader does not go on")
    return records[0]


def drain(reader: KafkaReader, values: list[bytes | None], total: int) -> None:
    """Read on until there are so many values, in spite of refusals meanwhile."""

    def whole() -> bool:
        with suppress(AccessRefused):
            values.extend(each.value for each in reader.poll(0.2, 5))
        return len(values) >= total

    wait_until(whole, 60, "what may be read is not all read")


def refused(ask: Callable[[], object], timeout_s: float = 60) -> str:
    """What is said of a request that is refused sooner or later."""
    why: list[str] = []

    def asked() -> bool:
        try:
            ask()
        except NotPermitted as refusal:
            why.append(str(refusal))
        return bool(why)

    wait_until(asked, timeout_s, "nothing is refused")
    return why[0]


def consumer(options: dict[str, str], topic: str) -> KafkaConsumer:
    return KafkaConsumer(options, Membership("shop", (topic,), "earliest", 6, "me"), Listening())


# ---- logins -------------------------------------------------------------------------------------


@pytest.mark.spread(1)
@pytest.mark.parametrize("wrong", WRONG)
def test_a_refused_login_names_its_settings(
    secured: SecuredBroker, topic: str, wrong: str, caplog: pytest.LogCaptureFixture
) -> None:
    changes, settings = WRONG[wrong]
    options = secured.options(USER) | changes
    bus = KafkaBus(options)
    asked: list[Callable[[], object]] = [
        lambda: bus.wait(2),
        lambda: bus.offsets([topic], timeout_s=2),
        lambda: bus.ensure_topics([TopicSpec(topic, 1, {})], timeout_s=2),
        lambda: bus.reader({(topic, 0): 0}).poll(2),
        lambda: bus.producer(message_timeout_s=2).send_and_wait(topic, b"k", b"v"),
        lambda: bus.producer().send_and_wait(topic, b"k", b"v", timeout_s=2),
        lambda: bus.member("g", topic, "me", Idle(), session_s=6, clock=float).poll(2),
        lambda: consumer(options, topic).poll(2, 1),
        lambda: KafkaAdmin(options, 2).topics(),
    ]
    for ask in asked:
        with pytest.raises(LoginRefused, match=f"refuses the login .*: check {settings}$"):
            ask()
    lines = [line for line in caplog.messages if "refuses the login" in line]
    assert lines, "the log does not say it"
    assert not any(secured.bootstrap in line or PASSWORD in line for line in lines)


def test_a_broker_that_is_away_refuses_nobody(secured: SecuredBroker, topic: str) -> None:
    options = secured.options(USER) | {"bootstrap.servers": "127.0.0.1:1"}
    with pytest.raises(Exception, match="Local: Broker transport failure") as error:
        KafkaBus(options).wait(1)
    assert not isinstance(error.value, AccessRefused)


# ---- rights on topics ---------------------------------------------------------------------------


def test_a_topic_that_may_not_be_described_is_refused_and_not_missing(
    secured: SecuredBroker, bus: KafkaBus, topic: str
) -> None:
    hidden = rf"refuses the topic {topic} .*needs the right .*DESCRIBE.* on the topic {topic}$"
    asked: list[Callable[[], object]] = [
        lambda: bus.partitions(topic),
        lambda: bus.offsets([topic]),
        lambda: bus.topic_ids([topic]),
        lambda: bus.settings([topic]),
        lambda: bus.ensure_topics([TopicSpec(topic, 1, {})]),
        lambda: KafkaAdmin(secured.options(USER)).describe(topic),
    ]
    for ask in asked:
        with pytest.raises(NotPermitted, match=hidden):
            ask()
    secured.grant(USER, AclOperation.DESCRIBE, topic=topic)
    assert bus.partitions(topic) == 1
    assert bus.offsets([topic]) == {(topic, 0): (0, 0)}
    absent = f"{topic}-absent"
    secured.grant(USER, AclOperation.DESCRIBE, topic=absent)
    assert bus.partitions(absent) == 0
    assert bus.offsets([topic, absent]).keys() == {(topic, 0)}


def test_of_several_topics_the_refused_ones_are_named(
    secured: SecuredBroker, bus: KafkaBus, topic: str
) -> None:
    others = [f"{topic}-{n}" for n in range(2)]
    KafkaBus(secured.options()).ensure_topics([TopicSpec(name, 1, {}) for name in others])
    secured.grant(USER, AclOperation.DESCRIBE, topic=topic)
    with pytest.raises(NotPermitted, match=f"refuses the topics {others[0]}, {others[1]} "):
        bus.offsets([topic, *others])


@pytest.mark.spread(1)
@pytest.mark.parametrize("rights", [[], [AclOperation.DESCRIBE]])
def test_a_reader_without_the_right_to_read_says_so_and_goes_on_once_it_has_it(
    secured: SecuredBroker, bus: KafkaBus, topic: str, rights: list[AclOperation]
) -> None:
    if rights:
        secured.grant(USER, *rights, topic=topic)
    writer = KafkaBus(secured.options()).producer()
    writer.send_and_wait(topic, b"k", b"one")
    reader = bus.reader({(topic, 0): 0})
    assert f"needs the right READ on the topic {topic}" in refused(lambda: reader.poll(0.5))
    with pytest.raises(NotPermitted):  # and again
        reader.poll(0)
    secured.grant(USER, AclOperation.READ, topic=topic)
    assert read(reader).value == b"one"
    secured.revoke(USER)
    assert "READ" in refused(lambda: reader.poll(0.5))
    writer.send_and_wait(topic, b"k", b"two")
    secured.grant(USER, AclOperation.READ, topic=topic)
    assert read(reader).value == b"two"
    assert reader.positions() == {(topic, 0): 2}


def test_a_reader_returns_what_it_may_read_before_it_says_what_it_may_not(
    secured: SecuredBroker, bus: KafkaBus, topic: str
) -> None:
    other = f"{topic}-other"
    KafkaBus(secured.options()).ensure_topics([TopicSpec(other, 1, {})])
    writer = KafkaBus(secured.options()).producer()
    for number in range(50):
        writer.send_and_wait(topic, b"k", str(number).encode())
    secured.grant(USER, AclOperation.READ, topic=topic)
    reader = bus.reader({(topic, 0): 0, (other, 0): 0})
    values: list[bytes | None] = []
    why = refused(lambda: values.extend(each.value for each in reader.poll(0.5, 7)))
    drain(reader, values, 50)
    assert values == [str(number).encode() for number in range(50)]
    assert other in why


@pytest.mark.spread(1)
@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_producer_without_the_right_to_write_says_so_and_goes_on_once_it_has_it(
    secured: SecuredBroker,
    bus: KafkaBus,
    topic: str,
    elsewhere: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Who may write nowhere is refused by the cluster, which ends librdkafka's producer."""
    if elsewhere:
        secured.grant(USER, AclOperation.WRITE, topic="somewhere")
    secured.grant(USER, AclOperation.DESCRIBE, topic=topic)
    producer = bus.producer(message_timeout_s=20)
    outcomes: list[object] = []
    for _ in range(3):
        producer.send(topic, b"k", b"lost", on_delivery=outcomes.append)
        producer.poll(0.5)
    wait_until(lambda: producer.flush(0.1) == 0 and len(outcomes) == 3, 20, "an outcome is missing")
    assert {type(each) for each in outcomes} == {NotPermitted}
    place = f"the right WRITE on the topic {topic}" if elsewhere else "on the cluster"
    assert any(place in str(each) for each in outcomes)
    lines = [line for line in caplog.messages if "needs the right" in line]
    assert len(set(lines)) == len(lines) > 0
    secured.grant(USER, AclOperation.WRITE, topic=topic)

    def arrives() -> bool:
        try:
            producer.send_and_wait(topic, b"k", b"v")
        except NotPermitted:
            return False
        return True

    wait_until(arrives, 20, "the producer does not go on")


def test_a_busy_partition_hides_no_refusal_of_another(
    secured: SecuredBroker, bus: KafkaBus, topic: str
) -> None:
    other = f"{topic}-other"
    KafkaBus(secured.options()).ensure_topics([TopicSpec(other, 1, {})])
    secured.grant(USER, AclOperation.READ, topic=topic)
    writer, reader = (
        KafkaBus(secured.options()).producer(),
        bus.reader({(topic, 0): 0, (other, 0): 0}),
    )
    values: list[bytes | None] = []
    sent = itertools.count()

    def busy() -> None:
        for number in itertools.islice(sent, 20):
            writer.send_and_wait(topic, b"k", str(number).encode())
        values.extend(each.value for each in reader.poll(0.5, 5))

    assert other in refused(busy)
    total = next(sent)
    drain(reader, values, total)
    assert values == [str(number).encode() for number in range(total)]


# ---- groups -------------------------------------------------------------------------------------


def test_a_group_without_rights_is_named(
    secured: SecuredBroker, bus: KafkaBus, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    secured.grant(USER, AclOperation.READ, topic=topic)
    member = bus.member("shop", topic, "me", Idle(), session_s=6, clock=float)
    assert "needs the right READ on the group shop" in refused(lambda: member.poll(0.5))
    assert any("the group shop" in line for line in caplog.messages)
    one = consumer(secured.options(USER), topic)
    assert "needs the right READ on the group shop" in refused(lambda: one.poll(0.5, 1))
    assert "the group shop" in refused(lambda: bus.members("shop"))
    assert "the group shop" in refused(lambda: KafkaAdmin(secured.options(USER)).group("shop"))
    member.close()
    one.close()
    secured.grant(USER, AclOperation.READ, group="shop")
    assert bus.members("shop") == []


def test_a_consumer_without_the_right_to_read_names_the_topic(
    secured: SecuredBroker, topic: str
) -> None:
    secured.grant(USER, AclOperation.READ, group="shop")
    secured.grant(USER, AclOperation.DESCRIBE, topic=topic)
    one = consumer(secured.options(USER), topic)
    assert f"the right READ on the topic {topic}" in refused(lambda: one.poll(0.5, 1))
    one.close()


# ---- the handler of logs ------------------------------------------------------------------------


def handler_thread() -> threading.Thread:
    """The thread of the one handler that there is."""
    (thread,) = [each for each in threading.enumerate() if each.name == "kafka-log-handler"]
    return thread


def logger_of(handler: KafkaHandler) -> logging.Logger:
    """A logger that writes to this handler alone."""
    logger = logging.getLogger(f"test.refused.{id(handler)}")
    logger.propagate = False
    logger.addHandler(handler)
    return logger


def wait_until_refused(logger: logging.Logger, handler: KafkaHandler) -> None:
    """Log until the handler has counted refusals; its thread goes on."""

    def lost() -> bool:
        logger.error("x" * 200)
        return handler.dropped[REFUSED] > 20

    wait_until(lost, 40, f"nothing is counted: {handler.dropped}")
    assert handler_thread().is_alive()


@pytest.mark.spread(1)
@pytest.mark.parametrize("rights", [[], [AclOperation.DESCRIBE]])
def test_the_handler_of_logs_outlives_a_refusal_counts_and_says_it_once(
    secured: SecuredBroker,
    topic: str,
    rights: list[AclOperation],
    caplog: pytest.LogCaptureFixture,
) -> None:
    if rights:
        secured.grant(USER, *rights, topic=topic)
    options: dict[str, Any] = secured.options(USER)
    handler = KafkaHandler(topic, **options, queue_buffering_max_kbytes=1)
    logger = logger_of(handler)
    wait_until_refused(logger, handler)
    log_lines = [line for line in caplog.messages if topic in line or "on the cluster" in line]
    assert 1 <= len(log_lines) == len(set(log_lines)) <= 3, log_lines
    secured.grant(USER, AclOperation.WRITE, topic=topic)

    def arrives() -> bool:
        logger.error("here")
        return handler.delivered > 0

    wait_until(arrives, 30, f"the handler does not go on: {handler.dropped}")
    handler.close()


@pytest.mark.extensive(
    guard="tests/integration/kafka/test_refusals.py::test_a_refused_login_names_its_settings"
)
@pytest.mark.parametrize("wrong", ["wrong password"])
def test_the_handler_of_logs_outlives_a_refused_login(
    secured: SecuredBroker, topic: str, wrong: str, caplog: pytest.LogCaptureFixture
) -> None:
    changes, settings = WRONG[wrong]
    options: dict[str, Any] = secured.options(USER) | changes
    handler = KafkaHandler(topic, **options, queue_buffering_max_kbytes=1)
    wait_until_refused(logger_of(handler), handler)
    assert any(settings in line and topic in line for line in caplog.messages)
    handler.close()
