"""Which partitions get ticks: all but those in which nothing is due; and which brokers' clocks are
behind, by the times that they stamp ticks with."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bus.base import Delivered, TopicPartition, TopicSpec, Unavailable
from bus.memory import MemoryBus
from config.settings import Settings
from streaming.fold.progress import ProgressReporter
from streaming.job.planner import Planner
from streaming.job.ticks import FRESH_S, BrokerClocks, Ticker, TimerWatch
from wire.job import ClockBehind, Heartbeat, QueryReport, decode_progress, encode
from wire.source import encode_tick
from wire.topics import Topics

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
            host="here", log_time=self.time, offset=offset, assets=1, timers=1, records=0,
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
    partition.time += int(FRESH_S * 1000) + 1
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


# ---- a broker's clock behind --------------------------------------------------------------------

BACK = 600_000
PLACES = {"sites/0": PLACE, "sites/1": (PLACE[0], 1)}


class Clocks:
    """Ticks of two partitions, sent once a second, and what is told of the brokers' clocks."""

    def __init__(self) -> None:
        self.time = NOW
        self.reports: list[Mapping[str, ClockBehind]] = []
        self.clocks = BrokerClocks(PLACES, self.reports.append)

    def tick(self, behind: int, other: int = 0) -> None:
        """Have a second pass, and a tick appended to each partition so far behind, ms."""
        self.time += 1_000
        for name, by in (("sites/0", behind), ("sites/1", other)):
            self.clocks.ticked(self.time, Delivered(*PLACES[name], 0, self.time - by))
        self.clocks.report()


def test_a_clock_that_is_behind_for_ten_seconds_is_told_once_and_its_end_too() -> None:
    seen = Clocks()
    for _ in range(10):
        seen.tick(BACK)
    assert seen.reports == []
    for _ in range(5):
        seen.tick(BACK)
    assert seen.reports == [{"sites/0": ClockBehind(BACK, NOW + 1_000)}]
    seen.tick(0)
    seen.tick(0)
    assert seen.reports[1:] == [{}]


def test_five_seconds_behind_are_none() -> None:
    seen = Clocks()
    for _ in range(20):
        seen.tick(5_000, other=5_001)
    assert seen.reports == [{"sites/1": ClockBehind(5_001, NOW + 1_000)}]


def test_a_tick_at_the_right_time_begins_the_ten_seconds_anew() -> None:
    seen = Clocks()
    for number in range(40):
        seen.tick(BACK if number % 10 else 0)
    assert seen.reports == []


def test_a_slow_delivery_is_no_clock_that_is_behind() -> None:
    """A tick that was long on its way is appended late, never early."""
    seen = Clocks()
    for _ in range(20):
        seen.tick(-8_000)
    assert seen.reports == []
    for _ in range(20):
        seen.tick(BACK - 8_000)  # so long a way makes the clock look less behind, not right
    assert [set(report) for report in seen.reports] == [{"sites/0"}]


def test_each_partition_is_told_of_and_a_clock_that_moves_on() -> None:
    seen = Clocks()
    for number in range(15):
        seen.tick(BACK, other=BACK if number > 2 else 0)
    assert [set(report) for report in seen.reports] == [{"sites/0"}, {"sites/0", "sites/1"}]
    seen.tick(BACK + 5_000, other=BACK)
    assert len(seen.reports) == 2
    seen.tick(BACK + 5_001, other=BACK)
    assert seen.reports[2]["sites/0"] == ClockBehind(BACK + 5_001, NOW + 1_000)


def test_the_ticker_compares_append_times_with_the_time_of_sending(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driver, reports = [NOW], list[Mapping[str, ClockBehind]]()
    monkeypatch.setattr("streaming.job.ticks.time", lambda: driver[0] / 1000)
    bus = MemoryBus(lambda: driver[0] - BACK)
    bus.ensure_topics([TopicSpec(PLACE[0], 1, {})])
    clocks, producer = BrokerClocks({"sites/0": PLACE}, reports.append), bus.producer()
    ticker = Ticker(bus, [PLACE], 250, clocks=clocks)
    for _ in range(11):
        bus.stop()
        ticker._tick(producer, PLACE)
        driver[0] += 1_000
        bus.start()
        producer.poll(0)  # it is appended, and confirmed, a second after it was sent
        clocks.report()
    assert reports == [{"sites/0": ClockBehind(BACK - 1_000, NOW)}]


def reported(bus: MemoryBus) -> list[QueryReport]:
    """Return what a query has reported."""
    reader = bus.reader({("job.progress", 0): 0})
    return [decode_progress(message.value) for message in reader.poll(0)]


def reporter() -> tuple[MemoryBus, ProgressReporter]:
    """Return what tells how a query fares, and the bus on which it does."""
    bus = MemoryBus(lambda: NOW)
    bus.ensure_topics([TopicSpec("job.progress", 1, {})])
    return bus, ProgressReporter(bus, "job.progress", "kernel", lambda: NOW)


def test_clocks_are_reported_at_once_and_with_all_that_follows() -> None:
    bus, report = reporter()
    report.status("running", "all is well")
    behind = {"sites/0": ClockBehind(BACK, NOW - 10_000)}
    report.judged_clocks(behind)
    report.batch({"batchId": 4})
    report.judged_clocks({})
    reports = reported(bus)
    assert [each.clocks_behind for each in reports] == [{}, behind, behind, {}]
    assert [each.message for each in reports[:2]] == ["all is well"] * 2


def test_without_ticks_nothing_is_said_of_clocks(tmp_path: Path) -> None:
    bus, report = reporter()
    workload: Any = SimpleNamespace(
        home=tmp_path,
        topics=Topics(),
        settings=Settings(_env_file=None),  # type: ignore[call-arg]
    )
    spark: Any = None
    planner = Planner(workload, bus, report, None, spark)  # type: ignore[arg-type]
    report.clocks_behind = {"sites/0": ClockBehind(BACK, NOW)}
    planner._ticker = Ticker(bus, [], 1_000)
    planner._ticker.start()
    planner.stop_ticks()
    report.status("stopped")
    assert reported(bus)[-1].clocks_behind == {}
