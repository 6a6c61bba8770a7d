"""Members of a consumer group that print what they are assigned, read and commit."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from threading import Event, Lock, Thread

from bus.base import BusError, Message, TopicPartition
from bus.kafka_admin import Committed, KafkaAdmin
from bus.kafka_consumer import KafkaConsumer, Membership, Reset
from dashboard.core.times import iso, now_ms

# A stop is noticed after so long.
POLL_S = 0.2
MAX_SHOWN = 200


@dataclass(frozen=True, slots=True)
class Plan:
    """What a consumer does.

    commit_every_s: how long a record may stay uncommitted; 0: each batch is committed.
    starts: where to begin when not at the committed offset; a partition leaves it once it was read.
    idle_s: end when nothing has come for so long; None: never.
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
        """Print what a consumer (by its number) has to say."""
        with self._lock:
            self._write(f"{iso(now_ms())[11:23]} consumer={number} {event} {text}".rstrip())


class Consumer:
    """One member of the group; `run` is for a thread of its own."""

    def __init__(
        self, number: int, plan: Plan, options: Mapping[str, str], admin: KafkaAdmin, lines: Lines
    ) -> None:
        self.number, self.failure = number, ""
        # When it was last given something to do; infinite before it is a member.
        self.active_at = math.inf
        self._client = f"consume-{os.getpid()}-{number}"
        self._plan, self._options, self._admin, self._lines = plan, options, admin, lines
        self._pending: dict[TopicPartition, Committed] = {}
        self._committed_at = time.monotonic()

    def run(self, stop: Event) -> None:
        """Consume until `stop` is set; set it when it fails, `failure` then says why."""
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
        finally:
            self._inner.close()

    def _take(self, batch: Sequence[Message]) -> None:
        """Print a batch, commit when it is time, and print how far each partition has come."""
        for message in batch:
            self._lines.print(self.number, "record", _described(message))
        places = {(message.topic, message.partition): message.offset for message in batch}
        for place, last in places.items():
            self._plan.starts.pop(place, None)
            self._pending[place] = Committed(last + 1, self._client)
        if places:
            self.active_at = time.monotonic()
        if time.monotonic() - self._committed_at >= self._plan.commit_every_s:
            self._commit()
        self._print_offsets(list(places))

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
        """Print what this consumer is to read; begin where the plan says, until that was done."""
        self.active_at = time.monotonic()
        names = " ".join(map(_named, places)) or "nothing, it stands by"
        self._lines.print(self.number, "assigned", names)
        seeks = dict(self._plan.starts)
        starts = {place: seeks[place] for place in places if place in seeks}
        for place, offset in sorted(starts.items()):
            self._lines.print(self.number, "seek", f"{_named(place)} offset={offset}")
        return starts

    def revoked(self, places: Sequence[TopicPartition], *, lost: bool) -> None:
        """Commit what was read, unless it is too late, and print what is given up."""
        if not lost:
            self._commit()
        self._pending = {}
        names = " ".join(map(_named, places)) or "nothing"
        self._lines.print(self.number, "lost" if lost else "revoked", names)


def consume(
    plan: Plan,
    consumers: int,
    options: Mapping[str, str],
    write: Callable[[str], object],
    stop: Event,
) -> str:
    """Run so many consumers, each in its thread, until `stop` is set or the plan's time is over.

    Returns why it failed; empty where it did not.
    """
    admin, lines = KafkaAdmin(options), Lines(write)
    members = [Consumer(1 + at, plan, options, admin, lines) for at in range(consumers)]
    threads = [Thread(target=member.run, args=(stop,)) for member in members]
    for thread in threads:
        thread.start()
    while not stop.wait(POLL_S):
        quiet_s = time.monotonic() - max(member.active_at for member in members)
        if plan.idle_s is not None and quiet_s >= plan.idle_s:
            stop.set()
    for thread in threads:
        thread.join()
    return next((member.failure for member in members if member.failure), "")


def _described(message: Message) -> str:
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
