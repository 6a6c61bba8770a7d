"""What goes to the system at once, and what waits for its turn."""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace
from typing import Any

import pytest
from daphne.ws_protocol import WebSocketProtocol
from twisted.internet.main import CONNECTION_LOST

from dashboard.serve.server.daphne import DirectSocket


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """What is left to be sent as daphne would have sent it."""
    left: list[bytes] = []
    monkeypatch.setattr(WebSocketProtocol, "sendData", lambda _self, data, *_: left.append(data))
    return left


def socket(takes: Any, **line: Any) -> tuple[DirectSocket, list[bytes]]:
    """A socket whose system takes so many bytes of a message, and what it was given."""
    given: list[bytes] = []

    def write(data: bytes) -> Any:
        given.append(data)
        return takes

    state = {"dataBuffer": b"", "_tempDataBuffer": [], "disconnecting": False, "connected": 1}
    made = DirectSocket()
    made.send_queue = deque()
    made.transport = SimpleNamespace(writeSomeData=write, **{**state, **line})
    return made, given


@pytest.mark.parametrize(("takes", "left"), [(5, []), (2, [b"llo"]), (0, [b"hello"])])
def test_what_the_system_does_not_take_waits(waiting: list[bytes], takes: int, left: list[bytes]):
    one, given = socket(takes)
    one.sendData(b"hello")
    assert (given, waiting) == ([b"hello"], left)


@pytest.mark.parametrize(
    "line",
    [
        {"dataBuffer": b"before"}, {"_tempDataBuffer": [b"before"]}, {"disconnecting": True},
        {"connected": 0},
    ],
)  # fmt: skip
def test_nothing_overtakes_what_waits(waiting: list[bytes], line: dict[str, Any]):
    one, given = socket(5, **line)
    one.sendData(b"hello")
    assert (given, waiting) == ([], [b"hello"])


def test_bytes_that_are_to_be_chopped_wait(waiting: list[bytes]):
    one, given = socket(5)
    one.sendData(b"hello", chopsize=1)
    one.send_queue.append((b"before", False))
    one.sendData(b"more!")
    assert (given, waiting) == ([], [b"hello", b"more!"])


def test_a_lost_connection_is_noticed_by_the_loop(waiting: list[bytes]):
    one, _ = socket(CONNECTION_LOST)
    one.sendData(b"hello")
    assert waiting == [b"hello"]
