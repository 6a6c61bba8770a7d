"""Open boards, as browsers have them: websockets with a login, each with a filter of its own."""

from __future__ import annotations

import asyncio
import json
import re
import time
from pathlib import Path

import httpx
import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Origin

from bench.roles import Samples, Signals
from bench.stack import BenchProblem
from domain.version import Version
from wire.partitioner import partition_of

_TOKEN = re.compile(r'name="csrfmiddlewaretoken" value="(\w+)"')
LOGIN = "/account/login/"
USER = "operator"
# Boards that are opened at a time: the server refuses what it has not accepted within seconds.
MOST_OPENING = 50


class _Row(msgspec.Struct):
    asset: str
    version: str


class _Message(msgspec.Struct):
    type: str
    seq: int = 0
    rows: list[_Row] = []
    code: int = 0
    reason: str = ""


class Board:
    """What one browser holds: the newest version of each row, and when each version came."""

    def __init__(self, partitions: int, samples: Samples) -> None:
        self._partitions, self._samples = partitions, samples
        self._versions: dict[str, str] = {}
        self.open = False

    def take(self, message: _Message, moment: float) -> None:
        """Apply a message; what the first one shows is not news."""
        for row in message.rows:
            if row.version > self._versions.get(row.asset, ""):
                self._versions[row.asset] = row.version
                if self.open:
                    partition = partition_of(row.asset.encode(), self._partitions)
                    self._samples.add(partition, Version.parse(row.version).offset, moment)
        self.open |= message.type == "snapshot"


def log_in(url: str, data_dir: Path) -> str:
    """Log a demo user in; the cookies, as a header's value. Raises BenchProblem."""
    password = json.loads((data_dir / "demo-logins.json").read_text())[USER]
    with httpx.Client(base_url=url, timeout=30) as client:
        token = _TOKEN.search(client.get(LOGIN).text)
        form = {
            "csrfmiddlewaretoken": token[1] if token else "",
            "login": USER,
            "password": password,
        }
        answer = client.post(LOGIN, data=form, headers={"Referer": url + LOGIN})
        if answer.status_code != 302:
            raise BenchProblem(f"the login was answered with {answer.status_code}")
        return "; ".join(f"{name}={value}" for name, value in client.cookies.items())


def watch_boards(
    signals: Signals, url: str, cookie: str, scenario: str, filters: list[str], partitions: int
) -> Samples:
    """Keep a board open for each filter (a part of the name) until `signals` says to stop.

    Returns when each row's versions came, of all boards. Raises BenchProblem when one is closed.
    """
    return asyncio.run(_watch(signals, url, cookie, scenario, filters, partitions))


async def _watch(
    signals: Signals, url: str, cookie: str, scenario: str, filters: list[str], partitions: int
) -> Samples:
    samples = Samples()
    boards = [Board(partitions, samples) for _ in filters]
    address = f"{url.replace('http', 'ws', 1)}/ws/board/{scenario}/"
    turn = asyncio.Semaphore(MOST_OPENING)
    tasks = [
        asyncio.create_task(_follow(turn, address, url, cookie, text, board))
        for text, board in zip(filters, boards, strict=True)
    ]
    while not signals.stop.is_set():
        await asyncio.wait(tasks, timeout=0.2, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            if task.done():
                task.result()
                raise BenchProblem("a board's socket was closed")
        if all(board.open for board in boards):
            signals.ready.set()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return samples


async def _follow(
    turn: asyncio.Semaphore, address: str, origin: str, cookie: str, text: str, board: Board
) -> None:
    async with turn:
        socket = await connect(
            address,
            origin=Origin(origin),
            additional_headers={"Cookie": cookie},
            compression=None,
            max_size=None,
            open_timeout=30,
        )
    async with socket:
        await socket.send(json.dumps({"type": "filter", "q": text}))
        await _listen(socket, board)


async def _listen(socket: ClientConnection, board: Board) -> None:
    decode = msgspec.json.Decoder(_Message).decode
    async for text in socket:
        moment, message = time.monotonic(), decode(text)
        if message.type == "closing":
            raise BenchProblem(f"a board was closed: {message.code} {message.reason}")
        board.take(message, moment)
        if message.seq:
            await socket.send(f'{{"type":"ack","seq":{message.seq}}}')
