"""Time in the log: a `tick` to every source partition, so that it passes where nobody reports.

A tick costs a record's whole way through the job. So a partition at rest, whose every record has
been applied and in which no timer is due yet, gets only those that its heartbeats need.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from time import monotonic, time
from typing import NamedTuple

from bus.base import Bus, BusError, Delivered, Producer, Reader, TopicPartition
from wire.job import ClockBehind, Heartbeat, UnreadableJobRecord, decode_heartbeat
from wire.source import encode_tick

log = logging.getLogger("streaming.job.ticks")

# While so many ticks of a partition are unconfirmed, no more are sent: a lost broker gets none.
MOST_UNDER_WAY = 2

GIVE_UP_S = 5.0

# A bucket tells of itself with a tick that comes so long after the last one that it told with.
HEARTBEAT_S = 1.0

# A heartbeat that was received longer ago than this says nothing any more.
FRESH_S = 3.0

# Longest wait for the ends of the log; ticks wait with it.
ENDS_S = 1.0

# Most ticks without a heartbeat behind which the log's end is still understood.
MOST_OWN = 16

# A broker whose ticks are appended more than this before they are sent, by the driver's clock, and
# that for so long without interruption, has a clock that is behind: an alarm.
BEHIND_MS = 5_000
BEHIND_FOR_MS = 10_000


class TimerWatch:
    """Finds the partitions at rest, by their buckets' heartbeats and the ends of the log.

    A heartbeat says until when no timer fires. That holds as long as nothing has been appended
    behind it but our own ticks.
    """

    def __init__(
        self,
        bus: Bus,
        topic: str,
        buckets: Mapping[str, TopicPartition],
        rival: Callable[[Heartbeat], bool] = lambda _beat: False,
    ) -> None:
        """topic: that of the heartbeats; buckets: the partition of each bucket, by its name; rival:
        returns whether a heartbeat of one of them is another job's."""
        self._bus, self._topic, self._buckets = bus, topic, buckets
        self._rival = rival
        self._reader: Reader | None = None
        self._beats: dict[TopicPartition, tuple[float, Heartbeat]] = {}
        self._own = defaultdict[TopicPartition, deque[int]](lambda: deque(maxlen=MOST_OWN))
        self._newest: dict[TopicPartition, tuple[float, int]] = {}

    def ticked(self, sent: float, tick: Delivered) -> None:
        """Record an appended tick that was sent at `sent` (monotonic seconds)."""
        place = (tick.topic, tick.partition)
        self._own[place].append(tick.offset)
        self._newest[place] = (sent, tick.timestamp)

    def resting(self, now: float) -> Collection[TopicPartition]:
        """Return the partitions in which nothing is due at `now` (monotonic seconds).

        Raises BusError.
        """
        self._read_heartbeats(now)
        waiting = [place for place in self._beats if self._waits(place, now)]
        ends = self._bus.ends(waiting, ENDS_S) if waiting else {}
        return {place for place, end in ends.items() if end == self._understood(place)}

    def close(self) -> None:
        """Close the connection."""
        if self._reader is not None:
            self._reader.close()

    def _read_heartbeats(self, now: float) -> None:
        if self._reader is None:
            ends = {at: end for at, (_, end) in self._bus.offsets([self._topic], ENDS_S).items()}
            self._reader = self._bus.reader(ends)
        for message in self._reader.poll(0):
            with suppress(UnreadableJobRecord):
                self._record_heartbeat(decode_heartbeat(message.value), now)

    def _record_heartbeat(self, beat: Heartbeat, now: float) -> None:
        place = self._buckets.get(beat.bucket)
        if place is None or self._rival(beat):
            return
        self._beats[place] = (now, beat)
        own = self._own[place]
        while own and own[0] <= beat.offset:
            own.popleft()

    def _waits(self, place: TopicPartition, now: float) -> bool:
        """Return whether a fresh heartbeat says that no timer is due yet."""
        received, beat = self._beats[place]
        if beat.due is None or now - received > FRESH_S or place not in self._newest:
            return False
        sent, appended = self._newest[place]
        return beat.due == 0 or beat.due > appended + 1000 * (now - sent)  # the broker's clock

    def _understood(self, place: TopicPartition) -> int:
        """Return the next offset if nothing but our ticks lies behind the heartbeat."""
        return self._beats[place][1].offset + 1 + len(self._own[place])


class EarlyTicks(NamedTuple):
    """Ticks of one partition, each appended before it was sent: by how much, when sent (ms)."""

    by: int
    first: int
    last: int


class BrokerClocks:
    """Finds the partitions in which the broker's clock is behind the driver's, by the ticks.

    No tick is appended before it is sent. Where the two clocks say that one was, the broker's is
    behind, however long the delivery took: that only makes it look less behind.
    """

    def __init__(
        self,
        buckets: Mapping[str, TopicPartition],
        tell: Callable[[Mapping[str, ClockBehind]], None],
    ) -> None:
        """buckets: the partition of each bucket, by its name; tell: called with what is so now, by
        bucket, when it has changed."""
        self._names = {place: name for name, place in buckets.items()}
        self._tell = tell
        self._early: dict[str, EarlyTicks] = {}
        self._reported: Mapping[str, ClockBehind] = {}

    def ticked(self, sent: int, tick: Delivered) -> None:
        """Record an appended tick that was sent at `sent` (Unix ms, the driver's clock)."""
        name, by = self._names[tick.topic, tick.partition], sent - tick.timestamp
        if by > BEHIND_MS:
            known = self._early.get(name)
            self._early[name] = EarlyTicks(by, known.first if known else sent, sent)
        else:
            self._early.pop(name, None)

    def report(self) -> None:
        """Report which clocks are behind, if that has changed."""
        behind = {
            name: ClockBehind(ticks.by, ticks.first)
            for name, ticks in self._early.items()
            if ticks.last - ticks.first >= BEHIND_FOR_MS
        }
        if self._differs(behind):
            self._reported = behind
            self._tell(behind)

    def _differs(self, behind: Mapping[str, ClockBehind]) -> bool:
        """Return whether it is worth a word: no clock is read to the millisecond."""
        reported = self._reported
        return behind.keys() != reported.keys() or any(
            abs(clock.by - reported[name].by) > BEHIND_MS for name, clock in behind.items()
        )


class Ticker:
    """A thread that appends ticks until it is stopped; a lost broker does not end it."""

    def __init__(
        self,
        bus: Bus,
        places: Iterable[TopicPartition],
        every_ms: int,
        watch: TimerWatch | None = None,
        clocks: BrokerClocks | None = None,
    ) -> None:
        """watch: knows which partitions are at rest; None: none ever is; clocks: judges the times
        of the ticks."""
        self._bus, self._places, self._every = bus, sorted(places), every_ms / 1000
        self._watch, self._clocks = watch, clocks
        self._under_way: Counter[TopicPartition] = Counter()
        self._sent: dict[TopicPartition, float] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ticks", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, and wait for it at most three seconds."""
        self._stop.set()
        self._thread.join(3)

    def _run(self) -> None:
        producer = self._bus.producer(linger_ms=0, message_timeout_s=GIVE_UP_S)
        due = monotonic()
        while not self._stop.wait(max(0.0, due - monotonic())):
            due = max(due + self._every, monotonic())
            producer.poll(0)
            for place in self._due_places(monotonic()):
                self._tick(producer, place)
            producer.poll(0)
            if self._clocks is not None:
                self._clocks.report()
        if self._watch is not None:
            self._watch.close()

    def _due_places(self, now: float) -> list[TopicPartition]:
        """Return the partitions due for a tick: those that are not at rest, or need a heartbeat."""
        resting = self._resting(now)
        # Half a tick more, lest one come a millisecond too early for the heartbeat.
        latest = now - HEARTBEAT_S - self._every / 2
        return [at for at in self._places if at not in resting or self._sent[at] <= latest]

    def _resting(self, now: float) -> Collection[TopicPartition]:
        if self._watch is None:
            return ()
        try:
            return self._watch.resting(now)
        except BusError as error:
            log.debug("it is not known which partitions are at rest: %s", error)
            return ()

    def _tick(self, producer: Producer, place: TopicPartition) -> None:
        if self._under_way[place] >= MOST_UNDER_WAY:
            return
        sent, sent_at = monotonic(), int(1000 * time())

        def done(outcome: Delivered | BusError) -> None:
            self._under_way[place] -= 1
            if isinstance(outcome, Delivered):
                self._ticked(sent, sent_at, outcome)

        self._under_way[place] += 1
        self._sent[place] = sent
        try:
            producer.send(place[0], None, encode_tick(), partition=place[1], on_delivery=done)
        except BusError as error:
            self._under_way[place] -= 1
            log.debug("no tick for %s: %s", place, error)

    def _ticked(self, sent: float, sent_at: int, tick: Delivered) -> None:
        """Record an appended tick. sent: monotonic seconds; sent_at: Unix ms."""
        if self._watch is not None:
            self._watch.ticked(sent, tick)
        if self._clocks is not None:
            self._clocks.ticked(sent_at, tick)
