"""A reader of partitions that skips what cannot be unpacked and recovers from faults."""

# librdkafka's own error codes begin with an underscore.
# ruff: noqa: SLF001

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import Any

import confluent_kafka as ck

from bus.base import AccessRefused, BusError, ConsumerRecord, LogGap, NotPermitted, TopicPartition
from bus.kafka_batches import KafkaBatches
from bus.kafka_errors import REFUSED_S, Login, bus_error, log, raised

# How much a reader fetches at once and unpacks at most; a larger batch is skipped. It does not wait
# for transactions to end: one left open would block it for as long.
_READER = {
    "group.id": "tallyboard-reader",
    "enable.auto.commit": "false",
    "isolation.level": "read_uncommitted",
    "auto.offset.reset": "error",
    "enable.partition.eof": "true",
    "topic.metadata.refresh.interval.ms": "10000",
    "fetch.max.bytes": str(16 << 20),
    "fetch.message.max.bytes": str(1 << 20),
    "receive.message.max.bytes": str(128 << 20),
}
# What librdkafka reports, again and again, for a batch that it does not unpack.
_UNREADABLE = {ck.KafkaError._BAD_COMPRESSION, ck.KafkaError._BAD_MSG}
_ENOUGH_BYTES = 262_144
_BACKOFF_S = 0.1
_PATIENCE_S = 3.0
_LOOK_S = 0.5


def _gathering(seconds: float) -> dict[str, str]:
    """Return the consumer settings for answers after `seconds` s, or once there is enough data."""
    if not seconds:
        return {}
    wait_ms = str(round(seconds * 1000))
    return {"fetch.min.bytes": str(_ENOUGH_BYTES), "fetch.wait.max.ms": wait_ms}


class KafkaReader:
    """A synchronous consumer of assigned partitions."""

    def __init__(
        self,
        options: Mapping[str, str],
        starts: Mapping[TopicPartition, int],
        batches: Callable[[TopicPartition], KafkaBatches],
        gather_s: float = 0,
    ) -> None:
        """batches: opens a partition's log, to inspect what cannot be unpacked; gather_s: how long
        a broker may gather records before it answers, s."""
        self.gaps: list[LogGap] = []
        self._options, self._batches = {**options, **_gathering(gather_s), **_READER}, batches
        self._stuck: set[TopicPartition] = set()
        self._positions: dict[TopicPartition, int] = {}
        self._lost: set[TopicPartition] = set()
        self._login = Login()
        self._refusal: BusError | None = None
        self._ask_again = self._check_at = 0.0
        self._inner = self._open()
        self.assign(starts)

    def _open(self) -> ck.Consumer:
        self._login.tried_anew()
        self._refusal, self._ask_again = None, 0.0
        self._check_at = time.monotonic() + _PATIENCE_S
        return ck.Consumer({**self._options, "error_cb": self._login.on_error}, logger=log)

    def assign(self, starts: Mapping[TopicPartition, int]) -> None:
        """Read only these partitions, from these offsets."""
        self._positions = dict(starts)
        self._lost, self._stuck = set(), set()
        self._reassign()

    def _reassign(self) -> None:
        self._inner.assign([ck.TopicPartition(t, p, at) for (t, p), at in self._positions.items()])

    def poll(self, timeout_s: float, max_records: int = 1000) -> list[ConsumerRecord]:
        """Return the records that have arrived, waiting only for the first.

        Raises AccessRefused once all records that arrived have been returned. The next call opens a
        new connection, because librdkafka reports a refusal only once.
        """
        end = time.monotonic() + timeout_s
        if self._refusal is not None:
            self._pass_on(self._refusal, timeout_s)
        self._check_visible()
        while True:
            messages = self._take(max(0.0, end - time.monotonic()), max_records)
            if messages:
                return messages
            if (refusal := self._refusal or self._login.refusal) is not None:
                self._pass_on(refusal, 0)
            if time.monotonic() >= end:
                return []

    def _check_visible(self) -> None:
        """Raise NotPermitted if Kafka hides a topic, about which librdkafka reports nothing."""
        if time.monotonic() < self._check_at:
            return
        self._check_at = time.monotonic() + _PATIENCE_S
        unknown = [place for place in self._positions if self._known_end(place) == math.inf]
        for topic in sorted({topic for topic, _ in unknown}):
            try:
                error = self._inner.list_topics(topic, timeout=_LOOK_S).topics[topic].error
            except ck.KafkaException:
                return  # no broker is available
            refusal = error and bus_error(error, topic, "READ")
            if isinstance(refusal, NotPermitted):
                self._pass_on(refusal, 0)

    def _pass_on(self, refusal: BusError, timeout_s: float) -> None:
        """Raise a refusal the first time and until it is time to retry; then open a new connection.

        That way no other partition's records are lost, and none can hide a refusal.
        """
        if not self._ask_again:
            self._refusal, self._ask_again = refusal, time.monotonic() + REFUSED_S
            raise refusal
        left = max(0.0, self._ask_again - time.monotonic())
        time.sleep(min(left, timeout_s))
        if left > timeout_s:
            raise refusal
        self._replace()

    def at_end(self) -> bool:
        """Return whether everything in the logs, as of the broker's last answer, has been
        returned."""
        return not self._lost and all(
            position >= self._known_end(place) for place, position in self._positions.items()
        )

    def _known_end(self, place: TopicPartition) -> float:
        """Return the next offset last reported to librdkafka, or infinity before the first
        report."""
        known = self._inner.get_watermark_offsets(ck.TopicPartition(*place), cached=True)
        return known[1] if known and known[1] >= 0 else math.inf

    def _take(self, timeout_s: float, max_records: int) -> list[ConsumerRecord]:
        """Read once. The result may be empty early, after an event that was no record."""
        try:
            if self._lost:
                self._mend(min(timeout_s, _PATIENCE_S))
            if self._stuck:
                self._pass_over()
            batch = self._inner.consume(1, timeout_s)
            if batch and max_records > 1:
                batch += self._inner.consume(max_records - 1, 0)
        except ck.KafkaException as error:
            return self._start_over(error, timeout_s)
        return [taken for raw in batch if (taken := self._accept(raw)) is not None]

    def _start_over(self, error: ck.KafkaException, timeout_s: float) -> list[ConsumerRecord]:
        """Replace a consumer that raised an exception, keeping the positions."""
        log.warning("kafka reader starts over: %s", error)
        time.sleep(min(timeout_s, _BACKOFF_S))
        self._replace()
        return []

    def _replace(self) -> None:
        """Continue with a new consumer at the same positions."""
        self._close_inner()
        self._inner = self._open()
        self._reassign()

    def _accept(self, raw: Any) -> ConsumerRecord | None:
        """Return a record, or None for an event, which is handled here."""
        place = (raw.topic(), raw.partition())
        error = raw.error()
        if error is not None:
            self._event(error, place, raw.offset())
            return None
        self._login.taken()
        if place not in self._positions or place in self._lost:
            return None
        self._positions[place] = raw.offset() + 1
        return ConsumerRecord(
            place[0],
            place[1],
            raw.offset(),
            raw.timestamp()[1],
            raw.key(),
            raw.value(),
            tuple(raw.headers() or ()),
        )

    def _event(self, error: ck.KafkaError, place: TopicPartition, offset: int) -> None:
        code = error.code()
        if code == ck.KafkaError.GROUP_AUTHORIZATION_FAILED:
            return  # it commits nothing, and needs no group
        if isinstance(refusal := bus_error(error, place[0] or "", "READ"), AccessRefused):
            self._refusal = refusal
        elif code == ck.KafkaError._PARTITION_EOF:
            self._login.taken()
            # Also skips what compaction or a transaction marker left without a record.
            if place in self._positions and place not in self._lost:
                self._positions[place] = max(self._positions[place], offset)
        elif code == ck.KafkaError._AUTO_OFFSET_RESET and place in self._positions:
            self._lost.add(place)
        elif code in _UNREADABLE and place in self._positions:
            self._stuck.add(place)
        else:
            log.debug("kafka reader: %s", error)

    def _pass_over(self) -> None:
        """Continue behind batches that cannot be unpacked; retry where no answer came."""
        for place in sorted(self._stuck):
            at = self._positions[place]
            try:
                with self._batches(place) as log_:
                    batch = next(log_.between(at, at + 1), None)
            except BusError as error:
                log.debug("kafka reader: %s", error)
                return
            self._stuck.discard(place)
            if batch is not None:
                self._positions[place] = batch.last + 1
                name = f"{place[0]}/{place[1]}"
                log.warning("%s: %d to %d cannot be unpacked", name, at, batch.last)
        self._reassign()

    def _mend(self, timeout_s: float) -> None:
        """Move partitions whose position is outside the log to the log's beginning."""
        for topic, partition in sorted(self._lost):
            place = ck.TopicPartition(topic, partition)
            try:
                low, high = self._inner.get_watermark_offsets(place, max(timeout_s, 0.5))
            except ck.KafkaException as error:
                if isinstance(refusal := raised(error, topic, "READ"), AccessRefused):
                    self._refusal = refusal
                return
            position = self._positions[topic, partition]
            if not low <= position <= high:
                self.gaps.append(LogGap(topic, partition, position, low))
                self._positions[topic, partition] = low
            self._lost.discard((topic, partition))
        self._reassign()

    def positions(self) -> dict[TopicPartition, int]:
        """Return the next offset to read for each assigned partition."""
        return dict(self._positions)

    def close(self) -> None:
        """Close the connection."""
        self._close_inner()

    def _close_inner(self) -> None:
        try:
            self._inner.close()
        except (ck.KafkaException, RuntimeError) as error:
            log.debug("kafka reader did not close: %s", error)
