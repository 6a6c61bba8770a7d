"""Which partitions get ticks: all but those in which nothing is due."""

from __future__ import annotations

import pytest

from bus.base import Delivered, TopicPartition, TopicSpec, Unavailable
from bus.memory import MemoryBus
from streaming.ticks import HEARD_S, TimerWatch
from wire.job import Heartbeat, encode
from wire.source import encode_tick

PLACE: TopicPartition = ("t.sites.reports", 0)
BEATS = "t.job.buckets"
NOW = 1_790_000_000_000


class Partition:
    """A partition whose broker's clock stands at `time`, ms; monotonic time is `now`, s."""

    def __init__(self) -> None:
        self.time = NOW
        self.bus = MemoryBus(lambda: self.time)
        self.bus.ensure_topics([TopicSpec(PLACE[0], 1, {}), TopicSpec(BEATS, 1, {})])
        self.watch = TimerWatch(self.bus, BEATS, {"sites/0": PLACE})
        self.watch.resting(self.now)  # it reads from here on

    @property
    def now(self) -> float:
        """Seconds since the beginning."""
        return (self.time - NOW) / 1000

    def tick(self) -> Delivered:
        """Append a tick."""
        producer = self.bus.producer()
        tick = producer.send_and_wait(PLACE[0], None, encode_tick(), partition=PLACE[1])
        self.watch.ticked(self.now, tick)
        return tick

    def beat(self, offset: int, due: int | None) -> None:
        """Append a heartbeat of the job."""
        beat = Heartbeat(
            bucket="sites/0", scenario="sites", partition=0, epoch=1, executor="driver",
            host="here", log_time=self.time, offset=offset, assets=1, dues=1, records=0,
            dead_letters=0, stale=0, engine="kernel", at=self.time, due=due,
        )  # fmt: skip
        self.bus.producer().send_and_wait(BEATS, b"sites/0", encode(beat))

    def rests(self) -> bool:
        """Return whether it is at rest now."""
        return PLACE in self.watch.resting(self.now)


@pytest.fixture
def partition() -> Partition:
    """Return a partition with a tick, of which nothing has been heard yet."""
    partition = Partition()
    partition.tick()
    return partition


def test_a_partition_rests_until_its_next_timer_is_due(partition: Partition) -> None:
    assert not partition.rests()
    partition.beat(0, due=NOW + 2_000)
    assert partition.rests()
    partition.time = NOW + 1_999
    assert partition.rests()
    partition.time = NOW + 2_000
    assert not partition.rests()


def test_our_own_ticks_wake_nobody_and_a_report_does_at_once(partition: Partition) -> None:
    partition.beat(0, due=NOW + 60_000)
    partition.tick()
    assert partition.rests()
    partition.bus.producer().send_and_wait(PLACE[0], b"a", b"{}")
    assert not partition.rests()
    tick = partition.tick()
    assert not partition.rests()
    partition.beat(tick.offset, due=NOW + 60_000)
    assert partition.rests()


def test_a_partition_without_timers_rests(partition: Partition) -> None:
    partition.beat(0, due=0)
    assert partition.rests()


def test_nothing_rests_where_the_job_does_not_say_what_is_due(partition: Partition) -> None:
    partition.beat(0, due=None)
    assert not partition.rests()


def test_an_old_heartbeat_says_nothing(partition: Partition) -> None:
    partition.beat(0, due=NOW + 60_000)
    assert partition.rests()
    partition.time += int(HEARD_S * 1000) + 1
    assert not partition.rests()


def test_a_bucket_that_reads_its_log_again_does_not_rest(partition: Partition) -> None:
    tick = partition.tick()
    partition.beat(tick.offset, due=0)
    assert partition.rests()
    partition.beat(0, due=0)
    assert not partition.rests()


def test_without_the_logs_end_nothing_is_known(partition: Partition) -> None:
    partition.beat(0, due=0)
    assert partition.rests()
    partition.bus.stop()
    with pytest.raises(Unavailable):
        partition.rests()
