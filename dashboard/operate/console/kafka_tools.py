"""Consumers and producers of the command line: their options, and all that happens to them."""

from __future__ import annotations

import math
import os
import signal
import time
from argparse import ArgumentTypeError
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from threading import Event, Lock, Thread
from typing import Literal

from django.conf import settings
from django.core.management.base import CommandError

from bus.base import (
    AccessRefused,
    BusError,
    ConsumerRecord,
    Delivered,
    Producer,
    QueueFull,
    TopicPartition,
    Unavailable,
)
from bus.kafka_admin import Committed, KafkaAdmin
from bus.kafka_consumer import KafkaConsumer, Membership, Reset
from dashboard.core.common.scenarios import scenarios, topics
from dashboard.core.common.times import iso, now_ms
from domain.config_values import PlainError
from domain.config_values import duration as parse_duration

# ---- tables --------------------------------------------------------------------------------------
# Rows as lines for a terminal.


def aligned(rows: list[tuple[str, ...]]) -> list[str]:
    """Return rows as lines with aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


# ---- options -------------------------------------------------------------------------------------
# What the options of the commands mean, and how what Kafka refuses is said.

MAX_NAME = 249

# A place in a log: one of its edges, an offset, or the first record at or after a time.
Target = Literal["begin", "end"] | int | datetime

_EDGES: dict[str, Literal["begin", "end"]] = {
    "begin": "begin",
    "earliest": "begin",
    "end": "end",
    "latest": "end",
}


def whole(low: int, high: int) -> Callable[[str], int]:
    """Return a reader of an integer from `low` to `high`, which raises ArgumentTypeError."""

    def read(text: str) -> int:
        if not text.isdecimal() or not low <= int(text) <= high:
            raise ArgumentTypeError(f"expected {low} to {high:,}, got {text!r}")
        return int(text)

    return read


def seconds(text: str) -> float:
    """Return a duration in s. Raises ArgumentTypeError."""
    try:
        return parse_duration(text, "") / 1000
    except PlainError as error:
        raise ArgumentTypeError(f"expected {error.expected}, got {text!r}") from None


def name(text: str) -> str:
    """Return the name of a topic or group. Raises ArgumentTypeError."""
    if not 1 <= len(text) <= MAX_NAME or not text.isprintable():
        raise ArgumentTypeError(f"expected 1 to {MAX_NAME} printable characters, got {text!r}")
    return text


def target(text: str) -> Target:
    """Return a place in a log. Raises ArgumentTypeError."""
    if text in _EDGES:
        return _EDGES[text]
    if text.isdecimal() and len(text) < len(str(1 << 63)):
        return int(text)
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        edges = ", ".join(_EDGES)
        raise ArgumentTypeError(
            f"expected {edges}, an offset, or a time such as 2026-01-31T14:00:00Z, got {text!r}"
        ) from None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def resolve(
    admin: KafkaAdmin, aim: Target, places: Iterable[TopicPartition]
) -> dict[TopicPartition, int]:
    """Return the offset that is meant, for each partition.

    Raises BusError for an offset that a log does not hold.
    """
    edges = admin.edges(places)
    if isinstance(aim, datetime):
        return admin.at_time(edges, aim)
    if aim == "begin":
        return {place: edge.begin for place, edge in edges.items()}
    if aim == "end":
        return {place: edge.high_watermark for place, edge in edges.items()}
    for (topic, partition), edge in edges.items():
        if not edge.begin <= aim <= edge.high_watermark:
            raise BusError(
                f"{topic}/{partition} holds no offset {aim}: "
                f"expected {edge.begin} to {edge.high_watermark}."
            )
    return dict.fromkeys(edges, aim)


def kafka_options() -> Mapping[str, str]:
    """Return the connection options of this copy, under librdkafka's names."""
    options: Mapping[str, str] = settings.TALLYBOARD.kafka_options()
    return options


def refuse_own(topic: str) -> None:
    """Raise CommandError for a topic whose records the product alone writes."""
    if topic in {spec.name for spec in topics().specs(scenarios().values())}:
        raise CommandError(
            f"{topic} is a topic of the product, whose records have a form of their own: "
            "expected another one. Reports are sent over REST or by a Reporter."
        )


@contextmanager
def in_words() -> Iterator[None]:
    """Have what Kafka refuses end the command with a message."""
    try:
        yield
    except AccessRefused as refusal:
        raise CommandError(str(refusal)) from None
    except Unavailable as error:
        raise CommandError(f"{settings.TALLYBOARD.bootstrap} does not answer: {error}") from None
    except BusError as error:
        raise CommandError(str(error)) from None


ENDS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def stop_at_signals() -> Iterator[Event]:
    """Yield an event that SIGINT and SIGTERM set, so that each consumer leaves its group."""
    stop = Event()
    before = {number: signal.signal(number, lambda *_: stop.set()) for number in ENDS}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


# ---- consumption ---------------------------------------------------------------------------------
# Members of a consumer group that print what they are assigned, read and commit.

# A stop is noticed after so long.
POLL_S = 0.2
MAX_SHOWN = 200


@dataclass(frozen=True, slots=True)
class ConsumerPlan:
    """What a consumer does.

    commit_every_s: how long a record may stay uncommitted; 0: each batch is committed.
    starts: where to begin when not at the committed offset; a partition leaves it once it was read.
    idle_s: end when nothing has come for so long after all was read; None: never.
    """

    group: str
    topics: tuple[str, ...]
    reset: Reset
    session_timeout_s: float
    max_records: int
    commit_every_s: float
    starts: dict[TopicPartition, int]
    idle_s: float | None


class Lines:
    """Prints lines of several threads, each whole and with its time."""

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write, self._lock = write, Lock()

    def print(self, number: int, event: str, text: str) -> None:
        """Print a message of a consumer, by its number."""
        with self._lock:
            self._write(f"{iso(now_ms())[11:23]} consumer={number} {event} {text}".rstrip())


class Consumer:
    """One member of the group; `run` is for a thread of its own."""

    def __init__(
        self,
        number: int,
        plan: ConsumerPlan,
        options: Mapping[str, str],
        admin: KafkaAdmin,
        lines: Lines,
    ) -> None:
        self.number, self.failure = number, ""
        # Since when it has had nothing left to read; infinite while it has, or is no member.
        self.idle_since = math.inf
        self._client = f"consume-{os.getpid()}-{number}"
        self._plan, self._options, self._admin, self._lines = plan, options, admin, lines
        self._pending: dict[TopicPartition, Committed] = {}
        self._committed_at = time.monotonic()

    def run(self, stop: Event) -> None:
        """Consume until `stop` is set; after a failure set it, with the reason in `failure`."""
        try:
            self._consume(stop)
        except BusError as error:
            self.failure = str(error)
            stop.set()

    def _consume(self, stop: Event) -> None:
        plan = self._plan
        membership = Membership(
            plan.group, plan.topics, plan.reset, plan.session_timeout_s, self._client
        )
        self._inner = KafkaConsumer(self._options, membership, self)
        try:
            while not stop.is_set():
                batch = self._inner.poll(POLL_S, plan.max_records)
                self._take(batch)
                self._update_idleness(busy=bool(batch))
        finally:
            self._inner.close()

    def _take(self, batch: Sequence[ConsumerRecord]) -> None:
        """Print a batch, commit when it is time, and print how far each partition has come."""
        for message in batch:
            self._lines.print(self.number, "record", _described(message))
        places = {(message.topic, message.partition): message.offset for message in batch}
        for place, last in places.items():
            self._plan.starts.pop(place, None)
            self._pending[place] = Committed(last + 1, self._client)
        if time.monotonic() - self._committed_at >= self._plan.commit_every_s:
            self._commit()
        self._print_offsets(list(places))

    def _update_idleness(self, *, busy: bool) -> None:
        if not self._inner.at_end():
            self.idle_since = math.inf
        elif busy or self.idle_since == math.inf:
            self.idle_since = time.monotonic()

    def _commit(self) -> None:
        """Commit the offset after the last record of each partition."""
        pending, self._pending = self._pending, {}
        self._committed_at = time.monotonic()
        if not pending:
            return
        try:
            self._inner.commit(pending)
        except BusError as error:
            self._pending = pending | self._pending  # for the next commit, if it is still ours
            self._lines.print(self.number, "refused", f"commit: {error}")
            return
        for place, to in pending.items():
            words = f"{_named(place)} offset={to.offset} metadata={to.metadata!r}"
            self._lines.print(self.number, "commit", words)

    def _print_offsets(self, places: Sequence[TopicPartition]) -> None:
        if not places:
            return
        positions = self._inner.positions()
        try:
            committed, edges = self._inner.committed(places), self._admin.edges(places)
        except BusError as error:  # a broker that is away: the records are read all the same
            self._lines.print(self.number, "refused", f"offsets: {error}")
            return
        for place in places:
            edge = edges[place]
            self._lines.print(
                self.number,
                "offsets",
                f"{_named(place)} position={positions.get(place, '-')} "
                f"committed={committed.get(place, '-')} begin={edge.begin} "
                f"high-watermark={edge.high_watermark} log-end={edge.log_end}",
            )

    def assigned(self, places: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Print the assigned partitions; begin each one once where the plan says."""
        names = " ".join(map(_named, places)) or "nothing, it stands by"
        self._lines.print(self.number, "assigned", names)
        seeks = dict(self._plan.starts)
        starts = {place: seeks[place] for place in places if place in seeks}
        for place, offset in sorted(starts.items()):
            self._lines.print(self.number, "seek", f"{_named(place)} offset={offset}")
        return starts

    def revoked(self, places: Sequence[TopicPartition], *, lost: bool) -> None:
        """Commit what was read, if it is not too late, and print the revoked partitions."""
        if not lost:
            self._commit()
        self._pending = {}
        names = " ".join(map(_named, places)) or "nothing"
        self._lines.print(self.number, "lost" if lost else "revoked", names)


def consume(
    plan: ConsumerPlan,
    consumers: int,
    options: Mapping[str, str],
    write: Callable[[str], object],
    stop: Event,
) -> str:
    """Run consumers, a thread each, until `stop` is set or the plan's time is over.

    Returns why one failed, or ''.
    """
    admin, lines = KafkaAdmin(options), Lines(write)
    members = [Consumer(1 + at, plan, options, admin, lines) for at in range(consumers)]
    threads = [Thread(target=member.run, args=(stop,)) for member in members]
    for thread in threads:
        thread.start()
    while not stop.wait(POLL_S):
        quiet_s = time.monotonic() - max(member.idle_since for member in members)
        if plan.idle_s is not None and quiet_s >= plan.idle_s:
            stop.set()
    for thread in threads:
        thread.join()
    return next((member.failure for member in members if member.failure), "")


def _described(message: ConsumerRecord) -> str:
    place = _named((message.topic, message.partition))
    words = f"{place} offset={message.offset} time={iso(message.timestamp)}"
    return f"{words} key={_shown(message.key)} value={_shown(message.value)}"


def _named(place: TopicPartition) -> str:
    return f"{place[0]}/{place[1]}"


def _shown(data: bytes | None) -> str:
    """Return bytes as a text that a terminal obeys in nothing."""
    if data is None:
        return "null"
    text = repr(data.decode(errors="backslashreplace"))
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}… ({len(data)} bytes)"


# ---- production ----------------------------------------------------------------------------------
# Three ways to learn what became of a record: one by one, all at the end, or by a callback.

Outcome = Delivered | BusError
# Called with a record's key and what became of it.
Report = Callable[[str, Outcome], None]

DELIVERY_POLL_S = 0.1


def produce_sync(producer: Producer, topic: str, count: int, report: Report, wait_s: float) -> None:
    """Send the next record only when the one before has its place; end at the first error."""
    for key, value in _records(count):
        try:
            place = producer.send_and_wait(topic, key.encode(), value.encode(), timeout_s=wait_s)
        except BusError as error:
            report(key, error)
            return
        report(key, place)


def produce_async(
    producer: Producer, topic: str, count: int, report: Report, wait_s: float
) -> None:
    """Send all, keep a future of each, and report in the order of sending."""
    futures: list[tuple[str, Future[Outcome]]] = []
    for key, value in _records(count):
        future: Future[Outcome] = Future()
        _send(producer, topic, key, value, future.set_result)
        futures.append((key, future))
    producer.flush(wait_s)
    for key, future in futures:
        report(key, future.result(0) if future.done() else BusError("no answer in time"))


def produce_with_callback(
    producer: Producer, topic: str, count: int, report: Report, wait_s: float
) -> None:
    """Send all, and report each when its answer comes."""
    for key, value in _records(count):
        _send(producer, topic, key, value, partial(report, key))
    producer.flush(wait_s)


def _records(count: int) -> Iterator[tuple[str, str]]:
    return ((f"KEY-{number}", f"VALUE-{number}") for number in range(count))


def _send(
    producer: Producer, topic: str, key: str, value: str, answer: Callable[[Outcome], None]
) -> None:
    """Enqueue a record; while the queue is full, wait for those before it."""
    while True:
        try:
            producer.send(topic, key.encode(), value.encode(), on_delivery=answer)
        except QueueFull:
            producer.poll(DELIVERY_POLL_S)
        except BusError as error:
            answer(error)
            return
        else:
            producer.poll(0)
            return


class DeliveryCounts:
    """Prints and counts the outcome of each record."""

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write, self._begun = write, time.monotonic()
        self.delivered = 0

    def report(self, key: str, outcome: Outcome) -> None:
        """Print a record's partition and offset, or its error."""
        if isinstance(outcome, BusError):
            self._write(f"{key} error: {outcome}")
            return
        self.delivered += 1
        self._write(f"{key} {outcome.topic}/{outcome.partition} offset={outcome.offset}")

    def seconds(self) -> float:
        """Return the time since the start, s."""
        return time.monotonic() - self._begun
