"""A group's members as its coordinator describes them: what it may answer, and not at all."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from bus.base import BusError, GroupMember, Unavailable
from bus.kafka import KafkaBus
from bus.kafka_connection import text

FIND, DESCRIBE, LEAVE = 10, 15, 13
LOADING, NOT_COORDINATOR, FORBIDDEN, NO_SUCH_GROUP = 14, 16, 30, 69
Answer = Callable[[], bytes]


def blob(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def assignment(*places: tuple[str, list[int]]) -> bytes:
    """What a group's leader writes for a member."""
    made = struct.pack(">hi", 0, len(places))
    for topic, partitions in places:
        made += text(topic) + struct.pack(f">i{len(partitions)}i", len(partitions), *partitions)
    return made + blob(b"")


def described(code: int = 0, *members: tuple[str, bytes]) -> bytes:
    """What a coordinator says of one group."""
    made = struct.pack(">ih", 1, code) + b"".join(map(text, ("g", "Stable", "consumer", "range")))
    made += struct.pack(">i", len(members))
    for name, own in members:
        made += b"".join(map(text, (f"{name}-id", name, "/10.0.0.1"))) + blob(b"\0\1") + blob(own)
    return made


class Broker:
    """A broker that coordinates every group. Each kind of request is answered in turn, the last
    answer for ever; none: not at all. `asked`: the requests' kinds and bodies."""

    def __init__(self) -> None:
        self.answers: dict[int, list[bytes]] = {LEAVE: [struct.pack(">ihi", 0, 0, 0)]}
        self.asked: list[tuple[int, bytes]] = []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self.answers[FIND] = [self.coordinator()]
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def coordinator(self, code: int = 0) -> bytes:
        """What it says of who coordinates a group."""
        return struct.pack(">hi", code, 1) + text("127.0.0.1") + struct.pack(">i", self.port)

    def close(self) -> None:
        self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as requests:
            while size := requests.read(4):
                request = requests.read(*struct.unpack(">i", size))
                kind, _, number, client = struct.unpack_from(">hhih", request)
                self.asked.append((kind, request[10 + client :]))
                left = self.answers.get(kind, [])
                if left:
                    answer = left.pop(0) if len(left) > 1 else left[0]
                    connection.sendall(blob(struct.pack(">i", number) + answer))


@pytest.fixture
def broker() -> Iterator[Broker]:
    made = Broker()
    yield made
    made.close()


def bus(*brokers: str) -> KafkaBus:
    return KafkaBus({"bootstrap.servers": ",".join(brokers)})


def test_members_come_with_what_they_are_assigned(broker: Broker):
    own = assignment(("orders.states", [0, 2]), ("ä", [7]))
    broker.answers[DESCRIBE] = [described(0, ("one", own), ("two", b""))]
    places = (("orders.states", 0), ("orders.states", 2), ("ä", 7))
    assert bus(broker.address).members("g") == [GroupMember("one", places), GroupMember("two", ())]
    assert broker.asked == [(FIND, text("g")), (DESCRIBE, struct.pack(">i", 1) + text("g"))]


@pytest.mark.parametrize(
    "own",
    [b"\0", b"\xff" * 40, assignment(("t", [1]))[:-8], struct.pack(">hi", 0, 2**31 - 1),
     struct.pack(">hih", 0, 1, 30_000) + b"x"],
)  # fmt: skip
def test_an_assignment_of_no_usual_form_is_none_and_hides_nobody(broker: Broker, own: bytes):
    good = assignment(("t", [1]))
    broker.answers[DESCRIBE] = [described(0, ("bad", own), ("good", good))]
    assert bus(broker.address).members("g") == [
        GroupMember("bad", ()),
        GroupMember("good", (("t", 1),)),
    ]


@pytest.mark.parametrize("answer", [described(), described(NO_SUCH_GROUP)])
def test_in_a_group_that_is_not_there_is_nobody(broker: Broker, answer: bytes):
    broker.answers[DESCRIBE] = [answer]
    assert bus(broker.address).members("g") == []


def test_a_coordinator_that_moves_is_asked_for_again(broker: Broker):
    broker.answers[FIND] = [broker.coordinator(LOADING), broker.coordinator()]
    broker.answers[DESCRIBE] = [described(NOT_COORDINATOR), described(0, ("one", b""))]
    assert bus(broker.address).members("g") == [GroupMember("one", ())]
    assert [kind for kind, _ in broker.asked] == [FIND, FIND, DESCRIBE, FIND, DESCRIBE]


def test_a_refusal_is_said_at_once(broker: Broker):
    broker.answers[DESCRIBE] = [described(FORBIDDEN)]
    begun = time.monotonic()
    with pytest.raises(BusError, match="GROUP_AUTHORIZATION_FAILED"):
        bus(broker.address).members("g", 20)
    assert time.monotonic() - begun < 5


@contextmanager
def takes(least_s: float, most_s: float) -> Iterator[None]:
    begun = time.monotonic()
    yield
    assert least_s <= time.monotonic() - begun < most_s


@pytest.mark.parametrize("silent", [(FIND, DESCRIBE), (DESCRIBE,)])
def test_a_broker_that_stands_still_is_waited_for_no_longer_than_was_said(
    broker: Broker, silent: tuple[int, ...]
):
    broker.answers[DESCRIBE] = [described()]
    for kind in silent:
        del broker.answers[kind]
    with takes(0.9, 2.5), pytest.raises(Unavailable):
        bus(broker.address).members("g", 1)


def test_a_broker_that_hangs_up_or_is_not_there_is_tried_again_for_as_long(broker: Broker):
    broker.close()
    with takes(0.9, 2.5), pytest.raises(Unavailable):
        bus(broker.address).members("g", 1)


def test_one_broker_that_stands_still_does_not_hide_the_others(broker: Broker):
    broker.answers[DESCRIBE] = [described(0, ("one", b""))]
    still = Broker()
    del still.answers[FIND]
    for addresses in ((still.address, broker.address), (broker.address, still.address)):
        with takes(0, 1.5):
            names = bus(*addresses).members("g", 1)
        assert names == [GroupMember("one", ())]
    still.close()


def test_a_member_is_dismissed_by_the_ids_of_its_name(broker: Broker):
    broker.answers[DESCRIBE] = [described(0, ("one", b""), ("two", b""))]
    assert bus(broker.address).dismiss("g", "two") is True
    nobody = struct.pack(">h", -1)
    left = text("g") + struct.pack(">i", 1) + text("two-id") + nobody
    assert broker.asked[-1] == (LEAVE, left)
    assert bus(broker.address).dismiss("g", "three") is False
    assert broker.asked[-1][0] == DESCRIBE
