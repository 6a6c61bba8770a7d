"""Requests to the job: signed, in order, each answered once."""

from __future__ import annotations

import logging
from collections.abc import Callable
from time import monotonic

import msgspec

from bus.base import AccessRefused, Bus, BusError, ConsumerRecord, Reader
from streaming.state.storage import StoragePath
from wire.job import (
    EXPIRES_MS,
    Action,
    AskStep,
    Control,
    JobAnswer,
    Outcome,
    Stopped,
    UnreadableJobRecord,
    decode_control,
)
from wire.keys import KeyFile
from wire.signature import UNSIGNED, Trust
from wire.sink import DeadRecord, encode_dead_letter
from wire.topics import Topics

# ---- request auth --------------------------------------------------------------------------------
# Requests to the job without a valid signature: recognised, and set aside.

auth_log = logging.getLogger("streaming.requests.queue")


class RequestAuthenticator:
    """Authenticates requests; those that fail become dead letters.

    They are neither answered nor remembered: else somebody could take an ask's id before it comes.
    """

    def __init__(
        self, bus: Bus, topics: Topics, keys: KeyFile, demands: Callable[[], bool]
    ) -> None:
        """demands: whether a request without a signature is refused; a wrong one always is."""
        self._bus, self._letters, self._demands = bus, topics.dead_letters, demands
        self._trust = Trust(topics.control, keys.ring)

    def passes(self, message: ConsumerRecord) -> bool:
        """Return whether a request is authentic; set it aside if not. Raises KeysProblem."""
        fault = self._trust.fault(message.key, message.value or b"", message.timestamp)
        if fault is None or (fault == UNSIGNED and not self._demands()):
            return True
        auth_log.warning("%s at offset %d is refused: %s", message.topic, message.offset, fault)
        self._set_aside(message, fault)
        return False

    def _set_aside(self, message: ConsumerRecord, fault: str) -> None:
        place = (message.topic, message.partition, message.offset, message.timestamp)
        headers = tuple((name, value or b"") for name, value in message.headers)
        dead = DeadRecord(fault, *place, message.key, message.value, headers)
        key, value, letter_headers = encode_dead_letter(dead)
        producer = self._bus.producer(linger_ms=0)
        try:
            producer.send_and_wait(self._letters, key, value, headers=letter_headers)
        except BusError as error:
            auth_log.warning("a refused ask is no dead letter: %s", error)
        finally:
            producer.close()


# ---- request queue -------------------------------------------------------------------------------
# What the console asks of one query: read from `job.control`, judged, remembered, answered.

queue_log = logging.getLogger("streaming.requests.queue")

# The last answers that are kept: a repeated ask gets its first one again.
REMEMBERED = 100

# Asks read at once.
MOST_AT_ONCE = 100

TRY_AGAIN_S = 5.0
# How long the topic may take to answer, and how long after that it is asked again.
REACH_S = 2.0

Announce = Callable[[JobAnswer], None]


class Memory(msgspec.Struct):
    """What outlives the driver. next_offset: of the control topic, None before the first start.

    under_way: asks that were accepted, and whose end is still to be reported; batch_queries: those
    of them that run in parallel with the query; rebuild: the one that the query has not caught up
    with; log: the id of the control topic.
    """

    next_offset: int | None = None
    log: str = ""
    stopped: Stopped | None = None
    under_way: list[Control] = msgspec.field(default_factory=list)
    batch_queries: list[Control] = msgspec.field(default_factory=list)
    rebuild: Control | None = None
    rebuild_since: int = 0
    answers: dict[str, JobAnswer] = msgspec.field(default_factory=dict)


class RequestQueue:
    """The requests to one query, each carried out once.

    Its memory is a file next to the query's checkpoints, so that a stopped query stays stopped
    through every restart, for longer than the topic keeps its records. The topic is read on from
    where the memory ends, at first from its beginning; what has waited for too long has expired.
    """

    def __init__(
        self,
        bus: Bus,
        topic: str,
        query: str,
        path: StoragePath,
        clock: Callable[[], int],
        publish: Announce,
        guard: RequestAuthenticator | None = None,
    ) -> None:
        """clock: Unix ms; publish: publishes an answer; guard: None: nobody looks at signatures."""
        self._bus, self._topic, self.query = bus, topic, query
        self._path, self._clock, self._publish, self._guard = path, clock, publish, guard
        self._memory = _load(path)
        self._reader: Reader | None = None
        self._next_try = 0.0

    @property
    def stopped(self) -> Stopped | None:
        """Return who stopped the query, None while it is to run."""
        return self._memory.stopped

    def receive(self) -> list[Control]:
        """Return new requests that are to be carried out, and answer all others.

        A lost broker has none, and neither has one that refuses the topic.
        """
        reader = self._reader or self._open()
        messages = self._read(reader) if reader is not None else []
        requests = [ask for message in messages if (ask := self._judge(message)) is not None]
        if messages:
            self._memory.next_offset = messages[-1].offset + 1
            self._save()
        return requests

    def _read(self, reader: Reader) -> list[ConsumerRecord]:
        try:
            return reader.poll(0, MOST_AT_ONCE)
        except AccessRefused as refusal:
            queue_log.warning("requests are not read: %s", refusal)
            self.close()
            self._next_try = monotonic() + TRY_AGAIN_S
            return []

    def _open(self) -> Reader | None:
        if monotonic() < self._next_try:
            return None
        self._next_try = monotonic() + TRY_AGAIN_S
        try:
            begin, _ = self._bus.offsets([self._topic], REACH_S)[self._topic, 0]
            log = self._bus.topic_ids([self._topic], REACH_S)[self._topic]
        except AccessRefused as refusal:
            queue_log.warning("requests are not read: %s", refusal)
            return None
        except (BusError, KeyError) as error:
            queue_log.debug("%s cannot be read yet: %r", self._topic, error)
            return None
        if self._memory.log not in ("", log):  # its offsets are of a topic that was deleted
            self._memory.next_offset = None
        self._memory.log = log
        start = self._memory.next_offset
        self._reader = self._bus.reader({(self._topic, 0): begin if start is None else start})
        return self._reader

    def _judge(self, message: ConsumerRecord) -> Control | None:
        """Return the ask in a record, unless it is another query's, does not count, was taken on or
        answered, or has expired."""
        try:
            ask = decode_control(message.value)
        except UnreadableJobRecord as error:
            queue_log.warning(
                "%s at offset %d is passed over: %s", self._topic, message.offset, error
            )
            return None
        if ask.query != self.query or (self._guard and not self._guard.passes(message)):
            return None
        if any(ask.id == one.id for one in self._open_asks()):
            return None
        if ask.id in self._memory.answers:
            self._publish(self._memory.answers[ask.id])
            return None
        age = self._clock() - message.timestamp
        if age > EXPIRES_MS:
            self.answer(ask, "expired", f"it was read {age // 1000} s after it was asked")
            return None
        return ask

    def _open_asks(self) -> list[Control]:
        """Return the accepted requests whose end is still to be reported."""
        memory = self._memory
        return [
            *memory.under_way,
            *memory.batch_queries,
            *([memory.rebuild] if memory.rebuild else []),
        ]

    def accept(self, ask: Control) -> None:
        """Accept a request whose end `settle` will report. A stop or a start is remembered."""
        if ask.action == "stop":
            self._memory.stopped = Stopped(ask.user or "somebody", ask.reason, self._clock())
        elif ask.action == "start":
            self._memory.stopped = None
        if any(ask.id == one.id for one in self._memory.under_way):
            return
        self._memory.under_way.append(ask)
        self._save()
        self._publish(JobAnswer(ask.id, ask.action, "accepted"))

    def unfinished(self, action: Action) -> list[Control]:
        """Return requests that an earlier driver accepted without reporting their end."""
        return [ask for ask in self._memory.under_way if ask.action == action]

    def settle(self, outcome: Outcome, why: str = "") -> None:
        """Answer all that is under way."""
        asks, self._memory.under_way = self._memory.under_way, []
        for ask in asks:
            self.answer(ask, outcome, why)

    def begin_batch_query(self, ask: Control) -> None:
        """Accept a batch query, which runs in parallel with the query, whatever happens to that."""
        self._memory.batch_queries.append(ask)
        self._save()
        self._publish(JobAnswer(ask.id, ask.action, "accepted"))

    @property
    def rebuild(self) -> Control | None:
        """The reset or rebuild that the query is to do, or does."""
        return self._memory.rebuild

    @property
    def rebuilding(self) -> Stopped | None:
        """Return who had it read its log again, None where that is over."""
        ask = self._memory.rebuild
        if ask is None:
            return None
        return Stopped(ask.user or "somebody", ask.reason, self._memory.rebuild_since)

    def begin_rebuild(self, ask: Control) -> None:
        """Accept a reset or rebuild, in place of one that is under way."""
        if (before := self._memory.rebuild) is not None:
            self.answer(before, "failed", f"another one, by {ask.user or 'somebody'}, replaces it")
        self._memory.rebuild, self._memory.rebuild_since = ask, self._clock()
        self._save()
        self._publish(JobAnswer(ask.id, ask.action, "accepted"))

    def step(self, ask: Control, step: AskStep) -> None:
        """Report the progress of a request."""
        self._publish(JobAnswer(ask.id, ask.action, "accepted", step=step))

    def give_up_batch_queries(self) -> None:
        """Answer the batch queries that ended with an earlier driver."""
        for ask in list(self._memory.batch_queries):
            self.answer(ask, "failed", "the job ended meanwhile: ask again")

    def answer(self, ask: Control, outcome: Outcome, why: str = "") -> None:
        """Answer one request finally."""
        answer = JobAnswer(ask.id, ask.action, outcome, _fitting(why))
        queue_log.info("%s by %s: %s %s", ask.action, ask.user or "somebody", outcome, why)
        self._memory.under_way = [one for one in self._memory.under_way if one.id != ask.id]
        self._memory.batch_queries = [one for one in self._memory.batch_queries if one.id != ask.id]
        if self._memory.rebuild is not None and self._memory.rebuild.id == ask.id:
            self._memory.rebuild = None
        kept = [*self._memory.answers.items(), (ask.id, answer)]
        self._memory.answers = dict(kept[-REMEMBERED:])
        self._save()
        self._publish(answer)

    def _save(self) -> None:
        try:
            self._path.write_whole(msgspec.json.encode(self._memory))
        except OSError as error:  # the query's own checkpoint will not fare better, and says so
            queue_log.warning("what was asked is not remembered: %s", error)

    def close(self) -> None:
        """Close the reader of the topic."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None


def _load(path: StoragePath) -> Memory:
    """Return what was remembered. A file that cannot be read must not keep the job from running."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Memory)
    except FileNotFoundError:
        return Memory()
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        queue_log.warning("%s cannot be read, the query runs: %s", path, error)
        return Memory()


def _fitting(why: str) -> str:
    """Return a text as an answer may hold it: at most 500 characters, in one line."""
    return " ".join(why.replace("\0", "").split())[:500]
