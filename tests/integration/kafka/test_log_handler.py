"""The log handler and a real broker: where records go, and what a program feels of an outage."""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agents import KafkaHandler
from bus.base import ConsumerRecord, TopicSpec
from support.kafka.brokers import bus_of, log_of
from support.run.snippets import all_blocks
from support.run.stack import EmbeddedBroker, wait_until
from wire.partitioner import partition_of

PARTITIONS = 3
# What a call may take while the buffer is full, s.
LONGEST_S = 0.010

# Makes a logger and its handler, with the handler's options.
Open = Callable[..., tuple[logging.Logger, KafkaHandler]]


@pytest.fixture
def topic(broker: EmbeddedBroker, request: pytest.FixtureRequest) -> str:
    """A topic for the test alone."""
    name = re.sub(r"\W", "-", request.node.name)
    bus_of(broker).ensure_topics([TopicSpec(name, PARTITIONS, {})])
    return name


@pytest.fixture
def opened(broker: EmbeddedBroker, topic: str) -> Iterator[Open]:
    """Handlers on the test's topic; they are closed at its end."""
    handlers = []

    def opened(**options: Any) -> tuple[logging.Logger, KafkaHandler]:
        handler = KafkaHandler(topic, bootstrap_servers=broker.bootstrap, **options)
        handlers.append(handler)
        return logger_of(handler), handler

    yield opened
    for handler in handlers:
        handler.close()


def logger_of(handler: KafkaHandler) -> logging.Logger:
    logger = logging.getLogger(f"test.log-handler.{id(handler)}")
    logger.setLevel("INFO")
    logger.propagate = False
    logger.addHandler(handler)
    return logger


def number_of(message: ConsumerRecord) -> int:
    return int(json.loads(message.value or b"")["message"])


def test_a_client_has_one_partition_and_its_records_are_in_order(
    broker: EmbeddedBroker, topic: str, opened: Open
) -> None:
    logger, handler = opened(key="client")
    for number in range(300):
        logger.info("%d", number, extra={"client": f"client-{number % 30}"})
    handler.flush()
    assert (handler.delivered, handler.dropped) == (300, Counter())
    numbers: dict[bytes, list[int]] = {}
    for message in log_of(broker, topic, 300):
        key = message.key or b""
        assert message.partition == partition_of(key, PARTITIONS)
        numbers.setdefault(key, []).append(number_of(message))
    assert len(numbers) == 30
    assert all(each == sorted(each) for each in numbers.values())


def test_a_thread_has_one_partition(broker: EmbeddedBroker, topic: str, opened: Open) -> None:
    logger, handler = opened(key="thread")

    def log() -> None:
        for number in range(50):
            logger.info("%d", number)

    threads = [threading.Thread(target=log, name=f"worker-{number}") for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    handler.flush()
    log_ = log_of(broker, topic, 300)
    for thread in threads:
        own = [message for message in log_ if message.key == thread.name.encode()]
        assert [number_of(message) for message in own] == list(range(50))
        assert {m.partition for m in own} == {partition_of(thread.name.encode(), PARTITIONS)}


def test_without_keys_the_partitions_take_turns(
    broker: EmbeddedBroker, topic: str, opened: Open
) -> None:
    logger, handler = opened()
    for number in range(300):
        logger.info("%d", number)
    handler.flush()
    for message in log_of(broker, topic, 300):
        assert message.partition == number_of(message) % PARTITIONS


def test_a_partitioner_of_ones_own(broker: EmbeddedBroker, topic: str, opened: Open) -> None:
    def by_level(_key: bytes | None, value: bytes, partitions: int) -> int:
        return partitions - 1 if json.loads(value)["level"] == "error" else 0

    logger, handler = opened(key="client", partition=by_level)
    for number in range(30):
        extra = {"client": f"client-{number}"}
        logger.log(logging.ERROR if number % 3 else logging.INFO, "%d", number, extra=extra)
    handler.flush()
    for message in log_of(broker, topic, 30):
        assert message.partition == (PARTITIONS - 1 if number_of(message) % 3 else 0)


def test_sync_has_each_record_in_the_log_before_it_returns(
    broker: EmbeddedBroker, topic: str, opened: Open
) -> None:
    logger, handler = opened(delivery="sync")
    for number in range(1, 6):
        logger.info("%d", number)
        assert handler.delivered == number
        assert sum(end for _, end in bus_of(broker).offsets([topic]).values()) == number


def test_a_forked_child_and_its_parent_send_each_their_own(
    broker: EmbeddedBroker, topic: str, opened: Open
) -> None:
    logger, handler = opened(key="client")
    logger.info("1")
    child = os.fork()
    if child == 0:
        logger.info("2")
        handler.close()
        os._exit(handler.delivered)
    logger.info("3")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
    handler.flush()
    assert handler.delivered == 2
    assert sorted(number_of(message) for message in log_of(broker, topic, 3)) == [1, 2, 3]


@pytest.fixture
def own_broker(tmp_path: Path, jars_dir: Path) -> Iterator[EmbeddedBroker]:
    """A broker that a test may kill, with a topic of logs."""
    broker = EmbeddedBroker(tmp_path / "broker", jars_dir)
    broker.start()
    bus_of(broker).ensure_topics([TopicSpec("app-logs", 2, {})])
    yield broker
    broker.kill()


@pytest.mark.extensive(
    guard="tests/unit/agents/test_log_handler.py::"
    "test_while_the_buffer_is_full_one_call_waits_and_the_others_drop_at_once"
)
@pytest.mark.parametrize("died", [True, False])
def test_a_program_without_a_broker_is_not_slowed(own_broker: EmbeddedBroker, died: bool) -> None:
    """Its buffer of 32 MiB fills; from then on each record is dropped, and counted.

    died: the broker was there at first.
    """
    if not died:
        own_broker.kill()
    handler = KafkaHandler("app-logs", key="client", bootstrap_servers=own_broker.bootstrap)
    logger, text, took = logger_of(handler), "x" * 8_000, []
    if died:
        logger.info("first")
        wait_until(lambda: handler.delivered == 1, 20, "the first record is not there")
        own_broker.kill()
    while handler.dropped["buffer-full"] < 2_000:
        took.append(_time_of(lambda: logger.info(text)))
    begun = time.monotonic()
    handler.close()
    closed_s = time.monotonic() - begun
    full = sorted(took[-2_000:])
    buffered = handler.sent - handler.delivered + handler.dropped["undelivered"] * (not died)
    print(
        f"\nbroker {'died' if died else 'never there'}: {buffered} records of 8 KB fit;"
        f" a call took {sum(took[:-2_000]) / buffered * 1e6:.0f} µs while there was room,"
        f" {sum(full) / 2_000 * 1e6:.0f} µs then, {full[-20] * 1e3:.1f} ms in 99 of 100,"
        f" {full[-1] * 1e3:.1f} ms at most; close took {closed_s:.1f} s"
    )
    assert 30_000 << 10 <= buffered * len(text) <= 32_768 << 10
    assert handler.dropped == {"buffer-full": 2_000} | ({} if died else {"undelivered": buffered})
    assert handler.unconfirmed == (buffered if died else 0)
    assert full[-20] <= LONGEST_S
    assert closed_s < 5


def _time_of(call: Callable[[], None]) -> float:
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun


@pytest.mark.extensive(
    guard="tests/unit/agents/test_log_handler.py::"
    "test_sync_waits_once_in_vain_and_again_when_kafka_is_back"
)
def test_records_outlive_an_outage_as_far_as_the_buffer_holds(own_broker: EmbeddedBroker) -> None:
    handler = KafkaHandler(
        "app-logs", bootstrap_servers=own_broker.bootstrap, queue_buffering_max_kbytes=64
    )
    logger = logger_of(handler)
    logger.info("0")
    wait_until(lambda: handler.delivered == 1, 20, "the first record is not there")
    own_broker.kill()
    for number in range(1, 2_000):
        logger.info("%d", number)
    assert handler.dropped["buffer-full"] > 0
    own_broker.start()
    wait_until(lambda: handler.delivered == handler.sent, 60, "not all came after the outage")
    logger.info("2000")
    handler.close()
    assert handler.dropped == {"buffer-full": 2_001 - handler.sent}
    numbers = sorted(number_of(m) for m in log_of(own_broker, "app-logs", handler.sent))
    assert numbers == [*range(handler.sent - 1), 2_000]


@pytest.mark.extensive(
    guard="tests/unit/agents/test_log_handler.py::test_what_nobody_knows_is_not_counted_as_lost"
)
def test_what_a_slow_broker_took_is_not_counted_as_lost(own_broker: EmbeddedBroker) -> None:
    """It stands still while the program ends, and writes what it was sent once it goes on."""
    handler = KafkaHandler("app-logs", bootstrap_servers=own_broker.bootstrap)
    logger = logger_of(handler)
    logger.info("0")
    wait_until(lambda: handler.delivered == 1, 20, "the first record is not there")
    own_broker.stand_still()
    for number in range(1, 601):
        logger.info("%d", number)
    handler.close()
    own_broker.go_on()
    taken = log_of(own_broker, "app-logs", 2)
    assert 1 < len(taken) <= 601, "the broker took nothing: the test shows nothing"
    assert handler.dropped == Counter()
    assert (handler.sent, handler.delivered, handler.unconfirmed) == (601, 1, 600)


def test_the_example_of_the_page_is_a_program_that_loses_nothing_as_it_ends(
    broker: EmbeddedBroker, agents_python: Path, tmp_path: Path
) -> None:
    """It has the package alone, and nothing of this checkout."""
    [example] = [b for b in all_blocks() if b.file == "docs/logs.md" and b.language == "python"]
    bus_of(broker).ensure_topics([TopicSpec("shop-logs", 2, {})])
    program = tmp_path / "shop.py"
    program.write_text(example.text.replace("localhost:9092", broker.bootstrap))
    subprocess.run([agents_python, "-I", program], cwd=tmp_path, timeout=60, check=True)
    records = [json.loads(m.value or b"") for m in log_of(broker, "shop-logs", 2)]
    [shown] = [b for b in all_blocks() if b.file == "docs/logs.md" and b.language == "json"]
    documented = [json.loads(text) for text in re.split(r"\n(?={)", shown.text)]
    for one in (*records, *documented):
        one.pop("time")
        one.pop("exception", None)
    assert sorted(records, key=str) == sorted(documented, key=str)
