"""Who poses as a store server: joins the servers' group, and answers at an address as one would."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import msgspec

from bus.base import GroupBus, TopicPartition
from stores.base import Order
from stores.envelopes import OrderAnswer, OrdersAnswer
from stores.owner_store import ServerHealth
from stores.ownership import boot_clock
from stores.proofs import SIGNATURE

FORGED = Order("order-1", "delivered", "nowhere", "nowhere", False, "9.9.9", 0)
PARTITIONS = [0, 1, 2, 3]


@dataclass(frozen=True)
class Question:
    """What an impostor was asked: the path with its query, and the headers."""

    target: str
    headers: dict[str, str]


Sign = Callable[[Question, int, bytes], Mapping[str, str]]
"""Returns the headers of an answer, by the question, its status and its body."""


@dataclass
class Impostor:
    """An HTTP server that answers every question of a store with what is not so."""

    address: str = ""
    asked: list[Question] = field(default_factory=list)
    sign: Sign = lambda _question, _status, _body: {}
    status: int = 200
    padding: int = 0
    """So many blanks follow each answer."""
    relays_to: str = ""
    """A true server that is asked in its place."""

    def answer(self, question: Question) -> tuple[int, Mapping[str, str], bytes]:
        """Return status, headers and body."""
        self.asked.append(question)
        if self.relays_to:
            return self._relayed(question)
        body = msgspec.json.encode(self._claim(question.target)) + b" " * self.padding
        return self.status, self.sign(question, self.status, body), body

    def _relayed(self, question: Question) -> tuple[int, Mapping[str, str], bytes]:
        headers = {name: value for name, value in question.headers.items() if name != "Host"}
        there = httpx.get(f"http://{self.relays_to}{question.target}", headers=headers)
        kept = {SIGNATURE: there.headers.get(SIGNATURE, "")}
        return there.status_code, kept, there.content

    def _claim(self, target: str) -> object:
        if target.startswith("/_health/"):
            return ServerHealth(
                "orders", "it", self.address, PARTITIONS, [], True, 1, lag=0,
                keeps="memory", refused={},
            )  # fmt: skip
        head: dict[str, Any] = {
            "via": "owner", "instance": "it", "age_ms": 0, "took_ms": 0.0, "complete": True,
        }  # fmt: skip
        if target.startswith("/orders?"):
            return OrdersAnswer(**head, version="0:9", count=1, following=None, assets=[FORGED])
        return OrderAnswer(**head, version="9.9.9", asset=FORGED)


@contextmanager
def impostor(port: int = 0) -> Iterator[Impostor]:
    """One that answers on a port of this machine, by default on a free one."""
    made = Impostor()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            status, headers, body = made.answer(Question(self.path, dict(self.headers)))
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Keep quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    made.address = f"127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        server.server_close()


class _Partitions:
    """What a member of the group is told."""

    def __init__(self) -> None:
        self.held: set[int] = set()

    def assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self.held |= {at for _, at in partitions}

    def revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self.held -= {at for _, at in partitions}

    def confirmed(self, asked_at: float) -> None:
        """Nothing: it answers whatever it holds."""


@contextmanager
def joined(bus: GroupBus, group: str, topic: str, name: str) -> Iterator[set[int]]:
    """Join a group under a name, as anybody may who reaches Kafka; the partitions that it gets."""
    events, stop = _Partitions(), threading.Event()
    member = bus.member(group, topic, name, events, session_s=6, clock=boot_clock)

    def rounds() -> None:
        while not stop.is_set():
            member.poll(0.1)

    thread = threading.Thread(target=rounds)
    thread.start()
    try:
        yield events.held
    finally:
        stop.set()
        thread.join()
        member.close()
