"""Query consumer groups from their coordinators, over Kafka's own protocol.

librdkafka 2.16 has requests for this (`describe_consumer_groups` and others), but they end the
whole process when a coordinator that hung resumes (confluentinc/librdkafka#4605). Long-running
processes use this module instead; if a broker does not answer, they know within the timeout.
"""

from __future__ import annotations

import random
import struct
import time
from collections.abc import Mapping
from typing import NamedTuple, Self

from bus.base import TopicPartition, Unavailable
from bus.kafka_connection import KafkaConnection, text
from bus.kafka_errors import refused

# All in versions without tagged fields, which every broker since 2.4 supports.
_FIND_COORDINATOR, _FIND_VERSION = 10, 0
_LEAVE_GROUP, _LEAVE_VERSION, _NO_INSTANCE = 13, 3, struct.pack(">h", -1)
_DESCRIBE_GROUPS, _DESCRIBE_VERSION = 15, 0
_NO_SUCH_GROUP = 69
_LEAST_S = 0.1


class MemberAssignment(NamedTuple):
    """A member's place in a group.

    id: assigned by Kafka; name: chosen by its client; partitions: assigned to it, empty while the
    group rebalances.
    """

    id: str
    name: str
    partitions: tuple[TopicPartition, ...]


class Coordinator:
    """A connection to the coordinator of a group. Raises Unavailable and BusError."""

    def __init__(self, options: Mapping[str, str], group: str, timeout_s: float) -> None:
        """options: connection settings, by librdkafka's names; timeout_s: for finding and asking
        it."""
        self._group, end = group, time.monotonic() + timeout_s
        server = _coordinator(options, group, timeout_s)
        left_s = max(end - time.monotonic(), _LEAST_S)
        self._connection = KafkaConnection(server, options, left_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._connection.__exit__(*error)

    def places(self) -> list[MemberAssignment]:
        """Return the group's members, none if the group does not exist."""
        body = struct.pack(">i", 1) + text(self._group)
        answer = _Fields(self._connection.ask(_DESCRIBE_GROUPS, _DESCRIBE_VERSION, body))
        answer.int32()  # number of groups: the one requested
        code = answer.int16()
        if code == _NO_SUCH_GROUP:
            return []
        _check(code, self._group, "DESCRIBE")
        for _ in ("group", "state", "protocol type", "protocol"):
            answer.text()
        return [_place(answer) for _ in range(answer.int32())]

    def dismiss(self, members: list[str]) -> None:
        """Remove members from the group, by the ids that Kafka assigned."""
        body = text(self._group) + struct.pack(">i", len(members))
        body += b"".join(text(member) + _NO_INSTANCE for member in members)
        answer = _Fields(self._connection.ask(_LEAVE_GROUP, _LEAVE_VERSION, body))
        answer.int32()  # throttle time
        _check(answer.int16(), self._group, "READ")


def _coordinator(options: Mapping[str, str], group: str, timeout_s: float) -> tuple[str, int]:
    """Return host and port of a group's coordinator, from the first broker that answers.

    A broker that hangs can use up only its share of the time.
    """
    servers, end = options["bootstrap.servers"].split(","), time.monotonic() + timeout_s
    random.shuffle(servers)
    failure = Unavailable("no broker is named")
    for at, server in enumerate(servers):
        share_s = (end - time.monotonic()) / (len(servers) - at)
        host, _, port = server.strip().rpartition(":")
        address = (host.strip("[]"), int(port))
        try:
            with KafkaConnection(address, options, max(share_s, _LEAST_S)) as connection:
                body = text(group)
                answer = _Fields(connection.ask(_FIND_COORDINATOR, _FIND_VERSION, body))
            _check(answer.int16(), group, "DESCRIBE")
            answer.int32()  # its broker number
            return answer.text(), answer.int32()
        except Unavailable as error:
            failure = error
    raise failure


def _check(code: int, group: str, right: str) -> None:
    """Raise the error for Kafka's code, unless it is 0. right: the right that the request needs."""
    if code:
        raise refused(code, group, right)


class _Fields:
    """Reads the fields of an answer in order. Raises struct.error past the end."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def int16(self) -> int:
        """Return a two-byte integer."""
        return self._number(">h", 2)

    def int32(self) -> int:
        """Return a four-byte integer."""
        return self._number(">i", 4)

    def text(self) -> str:
        """Return a string."""
        return self._take(self.int16()).decode(errors="replace")

    def blob(self) -> bytes:
        """Return bytes."""
        return self._take(self.int32())

    def _number(self, form: str, size: int) -> int:
        (number,) = struct.unpack(form, self._take(size))
        return int(number)

    def _take(self, size: int) -> bytes:
        begin, self._at = self._at, self._at + max(size, 0)
        if self._at > len(self._data):
            raise struct.error(f"{size} bytes are expected at {begin}")
        return self._data[begin : self._at]


def _place(answer: _Fields) -> MemberAssignment:
    member, name = answer.text(), answer.text()
    answer.text()  # its host
    answer.blob()  # its subscription
    return MemberAssignment(member, name, _assigned(answer.blob()))


def _assigned(assignment: bytes) -> tuple[TopicPartition, ...]:
    """Return the partitions of an assignment.

    Return none if it is not in the usual form: the member that leads the group writes it.
    """
    fields = _Fields(assignment)
    places: list[TopicPartition] = []
    try:
        fields.int16()  # its version
        for _ in range(fields.int32()):
            topic = fields.text()
            places += [(topic, fields.int32()) for _ in range(fields.int32())]
    except struct.error:
        return ()
    return tuple(places)
