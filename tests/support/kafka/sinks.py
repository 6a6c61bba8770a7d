"""Sink topics in a bus in memory, as the job would have filled them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from bus.base import Bus, ConsumerRecord, TopicSpec
from dashboard.core.common import kafka
from domain.bounds import Bound, applied_time
from domain.fold import Bucket
from domain.records import DeadLetter, Emission, Leave, Misrouted, Record, Report, StateRecord
from domain.scenario import Scenario
from wire.forward import forward_headers
from wire.job import Heartbeat, LatenessReport, bucket_name, encode
from wire.partitioner import partition_of
from wire.signature import Signer
from wire.sink import DeadRecord, encode_dead_letter, encode_headers, encode_state
from wire.source import (
    decode_placed,
    encode_command,
    encode_leave,
    encode_report,
    encode_scenario,
    encode_tick,
)
from wire.topics import Topics


class PlayedJob:
    """The job's part, played by the fold in memory: source topics in, sink topics out.

    engine: the one that its heartbeats name.
    """

    engine = "python"

    def __init__(
        self,
        bus: Bus,
        scenarios: Iterable[Scenario],
        epoch: int = 1,
        topics: Topics | None = None,
    ) -> None:
        self.bus, self.epoch = bus, epoch
        self.topics = topics or Topics()
        self.bounds: dict[str, list[Bound]] = {}
        self.scenarios = {scenario.name: scenario for scenario in scenarios}
        bus.ensure_topics(TopicSpec(*spec) for spec in self.topics.specs(self.scenarios.values()))
        self.producer = bus.producer()
        self._time = 0
        self._signer = Signer(lambda: kafka.key_file().ring(), lambda: self._time)
        self.buckets = {
            (name, partition): Bucket(scenario, partition, epoch)
            for name, scenario in self.scenarios.items()
            for partition in range(scenario.partitions)
        }
        for (name, partition), bucket in self.buckets.items():
            self._send(name, None, encode_scenario(bucket.scenario), partition)

    def put(self, scenario: str, record: Record) -> None:
        """Append a report or a command to the scenario's source topic."""
        key = record.asset.encode()  # type: ignore[union-attr]
        partition = partition_of(key, self.scenarios[scenario].partitions)
        if isinstance(record, Report):
            self._send(scenario, key, encode_report(record), partition)
        else:
            self.command(scenario, key, encode_command(record), partition)  # type: ignore[arg-type]

    def command(self, scenario: str, key: bytes | None, value: bytes, partition: int) -> None:
        """Append what commands something, signed when the record before was appended."""
        signed = self._signer.sign(value, self.topics.reports(scenario), key)
        self._send(scenario, key, signed, partition)

    def leave(self, scenario: str, leave: Leave) -> None:
        """Append that an agent reports no more to the scenario's source topic."""
        key = leave.asset.encode()
        partition = partition_of(key, self.scenarios[scenario].partitions)
        self._send(scenario, key, encode_leave(leave), partition)

    def tick(self) -> None:
        """Append a tick to every source partition."""
        for scenario, partition in self.buckets:
            self._send(scenario, None, encode_tick(), partition)

    def _send(self, scenario: str, key: bytes | None, value: bytes, partition: int) -> None:
        topic = self.topics.reports(scenario)
        place = self.producer.send_and_wait(topic, key, value, partition=partition)
        self._time = place.timestamp

    def run(self) -> None:
        """Fold what has arrived, emit, and send every bucket's heartbeat."""
        for (scenario, partition), bucket in self.buckets.items():
            topic = self.topics.reports(scenario)
            for m in self.unread(topic, partition, bucket.offset + 1):
                count = self.scenarios[scenario].partitions
                held = self.bounds.get(bucket_name(scenario, partition), ())
                time = applied_time(held, m.offset, m.timestamp, bucket.clock)
                # The first is the rule with which the bucket has begun: it is not signed.
                trust = kafka.trust(m.topic) if m.offset else None
                record = decode_placed(
                    m.key, m.value, m.timestamp, partition, count, trust, m.headers
                )
                emissions = bucket.apply(record, m.offset, time)
                self.emit(scenario, emissions)
                self._refuse(m, emissions)
                if isinstance(record, Misrouted):
                    self._forward(m, record.record.asset)
            self._beat(scenario, bucket)

    def unread(self, topic: str, partition: int, offset: int) -> Iterator[ConsumerRecord]:
        """Yield what is in a partition from an offset on."""
        reader = self.bus.reader({(topic, partition): offset})
        yield from reader.poll(0, 1_000_000)
        reader.close()

    def _refuse(self, m: ConsumerRecord, emissions: Iterable[Emission]) -> None:
        """Append a dead letter where the record was refused."""
        place = (m.topic, m.partition, m.offset, m.timestamp)
        for emission in emissions:
            if isinstance(emission, DeadLetter):
                dead = DeadRecord(emission.reason, *place, m.key, m.value, m.headers)
                key, value, headers = encode_dead_letter(dead)
                topic = self.topics.dead_letters
                self.producer.send_and_wait(topic, key, value, headers=headers)

    def _forward(self, m: ConsumerRecord, asset: str) -> None:
        """Append a record to the partition of its asset, for the next run."""
        headers = forward_headers(m.partition, m.offset, m.timestamp, m.headers)
        self.producer.send_and_wait(m.topic, asset.encode(), m.value, headers=headers)

    def emit(self, scenario: str, emissions: Iterable[Emission]) -> None:
        """Append emissions to the scenario's states topic."""
        for emission in emissions:
            if not isinstance(emission, DeadLetter):
                value = encode_state(emission) if isinstance(emission, StateRecord) else None
                self.producer.send_and_wait(
                    self.topics.states(scenario),
                    emission.asset.encode(),
                    value,
                    headers=encode_headers(emission),
                )

    def _beat(self, scenario: str, bucket: Bucket) -> None:
        beat = Heartbeat(
            bucket=bucket_name(scenario, bucket.partition),
            scenario=scenario,
            partition=bucket.partition,
            epoch=self.epoch,
            executor="driver",
            host="here",
            log_time=bucket.clock,
            offset=bucket.offset,
            assets=bucket.live,
            timers=len(bucket.timer_index),
            records=0,
            dead_letters=0,
            stale=bucket.lateness.total("stale"),
            engine=self.engine,
            at=bucket.clock,
            mutes=tuple(bucket.mutes.values()),
            late=bucket.lateness.total("late"),
            silent=bucket.lateness.total("silent"),
            agents=tuple(LatenessReport(*row) for row in bucket.lateness.rows()),
        )
        bucket.lateness.clear()
        self.producer.send_and_wait(self.topics.buckets, beat.bucket.encode(), encode(beat))
