"""The loop under whatever follows topics: what it reads, how it recovers, how it ends."""

from __future__ import annotations

import itertools
import threading

import pytest
from structlog.testing import capture_logs

from bus.base import BusError, Unavailable
from bus.follower import PAUSES_S, Follower, Moved, TopicConsumer
from bus.memory import MemoryBus
from support.kafka.bus_contract import made
from support.kafka.counted_stop import CountedStop
from support.run.stack import wait_until


class Values(TopicConsumer):
    """Keeps the values of a topic; where it reads on is one past what it has kept."""

    name = "values"

    def __init__(self, bus: MemoryBus, topic: str) -> None:
        self.bus, self.topic = bus, topic
        self.values: list[bytes | None] = []
        self.gaps: list[tuple[int, int]] = []
        self.at = self.opened = 0
        self.refusals: list[Exception] = []
        """What the next steps raise, once they have read."""
        self.recovered: list[Exception] = []

    def step(self) -> int:
        if self._reader is None:
            self.bus.wait(0)
            self._reader = self.bus.reader({(self.topic, 0): self.at})
            self.opened += 1
        messages = self._reader.poll(0.01)
        self.gaps += [(gap.requested, gap.got) for gap in self._pop_gaps(self._reader)]
        if self.refusals:
            raise self.refusals.pop(0)
        self.values += [message.value for message in messages]
        self.at = self._reader.positions()[self.topic, 0]
        return len(messages)

    def pause_s(self, read: int) -> float:
        return 0.0 if read else 7.0

    def recover(self, fault: Exception) -> None:
        self.recovered.append(fault)
        super().recover(fault)


@pytest.fixture
def bus() -> MemoryBus:
    return MemoryBus(lambda: 0)


@pytest.fixture
def consumer(bus: MemoryBus) -> Values:
    """A consumer of a topic with three values."""
    topic, producer = made(bus, "t"), bus.producer()
    for value in (b"0", b"1", b"2"):
        producer.send_and_wait(topic, b"k", value, partition=0)
    return Values(bus, topic)


def test_it_reads_all_there_is_and_pauses_as_the_consumer_says(consumer: Values):
    stop = CountedStop(2)
    Follower(consumer, stop).run()
    assert consumer.values == [b"0", b"1", b"2"]
    assert stop.asked == [7.0, 7.0]
    assert consumer._reader is None  # it was closed in the end
    assert consumer.opened == 1


def test_a_lost_broker_is_waited_for_ever_longer(bus: MemoryBus, consumer: Values):
    clock = itertools.count(100.0, 10.0)
    stop = CountedStop(len(PAUSES_S) + 2)
    follower = Follower(consumer, stop, lambda: next(clock))
    bus.stop()
    follower.run()
    assert stop.asked == [*PAUSES_S, PAUSES_S[-1], PAUSES_S[-1]]
    assert follower.outage is not None
    assert (follower.outage.since, follower.outage.faults) == (100.0, len(stop.asked))
    assert follower.outage.why == str(consumer.recovered[-1])
    assert {type(fault) for fault in consumer.recovered} == {Unavailable}


def test_it_goes_on_where_the_consumer_has_come(bus: MemoryBus, consumer: Values):
    producer = bus.producer()

    def lose() -> None:
        bus.stop()
        consumer.close()

    def come_back() -> None:
        bus.start()
        producer.send_and_wait(consumer.topic, b"k", b"3", partition=0)

    stop = CountedStop(5, {1: lose, 3: come_back})
    follower = Follower(consumer, stop)
    follower.run()
    assert consumer.values == [b"0", b"1", b"2", b"3"]
    assert stop.asked == [7.0, PAUSES_S[0], PAUSES_S[1], 7.0, 7.0]
    assert follower.outage is None


def test_what_a_fault_left_unhandled_is_read_again(consumer: Values):
    consumer.refusals = [BusError("refused"), BusError("refused again")]
    stop = CountedStop(3)
    Follower(consumer, stop).run()
    assert consumer.values == [b"0", b"1", b"2"]
    assert (consumer.opened, stop.asked) == (3, [PAUSES_S[0], PAUSES_S[1], 7.0])


def test_after_a_recovery_the_pauses_begin_anew(consumer: Values):
    stop = CountedStop(3, {2: lambda: consumer.refusals.append(BusError("again"))})
    consumer.refusals = [BusError("once")]
    follower = Follower(consumer, stop)
    follower.run()
    assert stop.asked == [PAUSES_S[0], 7.0, PAUSES_S[0]]
    assert follower.outage is not None
    assert (follower.outage.why, follower.outage.faults) == ("again", 1)


def test_a_consumer_that_has_moved_is_opened_at_once(consumer: Values):
    consumer.refusals = [Moved()]
    stop = CountedStop(1)
    follower = Follower(consumer, stop)
    follower.run()
    assert (consumer.opened, consumer.recovered, follower.outage) == (2, [], None)
    assert (consumer.values, stop.asked) == ([b"0", b"1", b"2"], [7.0])


def test_what_is_none_of_its_faults_ends_the_loop(consumer: Values):
    consumer.refusals = [ZeroDivisionError()]
    with pytest.raises(ZeroDivisionError):
        Follower(consumer, CountedStop(1)).run()
    assert (consumer.opened, consumer._reader) == (1, None)


@pytest.mark.parametrize(("losses", "level"), [(True, "error"), (False, "warning")])
def test_gaps_are_told_once(
    bus: MemoryBus,
    consumer: Values,
    losses: bool,
    level: str,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(Values, "gaps_are_losses", losses)
    bus.truncate(consumer.topic, 0, 2)
    with capture_logs() as logs:
        Follower(consumer, CountedStop(3)).run()
    assert (consumer.gaps, consumer.values) == ([(0, 2)], [b"2"])
    assert [(each["log_level"], each["what"]) for each in logs] == [(level, "values")]


def test_the_log_says_how_long_an_outage_was(consumer: Values):
    consumer.refusals = [BusError("once"), BusError("twice")]
    clock = itertools.count(100.0, 10.0)
    with capture_logs() as logs:
        Follower(consumer, CountedStop(3), lambda: next(clock)).run()
    events = [(each["event"], each["for_s"]) for each in logs]
    assert events == [
        ("fault, will try again", 0.0),
        ("fault, will try again", 10.0),
        ("goes on", 20),
    ]


def test_a_thread_follows_until_it_is_stopped(bus: MemoryBus, consumer: Values):
    consumer.pause_s = lambda read: 0.0  # type: ignore[method-assign]
    follower = Follower(consumer)
    follower.start()
    wait_until(lambda: len(consumer.values) == 3, 10, "the topic is not read")
    assert "values" in {thread.name for thread in threading.enumerate()}
    follower.stop()
    assert "values" not in {thread.name for thread in threading.enumerate()}
    assert consumer._reader is None


def test_one_that_was_not_started_can_be_stopped(consumer: Values):
    follower = Follower(consumer)
    follower.stop()
    follower.run()
    assert consumer.opened == 0
