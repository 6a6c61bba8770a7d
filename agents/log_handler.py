"""A handler for the standard `logging` that sends records to a topic.

    handler = KafkaHandler("app-logs", fields={"app_name": "shop"}, bootstrap_servers="kafka:9092")
    logging.getLogger().addHandler(handler)

The logging program continues whatever happens to Kafka. Records wait in a buffer; if it is full and
stays full for ten milliseconds, the record is dropped and counted.
"""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from functools import partial
from itertools import count
from typing import Any, Literal, get_args

from agents.log_records import check_fields, encode
from bus.base import (
    AccessRefused,
    BusError,
    Delivered,
    OnDelivery,
    QueueFull,
    TooLarge,
    Unavailable,
)
from bus.kafka_client import KafkaClient
from bus.kafka_producer import KafkaProducer
from wire.topics import REPORTS

# Returns a record's key, or None for no key.
KeyFunction = Callable[[logging.LogRecord], bytes | str | None]
# Returns a record's partition, given its key, its value and the number of partitions.
PartitionFunction = Callable[[bytes | None, bytes, int], int]
Delivery = Literal["async", "sync"]

# librdkafka's names. Records stay in order and are sent once, and keys go to the same partitions as
# with Java's client.
DEFAULTS: Mapping[str, Any] = {
    "batch.size": 16_384,
    "linger.ms": 5,
    "queue.buffering.max.kbytes": 32_768,
    "queue.buffering.max.messages": 0,  # only the bytes count
    "enable.idempotence": True,
    "partitioner": "murmur2_random",
    "compression.type": "lz4",
    "reconnect.backoff.max.ms": 1_000,
    "log_level": 2,
}
# Settings that have other names in Java's client.
JAVA = {
    "buffer.memory": "queue.buffering.max.kbytes",
    "max.block.ms": "max_block_ms, a parameter of KafkaHandler",
    "max.request.size": "message.max.bytes",
    "key.serializer": "nothing: keys are bytes or text",
    "value.serializer": "nothing: values are JSON",
    "partitioner.class": "partition, a parameter of KafkaHandler",
}
# Why a record was dropped.
FULL, UNDELIVERED, TOO_LARGE = "buffer-full", "undelivered", "too-large"
PARTITION, CLOSED, FAILED, REFUSED = "partition", "closed", "failed", "refused"

# How long flush and close wait at most, s.
FLUSH_S = 2.0
# How often the number of partitions is queried, s: once known, and while unknown.
REFRESH_S, RETRY_S = 60.0, 0.5
# Number of waiting records sent before other threads may send theirs.
SLICE = 100
_POLL_S = 0.1

log = logging.getLogger("agents.log_handler")


class KafkaHandler(logging.Handler):
    """Sends each record as JSON. Can be shared among threads and inherited through a fork.

    `sent` counts the records accepted, `delivered` those confirmed by Kafka, `truncated` those cut
    to 64 KiB, and `dropped` the lost ones by reason: buffer-full, undelivered, too-large, refused,
    partition, closed, failed. `unconfirmed` counts records given up without an answer from Kafka,
    which may or may not be in the topic. A child process has its own counts.
    """

    flushOnClose = False  # noqa: N815 - logging's own name; close waits itself

    def __init__(
        self,
        topic: str,
        *,
        fields: Mapping[str, Any] | None = None,
        key: Literal["client", "thread"] | KeyFunction | None = None,
        partition: PartitionFunction | None = None,
        delivery: Delivery = "async",
        max_block_ms: float = 10,
        sync_timeout_ms: float = 2_000,
        **producer_config: Any,
    ) -> None:
        """Open a producer, without waiting for anything.

        fields: included in every record, such as the program's name and version. key: `client`, a
        field of the record's `extra`; `thread`, the thread's name; a function of the record; None:
        records are distributed over the partitions in turn. partition: returns the partition for a
        record's key, its value and the number of partitions. delivery: `sync` waits until Kafka has
        confirmed a record, for at most `sync_timeout_ms`; after one timeout it stops waiting until
        Kafka confirms again. max_block_ms: how long a call waits while the buffer is full.
        producer_config: librdkafka's settings, with dots or underscores; `bootstrap.servers` is
        required. Raises ValueError naming what is wrong.
        """
        super().__init__()
        self._topic, self._fields = topic, check_fields(fields or {})
        self._key = _key_function(key)
        self._partition = _partition_function(topic, key, partition)
        if delivery not in get_args(Delivery):
            raise ValueError(f"delivery: expected async or sync, got {delivery!r}")
        self._confirm_s = sync_timeout_ms / 1000 if delivery == "sync" else 0
        self._block_s = max_block_ms / 1000
        self._config = {**DEFAULTS, **_config(producer_config)}
        if delivery == "sync":
            self._config["linger.ms"] = 0
        self._inherited: list[KafkaProducer] = []
        self._open()

    def _open(self) -> None:
        """Start, also in a forked child, where the parent's producer has no threads."""
        self._pid, self._ended = os.getpid(), threading.Event()
        self._count_lock = threading.Lock()
        self.sent = self.delivered = self.unconfirmed = self.truncated = 0
        self.dropped: Counter[str] = Counter()
        self._own = threading.local()
        self._room, self._away = threading.Event(), False
        self._waiting: deque[tuple[bytes | None, bytes]] = deque()
        self._partitions, self._known = 0, threading.Event()
        self._refusal: AccessRefused | None = None
        try:
            self._producer = KafkaProducer(self._config)
        except BusError as error:
            raise ValueError(f"producer settings: {error}") from None
        self._room_left = int(self._config["queue.buffering.max.kbytes"]) << 10
        self._thread = threading.Thread(target=self._run, name="kafka-log-handler", daemon=True)
        self._thread.start()

    # ---- records -------------------------------------------------------------------------------

    def emit(self, record: logging.LogRecord) -> None:
        """Enqueue a record. Raises nothing."""
        if getattr(self._own, "busy", False):
            return  # logged by the handler's own work, which would never end
        self._own.busy = True
        try:
            self._emit(record)
        except Exception:  # noqa: BLE001 - whatever it is, the program goes on
            self._drop(FAILED)
            self.handleError(record)
        finally:
            self._own.busy = False

    def _emit(self, record: logging.LogRecord) -> None:
        if self._pid != os.getpid():
            self._inherited.append(self._producer)  # destroying it here would wait for its threads
            self._open()
        if self._ended.is_set():
            self._drop(CLOSED)
            return
        encoded = encode(record, self._fields)
        self.truncated += encoded.cut
        key = _bytes(self._key(record))
        if self._confirm_s and not self._away:
            self._away = not self._known.wait(self._confirm_s)
        if self._known.is_set() and not self._waiting:
            self._send(key, encoded.value)
        else:
            self._hold(key, encoded.value)

    def _hold(self, key: bytes | None, value: bytes) -> None:
        """Keep a record until the topic is known, if there is room for it."""
        if len(value) > self._room_left:
            self._drop(FULL if self._refusal is None else REFUSED)
            return
        self._room_left -= len(value)
        self._waiting.append((key, value))

    def _send(self, key: bytes | None, value: bytes) -> None:
        try:
            partition = self._partition_of(key, value)
        except Exception as error:  # noqa: BLE001 - the program's own function may raise anything
            self._drop(PARTITION)
            if self.dropped[PARTITION] == 1:  # logged once, counted every time
                log.warning("records for %s dropped: partition: %r", self._topic, error)
            return
        confirmed = threading.Event()

        def settle(outcome: Delivered | BusError) -> None:
            self._settle(outcome)
            confirmed.set()

        if self._enqueue(key, value, partition, settle):
            self.sent += 1
            if self._confirm_s and not self._away:
                self._wait_for(confirmed)

    def _wait_for(self, confirmed: threading.Event) -> None:
        """Wait for Kafka's confirmation; after a timeout, do not wait for the next records."""
        end = time.monotonic() + self._confirm_s
        while not confirmed.is_set():
            if time.monotonic() >= end:
                self._away = True
                return
            self._producer.poll(0.01)  # another thread's poll may run our callback

    def _partition_of(self, key: bytes | None, value: bytes) -> int | None:
        if self._partition is None:
            return None
        partition = self._partition(key, value, self._partitions)
        if not 0 <= partition < self._partitions:
            raise ValueError(f"expected 0 to {self._partitions - 1}, got {partition}")
        return partition

    def _enqueue(
        self, key: bytes | None, value: bytes, partition: int | None, settle: OnDelivery
    ) -> bool:
        """Pass a record to the producer, and return whether it was accepted.

        While the buffer is full, one call waits for room. If that is in vain, the next calls drop
        their records at once, until Kafka confirms some again.
        """
        send = partial(
            self._producer.send, self._topic, key, value, partition=partition, on_delivery=settle
        )
        self._room.clear()
        try:
            try:
                send()
            except QueueFull:
                if self._away or not self._room.wait(self._block_s):
                    raise
                send()
        except BusError as error:
            self._away = self._away or isinstance(error, QueueFull)
            self._drop(_reason(error))
            return False
        return True

    def _settle(self, outcome: Delivered | BusError) -> None:
        """Count the outcome of a record."""
        self._room.set()
        if isinstance(outcome, Delivered):
            self._away = False
            with self._count_lock:
                self.delivered += 1
        elif isinstance(outcome, Unavailable):
            # Even a record that is still queued may have been sent before, to a slow broker.
            with self._count_lock:
                self.unconfirmed += 1
        else:
            self._drop(_reason(outcome))

    def _drop(self, reason: str) -> None:
        with self._count_lock:
            self.dropped[reason] += 1

    # ---- the end -------------------------------------------------------------------------------

    def flush(self) -> None:
        """Wait until Kafka has everything that was accepted, for at most FLUSH_S."""
        if self._pid != os.getpid() or getattr(self._own, "busy", False):
            return
        end = time.monotonic() + FLUSH_S
        if self._waiting:
            self._known.wait(FLUSH_S)
        if self._known.is_set():
            self._send_waiting()
        self._own.busy = True
        try:
            self._producer.flush(max(0.0, end - time.monotonic()))
        finally:
            self._own.busy = False

    def close(self) -> None:
        """Flush, then give up what is unconfirmed. Leaves a parent process's records alone."""
        if self._pid == os.getpid() and not self._ended.is_set():
            self.flush()
            self._ended.set()
            while self._waiting:
                self._waiting.popleft()
                self._drop(UNDELIVERED if self._refusal is None else REFUSED)
            self._producer.close(0)
            self._thread.join(2 * _POLL_S)
        super().close()

    # ---- the handler's thread ------------------------------------------------------------------

    def _run(self) -> None:
        self._own.busy = True
        look_at = 0.0
        client = KafkaClient(self._config)
        while not self._ended.is_set():
            if time.monotonic() >= look_at:
                self._count_partitions(client)
                look_at = time.monotonic() + self._next_look_s()
            self._producer.poll(_POLL_S)

    def _next_look_s(self) -> float:
        if not self._known.is_set():
            return RETRY_S
        return REFRESH_S if self._partition else math.inf

    def _count_partitions(self, client: KafkaClient) -> None:
        """Check whether the topic exists: sending a record earlier would make some brokers create
        it."""
        try:
            partitions = client.partitions(self._topic)
        except BusError as error:
            self._record_fault(error)
            return
        self._refusal = None
        if partitions:
            self._partitions = partitions
            self._known.set()
            self._send_waiting()

    def _record_fault(self, error: BusError) -> None:
        """Store why nothing can be sent. A refusal is logged once, until Kafka answers."""
        if isinstance(error, AccessRefused) and self._refusal is None:
            log.error(
                "records for %s wait, and are dropped where they get too many: %s",
                self._topic,
                error,
            )
            self._refusal = error

    def _send_waiting(self) -> None:
        """Send the records that arrived before the topic was known."""
        left = True
        while left:
            self.acquire()
            try:
                for _ in range(min(SLICE, len(self._waiting))):
                    key, value = self._waiting.popleft()
                    self._room_left += len(value)
                    self._send(key, value)
                left = bool(self._waiting)
            finally:
                self.release()


def _reason(error: BusError) -> str:
    if isinstance(error, QueueFull):
        return FULL
    if isinstance(error, AccessRefused):
        return REFUSED
    return TOO_LARGE if isinstance(error, TooLarge) else UNDELIVERED


def _key_function(key: Literal["client", "thread"] | KeyFunction | None) -> KeyFunction:
    if callable(key):
        return key
    if key == "client":
        return lambda record: getattr(record, "client", None)
    if key == "thread":
        return lambda record: record.threadName
    if key is None:
        return lambda _record: None
    raise ValueError(f"key: expected client, thread, a function or None, got {key!r}")


def _partition_function(
    topic: str, key: object, partition: PartitionFunction | None
) -> PartitionFunction | None:
    """Return the function that chooses partitions, or None if the key does.

    Records without keys take the partitions in turn.
    """
    if not topic:
        raise ValueError("topic: expected a name")
    if topic.endswith(REPORTS) and (partition is not None or key is None):
        raise ValueError(
            f"partition: {topic} is partitioned by its keys; records elsewhere are dead letters"
        )
    if partition is not None or key is not None:
        return partition
    turns = count()
    return lambda _key, _value, partitions: next(turns) % partitions


def _config(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings under librdkafka's names. Raises ValueError."""
    config = {
        name if "." in name or name == "log_level" else name.replace("_", "."): value
        for name, value in given.items()
    }
    for name in config:
        if name in JAVA:
            raise ValueError(f"{name}: that is Java's name; expected {JAVA[name]}")
        if name.endswith(".cb"):
            raise ValueError(f"{name}: the handler calls back itself")
    if not config.get("bootstrap.servers"):
        raise ValueError("bootstrap.servers: expected host:port, or several with commas between")
    return config


def _bytes(key: bytes | str | None) -> bytes | None:
    return key.encode("utf-8", "replace") if isinstance(key, str) else key
