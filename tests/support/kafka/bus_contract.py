"""What every bus keeps to. Test modules import these and bring a `bus` and a `prefix`."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from bus.base import (
    Bus,
    ConsumerRecord,
    Delivered,
    Outgoing,
    Reader,
    TooLarge,
    TopicMismatch,
    TopicSpec,
)
from wire.partitioner import partition_of

__all__ = [
    "made",
    "read",
    "test_callbacks_come_once_and_in_order",
    "test_every_key_lands_on_its_partition",
    "test_explicit_partition_and_none_key",
    "test_missing_topic_has_no_partitions",
    "test_offset_past_the_end_goes_to_the_earliest",
    "test_offsets_are_begin_and_end",
    "test_other_partition_count_is_refused",
    "test_poll_returns_at_the_first_record",
    "test_positions_follow_what_was_read",
    "test_reassign_reads_those_and_no_others",
    "test_record_keeps_all_its_parts",
    "test_settings_are_those_in_force",
    "test_threads_share_a_producer",
    "test_too_large_is_refused",
    "test_topic_ids_tell_topics_apart",
    "test_topics_are_made_once",
    "test_unknown_topic_and_partition_come_back_as_errors",
]


def made(bus: Bus, name: str, partitions: int = 1) -> str:
    """A topic of that name, as source topics are."""
    bus.ensure_topics([TopicSpec(name, partitions, {"message.timestamp.type": "LogAppendTime"})])
    return name


def read(reader: Reader, count: int, timeout_s: float = 15) -> list[ConsumerRecord]:
    """The next `count` records."""
    messages: list[ConsumerRecord] = []
    end = time.monotonic() + timeout_s
    while len(messages) < count and time.monotonic() < end:
        messages += reader.poll(0.2, count - len(messages))
    assert len(messages) == count
    return messages


def test_topics_are_made_once(bus: Bus, prefix: str) -> None:
    made(bus, f"{prefix}.a", 3)
    made(bus, f"{prefix}.a", 3)
    assert bus.partitions(f"{prefix}.a") == 3


def test_missing_topic_has_no_partitions(bus: Bus, prefix: str) -> None:
    assert bus.partitions(f"{prefix}.missing") == 0
    assert bus.offsets([f"{prefix}.missing"]) == {}
    assert bus.partitions(f"{prefix}.missing") == 0


def test_other_partition_count_is_refused(bus: Bus, prefix: str) -> None:
    made(bus, f"{prefix}.fixed", 2)
    with pytest.raises(TopicMismatch, match=r"fixed has 2 partitions, expected 3"):
        made(bus, f"{prefix}.fixed", 3)


def test_topic_ids_tell_topics_apart(bus: Bus, prefix: str) -> None:
    one, other = made(bus, f"{prefix}.id-a"), made(bus, f"{prefix}.id-b")
    ids = bus.topic_ids([one, other, f"{prefix}.missing"])
    assert set(ids) == {one, other}
    assert len(set(ids.values())) == 2
    assert bus.topic_ids([one]) == {one: ids[one]}
    assert bus.topic_ids([]) == {}


def test_settings_are_those_in_force(bus: Bus, prefix: str) -> None:
    plain, stamped = f"{prefix}.plain", made(bus, f"{prefix}.stamped")
    bus.ensure_topics(
        [TopicSpec(plain, 1, {}), TopicSpec(stamped, 1, {"cleanup.policy": "compact"})]
    )

    settings_by_topic = bus.settings([plain, stamped, f"{prefix}.missing"])

    assert settings_by_topic.keys() == {plain, stamped}
    names = ("message.timestamp.type", "cleanup.policy")
    assert [settings_by_topic[stamped][name] for name in names] == ["LogAppendTime", "delete"]
    assert [settings_by_topic[plain][name] for name in names] == ["CreateTime", "delete"]


def test_record_keeps_all_its_parts(bus: Bus, prefix: str) -> None:
    topic, producer = made(bus, f"{prefix}.parts"), bus.producer()
    headers = (("version", b"1.2.3"), ("version", b"again"), ("empty", b""))
    sent = producer.send_and_wait(topic, b"key", b"value", headers=headers)
    producer.send_and_wait(topic, b"gone", None)

    kept, tombstone = read(bus.reader({(topic, 0): 0}), 2)

    assert kept == ConsumerRecord(topic, 0, sent.offset, sent.timestamp, b"key", b"value", headers)
    assert (tombstone.key, tombstone.value, tombstone.headers) == (b"gone", None, ())
    assert abs(kept.timestamp - time.time() * 1000) < 60_000


def test_every_key_lands_on_its_partition(bus: Bus, prefix: str) -> None:
    topic, producer = made(bus, f"{prefix}.keys", 7), bus.producer()
    names = [f"site-{n}.example" for n in range(300)] + ["ü", "🚦", "10.0.0.0/8", "a", "ab", "abc"]
    landed: dict[bytes, int] = {}

    def keep(key: bytes) -> Callable[[object], None]:
        return lambda outcome: landed.update({key: outcome.partition})  # type: ignore[attr-defined]

    for key in (name.encode() for name in names):
        producer.send(topic, key, b"x", on_delivery=keep(key))

    assert producer.flush(20) == 0
    assert landed == {name.encode(): partition_of(name.encode(), 7) for name in names}
    assert set(landed.values()) == set(range(7))


def test_explicit_partition_and_none_key(bus: Bus, prefix: str) -> None:
    topic, producer = made(bus, f"{prefix}.explicit", 4), bus.producer()
    places = [producer.send_and_wait(topic, None, b"tick", partition=at)[1] for at in range(4)]
    assert places == [0, 1, 2, 3]
    assert 0 <= producer.send_and_wait(topic, None, b"anywhere").partition < 4


def test_all_records_of_a_list_come_to_their_places(bus: Bus, prefix: str) -> None:
    topic, producer = made(bus, f"{prefix}.list"), bus.producer()
    large = Outgoing(topic, b"k", b"v" * 3_000_000)
    results = producer.send_all([Outgoing(topic, b"k", b"1"), large, Outgoing(topic, None, b"2")])
    first, refused, last = results
    assert isinstance(first, Delivered)
    assert isinstance(last, Delivered)
    assert isinstance(refused, TooLarge)
    assert (first.offset, last.offset) == (0, 1)
    assert producer.send_all([]) == []


def test_what_is_not_confirmed_in_time_may_still_arrive(bus: Bus, prefix: str) -> None:
    topic, producer = made(bus, f"{prefix}.unconfirmed"), bus.producer()
    assert producer.send_all([Outgoing(topic, b"k", b"v")], timeout_s=-1) == [None]
    assert producer.flush(20) == 0


def test_callbacks_come_once_and_in_order(bus: Bus, prefix: str) -> None:
    topic, producer = made(bus, f"{prefix}.order"), bus.producer()
    outcomes: list[Delivered] = []
    for _ in range(500):
        producer.send(topic, b"k", b"v", on_delivery=outcomes.append)  # type: ignore[arg-type]
    assert producer.flush(20) == 0
    assert [outcome.offset for outcome in outcomes] == list(range(500))


def test_unknown_topic_and_partition_come_back_as_errors(bus: Bus, prefix: str) -> None:
    topic = made(bus, f"{prefix}.one")
    producer = bus.producer(message_timeout_s=2)
    outcomes: list[object] = []
    producer.send(topic, b"k", b"v", partition=5, on_delivery=outcomes.append)
    producer.send(f"{prefix}.nowhere", b"k", b"v", on_delivery=outcomes.append)
    assert producer.flush(15) == 0
    assert len(outcomes) == 2
    assert all(isinstance(outcome, Exception) for outcome in outcomes)


def test_too_large_is_refused(bus: Bus, prefix: str) -> None:
    topic = made(bus, f"{prefix}.large")
    with pytest.raises(TooLarge):
        bus.producer().send_and_wait(topic, b"k", b"x" * 1_100_000)


def test_threads_share_a_producer(bus: Bus, prefix: str) -> None:
    topic, producer = made(bus, f"{prefix}.threads"), bus.producer()
    offsets: list[int] = []

    def send() -> None:
        offsets.extend(producer.send_and_wait(topic, b"k", b"v").offset for _ in range(20))

    threads = [threading.Thread(target=send) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(offsets) == list(range(80))


def test_offsets_are_begin_and_end(bus: Bus, prefix: str) -> None:
    topic, producer = made(bus, f"{prefix}.ends", 2), bus.producer()
    for _ in range(3):
        producer.send_and_wait(topic, None, b"v", partition=1)
    assert bus.offsets([topic]) == {(topic, 0): (0, 0), (topic, 1): (0, 3)}


def test_positions_follow_what_was_read(bus: Bus, prefix: str) -> None:
    topic, producer = made(bus, f"{prefix}.positions", 2), bus.producer()
    for number in range(10):
        producer.send_and_wait(topic, None, str(number).encode(), partition=0)
    reader = bus.reader({(topic, 0): 4, (topic, 1): 0})
    assert reader.positions() == {(topic, 0): 4, (topic, 1): 0}

    assert [m.value for m in read(reader, 3)] == [b"4", b"5", b"6"]

    assert reader.positions() == {(topic, 0): 7, (topic, 1): 0}
    assert reader.gaps == []


def test_the_end_is_where_everything_has_been_returned(bus: Bus, prefix: str) -> None:
    topic, producer = made(bus, f"{prefix}.end", 2), bus.producer()
    for number in range(10):
        producer.send_and_wait(topic, None, str(number).encode(), partition=0)
    reader = bus.reader({(topic, 0): 4, (topic, 1): 0})

    assert len(reader.poll(20, 2)) == 2
    assert not reader.at_end()

    read(reader, 4)
    assert reader.poll(1) == []
    assert reader.at_end()
    producer.send_and_wait(topic, None, b"late", partition=1)
    read(reader, 1)
    assert reader.at_end()


def test_reassign_reads_those_and_no_others(bus: Bus, prefix: str) -> None:
    topic, producer = made(bus, f"{prefix}.assign", 2), bus.producer()
    for number in range(6):
        producer.send_and_wait(topic, None, str(number).encode(), partition=number % 2)
    reader = bus.reader({(topic, 0): 0, (topic, 1): 0})
    read(reader, 1)

    reader.assign({(topic, 1): 1})

    assert [m.value for m in read(reader, 2)] == [b"3", b"5"]
    assert reader.poll(0.3) == []
    assert reader.positions() == {(topic, 1): 3}


def test_offset_past_the_end_goes_to_the_earliest(bus: Bus, prefix: str) -> None:
    topic, producer = made(bus, f"{prefix}.gap", 2), bus.producer()
    for partition in (0, 1):
        producer.send_and_wait(topic, None, b"%d" % partition, partition=partition)
    reader = bus.reader({(topic, 0): 50, (topic, 1): 1})

    assert [m.value for m in read(reader, 1)] == [b"0"]

    assert reader.gaps == [(topic, 0, 50, 0)]
    assert reader.positions() == {(topic, 0): 1, (topic, 1): 1}


def test_poll_returns_at_the_first_record(bus: Bus, prefix: str) -> None:
    topic, producer = made(bus, f"{prefix}.prompt"), bus.producer()
    reader = bus.reader({(topic, 0): 0})
    assert reader.poll(0.1) == []
    late = threading.Timer(0.1, producer.send_and_wait, (topic, b"k", b"v"))
    late.start()
    started = time.monotonic()
    assert len(reader.poll(20)) == 1
    assert time.monotonic() - started < 10
    late.join()
