"""The handler of logs: what it sends where, and what it does when it cannot."""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import agents.log_handler
from agents import KafkaHandler
from bus import memory
from bus.base import (
    BusError,
    ConsumerRecord,
    LoginRefused,
    NotPermitted,
    TooLarge,
    TopicSpec,
    Unavailable,
)
from bus.memory import MemoryBus
from support.run.stack import wait_until
from wire.partitioner import partition_of

TOPIC = "app-logs"
PARTITIONS = 4
NOW = 1_790_000_000_000
SERVER: dict[str, Any] = {"bootstrap.servers": "127.0.0.1:1"}

Open = Callable[..., KafkaHandler]


@pytest.fixture
def bus(monkeypatch: pytest.MonkeyPatch) -> MemoryBus:
    """A bus in memory, in place of the Kafka that handlers send to."""
    bus = MemoryBus(lambda: NOW)
    bus.ensure_topics([TopicSpec(TOPIC, PARTITIONS, {})])
    monkeypatch.setattr(agents.log_handler, "KafkaClient", lambda _options: bus)
    monkeypatch.setattr(agents.log_handler, "KafkaProducer", lambda _options: bus.producer())
    return bus


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    """A logger whose handlers are closed at the end."""
    logger = logging.getLogger("test.log-handler")
    logger.setLevel("INFO")
    logger.propagate = False
    yield logger
    for handler in list(logger.handlers):
        logger.removeHandler(handler)
        handler.close()


@pytest.fixture
def handle(bus: MemoryBus, logger: logging.Logger) -> Open:
    """Adds a handler to the logger; it knows the topic, if the bus is up."""

    def handle(**options: Any) -> KafkaHandler:
        handler = KafkaHandler(TOPIC, **options, **SERVER)
        logger.addHandler(handler)
        assert not bus._up or handler._known.wait(10)
        return handler

    return handle


def log_of(bus: MemoryBus) -> list[ConsumerRecord]:
    return bus.reader({(TOPIC, at): 0 for at in range(PARTITIONS)}).poll(0, 100_000)


def messages_of(bus: MemoryBus) -> list[str]:
    return [json.loads(message.value or b"")["message"] for message in log_of(bus)]


def test_records_of_a_client_have_its_key_and_stay_in_order(
    bus: MemoryBus, handle: Open, logger: logging.Logger
) -> None:
    handler = handle(key="client", fields={"app_name": "shop", "app_version": "1"})
    for number in range(20):
        logger.info("%d", number, extra={"client": f"client-{number % 5}"})
    handler.flush()
    log = log_of(bus)
    assert len(log) == 20
    for message in log:
        assert message.partition == partition_of(message.key or b"", PARTITIONS)
        value = json.loads(message.value or b"")
        assert (value["client"].encode(), value["app_name"]) == (message.key, "shop")
    first = [int(json.loads(m.value or b"")["message"]) for m in log if m.key == b"client-3"]
    assert first == [3, 8, 13, 18]
    assert (handler.sent, handler.delivered, handler.dropped) == (20, 20, Counter())


def test_a_thread_is_a_key(bus: MemoryBus, handle: Open, logger: logging.Logger) -> None:
    handler = handle(key="thread")
    threads = [threading.Thread(target=logger.info, args=("x",), name=f"t-{n}") for n in range(3)]
    for thread in threads:
        thread.start()
        thread.join()
    handler.flush()
    assert sorted(message.key or b"" for message in log_of(bus)) == [b"t-0", b"t-1", b"t-2"]


def test_a_function_makes_keys(bus: MemoryBus, handle: Open, logger: logging.Logger) -> None:
    handler = handle(key=lambda record: record.getMessage().upper())
    logger.info("é")
    handler.flush()
    assert [message.key for message in log_of(bus)] == ["É".encode()]


def test_records_without_keys_take_the_partitions_in_turn(
    bus: MemoryBus, handle: Open, logger: logging.Logger
) -> None:
    handler = handle()
    for number in range(40):
        logger.info("%d", number)
    handler.flush()
    assert Counter(message.partition for message in log_of(bus)) == dict.fromkeys(range(4), 10)


def test_a_function_chooses_partitions(
    bus: MemoryBus, handle: Open, logger: logging.Logger
) -> None:
    seen = []

    def last(key: bytes | None, value: bytes, partitions: int) -> int:
        seen.append((key, json.loads(value)["message"], partitions))
        return partitions - 1

    handler = handle(key="client", partition=last)
    logger.info("x", extra={"client": "client-1"})
    handler.flush()
    assert seen == [(b"client-1", "x", PARTITIONS)]
    assert [message.partition for message in log_of(bus)] == [PARTITIONS - 1]


@pytest.mark.parametrize("wrong", [lambda *_: 4, lambda *_: -1, lambda *_: 1 // 0])
def test_a_wrong_partition_is_dropped_said_once_and_counted(
    bus: MemoryBus,
    handle: Open,
    logger: logging.Logger,
    wrong: Callable[..., int],
    caplog: pytest.LogCaptureFixture,
) -> None:
    handler = handle(partition=wrong)
    for _ in range(3):
        logger.info("x")
    handler.flush()
    assert handler.dropped == {"partition": 3}
    assert len([r for r in caplog.records if r.name == "agents.log_handler"]) == 1
    assert log_of(bus) == []


def test_a_key_that_cannot_be_made_is_counted_and_breaks_nothing(
    handle: Open, logger: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    handler = handle(key=lambda record: record.nothing)
    logger.info("x")
    assert handler.dropped == {"failed": 1}
    assert "nothing" in capsys.readouterr().err


def test_what_is_logged_within_the_handler_is_not_sent(
    bus: MemoryBus, handle: Open, logger: logging.Logger
) -> None:
    def key(_record: logging.LogRecord) -> str:
        logger.info("of the key")
        return "k"

    handler = handle(key=key)
    logger.info("x")
    handler.flush()
    assert messages_of(bus) == ["x"]


def test_records_before_the_partitions_are_known_are_sent_once_they_are(
    bus: MemoryBus, handle: Open, logger: logging.Logger
) -> None:
    bus.stop()
    handler = handle()
    for number in range(250):
        logger.info("%d", number)
    assert handler.sent == 0
    bus.start()
    wait_until(lambda: handler.delivered == 250, 10, "not delivered")
    log = log_of(bus)
    for partition in range(PARTITIONS):
        numbers = [
            int(json.loads(m.value or b"")["message"]) for m in log if m.partition == partition
        ]
        assert numbers == list(range(partition, 250, PARTITIONS))


def test_so_many_wait_as_the_buffer_would_hold(
    bus: MemoryBus, handle: Open, logger: logging.Logger
) -> None:
    bus.stop()
    handler = handle(**{"queue.buffering.max.kbytes": 1})
    for _ in range(20):
        logger.info("x" * 100)
    kept = 20 - handler.dropped["buffer-full"]
    assert 1 <= kept <= 1024 // 100
    bus.start()
    wait_until(lambda: handler.delivered == kept, 10, "not delivered")
    logger.info("there is room again")
    handler.flush()
    assert handler.delivered == kept + 1


def test_while_the_buffer_is_full_one_call_waits_and_the_others_drop_at_once(
    bus: MemoryBus, handle: Open, logger: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "MAX_QUEUE", 5)
    handler = handle(key="client", max_block_ms=200)
    bus.stop()
    for _ in range(5):
        logger.info("x")
    begun = time.monotonic()
    logger.info("x")
    waited = time.monotonic() - begun
    for _ in range(100):
        logger.info("x")
    others = time.monotonic() - begun - waited
    assert waited >= 0.2
    assert others < 0.2, "a hundred calls took less than one that waits"
    assert (handler.sent, handler.dropped) == (5, {"buffer-full": 101})
    bus.start()
    wait_until(lambda: handler.delivered == 5, 10, "not delivered")
    logger.info("again")
    handler.flush()
    assert (handler.delivered, handler.dropped) == (6, {"buffer-full": 101})


def test_a_call_that_waits_goes_on_as_soon_as_there_is_room(
    bus: MemoryBus, handle: Open, logger: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "MAX_QUEUE", 1)
    handler = handle(key="client", max_block_ms=20_000)
    bus.stop()
    logger.info("first")
    waiting = threading.Thread(target=logger.info, args=("second",))
    waiting.start()
    bus.start()
    waiting.join(10)
    assert not waiting.is_alive()
    handler.flush()
    assert (handler.delivered, handler.dropped) == (2, Counter())


def test_sync_returns_once_kafka_has_the_record(
    bus: MemoryBus, handle: Open, logger: logging.Logger
) -> None:
    handler = handle(delivery="sync")
    logger.info("x")
    assert (handler.delivered, messages_of(bus)) == (1, ["x"])


def test_sync_waits_once_in_vain_and_again_when_kafka_is_back(
    bus: MemoryBus, handle: Open, logger: logging.Logger
) -> None:
    handler = handle(delivery="sync", key="client", sync_timeout_ms=300)
    bus.stop()
    begun = time.monotonic()
    logger.info("1")
    waited = time.monotonic() - begun
    logger.info("2")
    second = time.monotonic() - begun - waited
    assert waited >= 0.3
    assert second < 0.3
    bus.start()
    wait_until(lambda: handler.delivered == 2, 10, "not delivered")
    logger.info("3")
    assert handler.delivered == 3


def test_after_close_records_are_dropped_and_counted(
    bus: MemoryBus, handle: Open, logger: logging.Logger
) -> None:
    handler = handle()
    logger.info("x")
    handler.close()
    assert messages_of(bus) == ["x"]
    logger.info("y")
    assert handler.dropped == {"closed": 1}


def test_close_ends_within_its_bound_and_counts_what_is_lost(
    bus: MemoryBus, handle: Open, logger: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agents.log_handler, "FLUSH_S", 0.2)
    bus.stop()
    handler = handle()
    for _ in range(3):
        logger.info("x")
    begun = time.monotonic()
    handler.close()
    assert time.monotonic() - begun < 2
    assert handler.dropped == {"undelivered": 3}


@pytest.mark.parametrize(
    ("outcome", "dropped", "unconfirmed"),
    [
        (Unavailable("no answer in time"), {}, 1),
        (LoginRefused("as the password has changed meanwhile"), {}, 1),
        (NotPermitted("the topic"), {"refused": 1}, 0),
        (TooLarge("for the topic"), {"too-large": 1}, 0),
        (BusError("INVALID_RECORD"), {"undelivered": 1}, 0),
    ],
)
def test_what_nobody_knows_is_not_counted_as_lost(
    bus: MemoryBus,
    handle: Open,
    logger: logging.Logger,
    monkeypatch: pytest.MonkeyPatch,
    outcome: BusError,
    dropped: dict[str, int],
    unconfirmed: int,
) -> None:
    handler = handle()
    monkeypatch.setattr(bus, "append", lambda _sent: outcome)
    logger.info("x")
    handler.flush()
    wait_until(lambda: handler.unconfirmed + handler.dropped.total() == 1, 10, "not counted")
    assert (handler.sent, handler.delivered) == (1, 0)
    assert (handler.dropped, handler.unconfirmed) == (dropped, unconfirmed)


def test_a_huge_record_is_cut_and_counted(
    bus: MemoryBus, handle: Open, logger: logging.Logger
) -> None:
    handler = handle()
    logger.info("x" * 3_000_000)
    handler.flush()
    assert (handler.truncated, handler.delivered) == (1, 1)
    assert messages_of(bus)[0].endswith("(3000000 characters)")


def test_a_child_process_sends_its_own_records_alone(
    bus: MemoryBus, handle: Open, logger: logging.Logger
) -> None:
    """In the child the bus is a copy, so it says by its exit how it fared."""
    handler = handle(key="client")
    bus.stop()
    logger.info("of the parent")
    child = os.fork()
    if child == 0:
        bus.start()
        logger.info("of the child")
        handler.flush()
        fine = messages_of(bus) == ["of the child"] and (handler.sent, handler.delivered) == (1, 1)
        handler.close()
        os._exit(0 if fine else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    bus.start()
    handler.flush()
    assert messages_of(bus) == ["of the parent"]
    assert (handler.sent, handler.delivered) == (1, 1)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, "bootstrap.servers: expected host:port"),
        (SERVER | {"no.such": 1}, 'No such configuration property: "no.such"'),
        (SERVER | {"linger.ms": "soon"}, "Invalid value for configuration property"),
        (SERVER | {"acks": 1}, "acks"),
        (SERVER | {"buffer.memory": 1}, "expected queue.buffering.max.kbytes"),
        (SERVER | {"max.block.ms": 1}, "expected max_block_ms"),
        (SERVER | {"error_cb": print}, "the handler calls back itself"),
        (SERVER | {"key": "pid"}, "key: expected client, thread, a function or None"),
        (SERVER | {"delivery": "soon"}, "delivery: expected async or sync"),
        (SERVER | {"fields": {"time": 1}}, "fields: expected other names than time"),
    ],
)
def test_what_is_wrong_is_said_at_once(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        KafkaHandler(TOPIC, **options)


@pytest.mark.parametrize("key", [None, "client"])
def test_a_partitioner_of_ones_own_is_refused_on_reports(key: Any) -> None:
    with pytest.raises(ValueError, match=r"attack\.reports is partitioned by its keys"):
        KafkaHandler("attack.reports", key=key, partition=lambda *_: 0, **SERVER)


def test_settings_may_have_underscores() -> None:
    handler = KafkaHandler(TOPIC, bootstrap_servers="127.0.0.1:1", message_max_bytes=2_000)
    handler.close()
    assert handler.dropped == Counter()
