"""Consumer groups, asked of their coordinators over Kafka's own protocol.

librdkafka 2.16 has requests for it (`describe_consumer_groups` and its like) that end the whole
process once a coordinator that stood still goes on (confluentinc/librdkafka#4605). What runs for
long asks here instead; of a group that a broker does not answer for it learns within its time.
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

# Each in a version without tagged fields, which every broker since 2.4 knows.
_FIND_COORDINATOR, _FIND_VERSION = 10, 0
_LEAVE_GROUP, _LEAVE_VERSION, _NO_INSTANCE = 13, 3, struct.pack(">h", -1)
_DESCRIBE_GROUPS, _DESCRIBE_VERSION = 15, 0
_NO_SUCH_GROUP = 69
_LEAST_S = 0.1


class MemberAssignment(NamedTuple):
    """A member's place in a group. id: which Kafka gave it; name: its client's own; partitions:
    what it is assigned, nothing while the group rebalances."""

    id: str
    name: str
    partitions: tuple[TopicPartition, ...]


class Coordinator:
    """A connection to the coordinator of a group. Raises Unavailable, and BusError."""

    def __init__(self, options: Mapping[str, str], group: str, timeout_s: float) -> None:
        """options: of the connection, by librdkafka's names; timeout_s: to find it and to ask."""
        self._group, end = group, time.monotonic() + timeout_s
        server = _coordinator(options, group, timeout_s)
        left_s = max(end - time.monotonic(), _LEAST_S)
        self._connection = KafkaConnection(server, options, left_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._connection.__exit__(*error)

    def places(self) -> list[MemberAssignment]:
        """Return who is in the group; nobody where there is none of that name."""
        body = struct.pack(">i", 1) + text(self._group)
        answer = _Fields(self._connection.ask(_DESCRIBE_GROUPS, _DESCRIBE_VERSION, body))
        answer.int32()  # how many groups: the one that was asked for
        code = answer.int16()
        if code == _NO_SUCH_GROUP:
            return []
        _check(code, self._group, "DESCRIBE")
        for _ in ("group", "state", "protocol type", "protocol"):
            answer.text()
        return [_place(answer) for _ in range(answer.int32())]

    def dismiss(self, members: list[str]) -> None:
        """Have the group go on without members, by the ids that Kafka gave them."""
        body = text(self._group) + struct.pack(">i", len(members))
        body += b"".join(text(member) + _NO_INSTANCE for member in members)
        answer = _Fields(self._connection.ask(_LEAVE_GROUP, _LEAVE_VERSION, body))
        answer.int32()  # how long the broker held the answer back
        _check(answer.int16(), self._group, "READ")


def _coordinator(options: Mapping[str, str], group: str, timeout_s: float) -> tuple[str, int]:
    """Return host and port of a group's coordinator, as the first broker says that answers.

    A broker that stands still may take its share of the time, and no more.
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
            answer.int32()  # its number
            return answer.text(), answer.int32()
        except Unavailable as error:
            failure = error
    raise failure


def _check(code: int, group: str, right: str) -> None:
    """Raise what Kafka's code of an error means; 0 is none. right: that what was asked needs."""
    if code:
        raise refused(code, group, right)


class _Fields:
    """An answer's fields, one after the other. Raises struct.error past its end."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def int16(self) -> int:
        """Return a number of two bytes."""
        return self._number(">h", 2)

    def int32(self) -> int:
        """Return a number of four bytes."""
        return self._number(">i", 4)

    def text(self) -> str:
        """Return a text."""
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
    answer.text()  # its machine
    answer.blob()  # what it subscribes to
    return MemberAssignment(member, name, _assigned(answer.blob()))


def _assigned(assignment: bytes) -> tuple[TopicPartition, ...]:
    """Return the partitions of an assignment; none where it is not of the usual form, as whichever
    member leads the group writes it."""
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
