"""A member of a consumer group that reads nothing; its assignment says what it owns."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import confluent_kafka as ck

from bus.base import AccessRefused, BusError, MemberEvents, TopicPartition, Unavailable
from bus.kafka_errors import Login, bus_error, log

_MEMBER = {
    "enable.auto.commit": "false",
    "auto.offset.reset": "earliest",
    "partition.assignment.strategy": "cooperative-sticky",
    "max.poll.interval.ms": "60000",
}


class KafkaMember:
    """A consumer that pauses its assigned partitions and reads none of their records."""

    def __init__(
        self,
        options: Mapping[str, str],
        topic: str,
        events: MemberEvents,
        clock: Callable[[], float],
    ) -> None:
        self._events, self._clock = events, clock
        self._group, self._topic = options["group.id"], topic
        self._asked_at: float | None = None
        self._login, self._refusal = Login(), ""
        hooks = {"error_cb": self._login.on_error, "on_commit": self._committed}
        self._inner = ck.Consumer({**options, **_MEMBER, **hooks}, logger=log)
        self._inner.subscribe(
            [topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked
        )

    def poll(self, timeout_s: float) -> None:
        """Keep the place in the group, and run the callbacks for changes.

        Raises Unavailable if that is not possible, and AccessRefused.
        """
        try:
            raw = self._inner.poll(timeout_s)
        except ck.KafkaException as error:
            raise self._judged(error.args[0]) from error
        if (problem := raw.error() if raw is not None else None) is None:
            self._login.check()
        elif isinstance(refusal := self._judged(problem), AccessRefused):
            raise refusal
        elif problem.fatal():
            raise Unavailable(problem.str())

    def _judged(self, problem: ck.KafkaError) -> BusError:
        """Return an error as one of ours.

        A refusal is logged only once, because the caller retries.
        """
        on_topic = problem.code() == ck.KafkaError.TOPIC_AUTHORIZATION_FAILED
        error = bus_error(problem, self._topic if on_topic else self._group, "READ")
        if isinstance(error, AccessRefused) and str(error) != self._refusal:
            self._refusal = str(error)
            log.error("%s", error)
        return error

    def confirm(self, positions: Mapping[TopicPartition, int]) -> None:
        """Commit positions. Does nothing while the answer to an earlier commit is pending."""
        if self._asked_at is not None or not positions:
            return
        offsets = [ck.TopicPartition(t, p, at) for (t, p), at in positions.items()]
        self._asked_at = self._clock()
        try:
            self._inner.commit(offsets=offsets, asynchronous=True)
        except ck.KafkaException as error:
            self._asked_at = None
            log.debug("kafka member: %s", error)

    def close(self) -> None:
        """Leave the group, so that others take over at once."""
        try:
            self._inner.close()
        except (ck.KafkaException, RuntimeError) as error:
            log.debug("kafka member did not close: %s", error)

    def _committed(self, error: ck.KafkaError | None, partitions: list[ck.TopicPartition]) -> None:
        asked_at, self._asked_at = self._asked_at, None
        refused = error is not None or any(each.error is not None for each in partitions)
        if asked_at is not None and not refused:
            self._events.confirmed(asked_at)

    def _assigned(self, consumer: ck.Consumer, partitions: list[ck.TopicPartition]) -> None:
        consumer.incremental_assign(partitions)
        consumer.pause(partitions)
        self._events.assigned([(each.topic, each.partition) for each in partitions])

    def _revoked(self, consumer: ck.Consumer, partitions: list[ck.TopicPartition]) -> None:
        self._events.revoked([(each.topic, each.partition) for each in partitions])
        consumer.incremental_unassign(partitions)
