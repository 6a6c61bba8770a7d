"""A consumer that shares partitions with the other members of its group."""

# librdkafka's own error codes begin with an underscore.
# ruff: noqa: SLF001

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import confluent_kafka as ck

from bus.base import AccessRefused, BusError, ConsumerRecord, TopicPartition, Unavailable
from bus.kafka_admin import Committed
from bus.kafka_errors import Login, bus_error, log, raised

Reset = Literal["earliest", "latest"]

_TIMEOUT_S = 10.0
# Longest time between polls, s; after it, a member leaves its group by itself.
_MAX_POLL_S = 300.0
_HEARTBEAT_MS = 1000


@dataclass(frozen=True, slots=True)
class Membership:
    """Who consumes what, and how. reset: where to start without a committed offset.

    session_timeout_s: after this long without a sign of life, a member is considered dead.
    """

    group: str
    topics: tuple[str, ...]
    reset: Reset
    session_timeout_s: float
    client: str


class Listener(Protocol):
    """Callbacks for assigned and revoked partitions, called from within `poll` and `close`."""

    def assigned(self, places: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Take over partitions.

        Return the start offsets for those that do not start as committed.
        """

    def revoked(self, places: Sequence[TopicPartition], *, lost: bool) -> None:
        """Give up partitions. lost: another member may already have them."""


class KafkaConsumer:
    """A member of a consumer group. Not thread-safe.

    A lost broker is no error: `poll` waits. A broker that refuses the login, a topic or the group
    is.
    """

    def __init__(
        self, options: Mapping[str, str], membership: Membership, listener: Listener
    ) -> None:
        self._listener, self._group = listener, membership.group
        self._login = Login()
        self._behind: set[TopicPartition] | None = None
        hooks = {"error_cb": self._login.on_error}
        self._inner = ck.Consumer({**options, **_settings(membership), **hooks}, logger=log)
        self._inner.subscribe(
            list(membership.topics),
            on_assign=self._assigned,
            on_revoke=lambda _, places: self._revoked(places, lost=False),
            on_lost=lambda _, places: self._revoked(places, lost=True),
        )

    def _assigned(self, inner: ck.Consumer, places: list[ck.TopicPartition]) -> None:
        self._behind = set(_places(places))
        starts = self._listener.assigned(_places(places))
        for at in places:
            at.offset = starts.get((at.topic, at.partition), at.offset)
        inner.assign(places)

    def _revoked(self, places: list[ck.TopicPartition], *, lost: bool) -> None:
        self._behind = None
        self._listener.revoked(_places(places), lost=lost)

    def poll(self, timeout_s: float, max_records: int) -> list[ConsumerRecord]:
        """Return at most `max_records` records that have arrived, waiting only for the first.

        Raises BusError for errors that do not pass by waiting.
        """
        messages: list[ConsumerRecord] = []
        wait, end = timeout_s, time.monotonic() + timeout_s
        while len(messages) < max_records and (raw := self._inner.poll(wait)) is not None:
            if (error := raw.error()) is None:
                self._login.taken()
                messages.append(_message(raw))
                self._reached_end(raw, reached=False)
            elif error.code() == ck.KafkaError._PARTITION_EOF:
                self._reached_end(raw, reached=True)
            else:
                _report_error(error, self._group, raw.topic() or "")
            wait = 0 if messages else max(0.0, end - time.monotonic())
        if not messages:
            self._login.check()
        return messages

    def _reached_end(self, raw: Any, *, reached: bool) -> None:
        """Record whether a partition's log ends with this record or event."""
        if self._behind is not None:
            change = self._behind.discard if reached else self._behind.add
            change((raw.topic(), raw.partition()))

    def at_end(self) -> bool:
        """Return whether each assigned partition has been read to its end.

        False until there is an assignment, and from a revocation until the next one.
        """
        return self._behind is not None and not self._behind

    def positions(self) -> dict[TopicPartition, int]:
        """Return the next offset to read for each assigned partition that has been read from."""
        known = self._inner.position(self._inner.assignment())
        return {(at.topic, at.partition): at.offset for at in known if at.offset >= 0}

    def committed(self, places: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the group's committed offsets, leaving out partitions without one."""
        try:
            offsets = self._inner.committed([ck.TopicPartition(*p) for p in places], _TIMEOUT_S)
        except ck.KafkaException as error:
            raise raised(error, self._group, "READ") from error
        return {(at.topic, at.partition): at.offset for at in offsets if at.offset >= 0}

    def commit(self, offsets: Mapping[TopicPartition, Committed]) -> None:
        """Commit, and wait for the answer.

        Raises BusError, for example if the partition now belongs to another member.
        """
        places = [
            ck.TopicPartition(*place, to.offset, to.metadata) for place, to in offsets.items()
        ]
        try:
            done = self._inner.commit(offsets=places, asynchronous=False)
        except ck.KafkaException as error:
            raise raised(error, self._group, "READ") from error
        for at in done or ():
            if at.error is not None:
                raise bus_error(at.error, at.topic, "READ")

    def close(self) -> None:
        """Leave the group, so that the others get the partitions at once."""
        self._inner.close()


def _settings(membership: Membership) -> dict[str, str]:
    session_ms = round(membership.session_timeout_s * 1000)
    return {
        "group.id": membership.group,
        "client.id": membership.client,
        "auto.offset.reset": membership.reset,
        "enable.auto.commit": "false",
        "enable.partition.eof": "true",
        "isolation.level": "read_uncommitted",
        "session.timeout.ms": str(session_ms),
        # Members learn with their next heartbeat that another one has left or died.
        "heartbeat.interval.ms": str(max(1, min(_HEARTBEAT_MS, session_ms // 6))),
        "max.poll.interval.ms": str(max(session_ms, round(_MAX_POLL_S * 1000))),
        "fetch.wait.max.ms": "100",
    }


def _places(places: list[ck.TopicPartition]) -> list[TopicPartition]:
    return sorted((at.topic, at.partition) for at in places)


def _message(raw: Any) -> ConsumerRecord:
    _, stamp = raw.timestamp()
    headers = tuple(raw.headers() or ())
    place = (raw.topic(), raw.partition(), raw.offset(), stamp)
    return ConsumerRecord(*place, raw.key(), raw.value(), headers)


def _report_error(error: ck.KafkaError, group: str, topic: str) -> None:
    """Raise errors that do not pass by waiting, and log the others at debug level."""
    on_group = error.code() == ck.KafkaError.GROUP_AUTHORIZATION_FAILED
    words = bus_error(error, group if on_group else topic, "READ")
    if error.code() == ck.KafkaError.INVALID_SESSION_TIMEOUT:
        raise BusError(
            "The broker refuses this session timeout; it takes 6 s to 30 min, unless its "
            "group.min.session.timeout.ms and group.max.session.timeout.ms say otherwise."
        )
    if isinstance(words, AccessRefused):
        raise words
    if isinstance(words, Unavailable) or error.code() == ck.KafkaError._MAX_POLL_EXCEEDED:
        log.debug("kafka consumer: %s", words)
        return
    raise words
