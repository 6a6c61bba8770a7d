"""The producer whose sinks let records wait: what reaches the log, when, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager

import pytest

from bus.base import BusError, ConsumerRecord, TopicSpec, Unavailable
from bus.memory import MemoryBus
from streaming.pipelines.emitter import CoalescedProducer
from support.run.stack import wait_until
from wire.emission import MAX_BYTES

AGES = 10 * 60 * 1000


@pytest.fixture(autouse=True)
def topics(bus: MemoryBus) -> None:
    bus.ensure_topics([TopicSpec("orders", 1, {}), TopicSpec("totals", 1, {})])


def in_log(bus: MemoryBus, topic: str) -> list[ConsumerRecord]:
    with closing(bus.reader({(topic, 0): 0})) as reader:
        return reader.poll(0)


@contextmanager
def sinks(
    bus: MemoryBus,
    every: Mapping[str, float],
    max_bytes: int = MAX_BYTES,
    message_timeout_s: float = 30,
) -> Iterator[CoalescedProducer]:
    """A coalesced producer; closed without what it may still raise."""
    producer = bus.producer(message_timeout_s=message_timeout_s)
    coalesced = CoalescedProducer(producer, every, max_bytes)
    yield coalesced
    bus.start()
    try:
        coalesced.close()
    except BusError:
        assert not coalesced._thread.is_alive()


def test_what_waits_leaves_by_itself_as_one_record(bus: MemoryBus):
    with sinks(bus, {"orders": 50}) as coalesced:
        for number in range(7):
            coalesced.put("orders", b"order-7", b"%d" % number, [("id", b"%d" % number)])
        wait_until(lambda: in_log(bus, "orders"), 10, "nothing was emitted")
        (record,) = in_log(bus, "orders")
        assert (record.value, record.headers) == (b"6", (("id", b"6"),))
        assert (coalesced.updates["orders"], coalesced.records["orders"]) == (7, 1)


def test_without_a_wait_each_update_is_a_record_at_once(bus: MemoryBus):
    with sinks(bus, {"orders": 0}) as coalesced:
        for number in range(7):
            coalesced.put("orders", b"order-7", b"%d" % number)
            assert len(in_log(bus, "orders")) == number + 1


def test_a_flush_leaves_nothing_waiting(bus: MemoryBus):
    with sinks(bus, {"orders": AGES, "totals": AGES}) as coalesced:
        coalesced.put("orders", b"a", b"1")
        coalesced.put("totals", b"all", None)
        assert in_log(bus, "orders") == in_log(bus, "totals") == []
        coalesced.flush()
        assert [(m.key, m.value) for m in in_log(bus, "orders")] == [(b"a", b"1")]
        assert [(m.key, m.value) for m in in_log(bus, "totals")] == [(b"all", None)]


def test_sinks_share_the_bytes(bus: MemoryBus):
    with sinks(bus, {"orders": AGES, "totals": AGES}, max_bytes=1 << 20) as coalesced:
        coalesced.put("orders", b"a", b"x" * 600_000)
        assert in_log(bus, "orders") == in_log(bus, "totals") == []
        coalesced.put("totals", b"b", b"x" * 600_000)
        assert [m.key for m in in_log(bus, "totals")] == [b"b"]


def test_a_flush_raises_what_kafka_refused_once(bus: MemoryBus):
    with sinks(bus, {"nowhere": 0, "orders": 0}) as coalesced:
        coalesced.put("nowhere", b"a", b"1")
        coalesced.put("orders", b"a", b"x" * 2_000_000)
        with pytest.raises(BusError, match=r"topic nowhere|more than \d+ bytes"):
            coalesced.flush()
        coalesced.flush()


def test_a_flush_does_not_pass_over_a_broker_that_is_gone(bus: MemoryBus):
    with sinks(bus, {"orders": AGES}) as coalesced:
        coalesced.put("orders", b"a", b"1")
        bus.stop()
        with pytest.raises(Unavailable, match="1 records are not confirmed"):
            coalesced.flush(0.05)
        bus.start()
        coalesced.flush()
        assert [m.key for m in in_log(bus, "orders")] == [b"a"]


def test_a_record_given_up_is_told(bus: MemoryBus):
    with sinks(bus, {"orders": AGES}, message_timeout_s=0.05) as coalesced:
        coalesced.put("orders", b"a", b"1")
        bus.stop()
        with pytest.raises(Unavailable, match="stopped"):
            coalesced.flush()


@pytest.mark.parametrize(("topic", "key"), [("totals", b"a"), ("orders", None)])
def test_a_record_that_nothing_would_replace_is_sent_at_once(bus: MemoryBus, topic, key):
    with sinks(bus, {"orders": AGES}) as coalesced:
        coalesced.put(topic, key, b"1")
        coalesced.put(topic, key, b"2")
        assert [m.value for m in in_log(bus, topic)] == [b"1", b"2"]


def test_a_full_producer_is_waited_for(bus: MemoryBus, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("bus.memory.MAX_QUEUE", 3)
    with sinks(bus, {"orders": AGES}) as coalesced:
        for number in range(20):
            coalesced.put("orders", b"%d" % number, b"1")
        coalesced.flush()
        assert len(in_log(bus, "orders")) == 20
