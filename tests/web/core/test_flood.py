"""A real web server under a flood from this machine: its memory, how it answers, who gets in."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from websockets.asyncio.client import ClientConnection
from websockets.asyncio.client import connect as connect_async
from websockets.exceptions import ConnectionClosed
from websockets.typing import Origin

from config.settings import PREFIX
from support.run.stack import ROOT, wait_until
from support.web.web_process import Web, until

pytestmark = pytest.mark.timeout(180)

NO_BROKER = "127.0.0.1:1"
BODY = 300 << 20
LOGIN = b"POST /account/login/ HTTP/1.1\r\nHost: 127.0.0.1\r\n"
PATIENCE_S = 2.0
"""What this server gives headers and bodies."""


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    web = Web(
        tmp_path_factory.mktemp("flood"), NO_BROKER, "flood.",
        http_head_s=PATIENCE_S, http_body_s=PATIENCE_S, sockets_per_session=20,
    )  # fmt: skip
    yield web
    web.process.kill()
    web.process.wait()


def memory(web: Web) -> int:
    """Return what the process holds in memory, bytes."""
    status = Path(f"/proc/{web.process.pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) * 1024


def slowest_answer(web: Web, flood: Callable[[], object]) -> float:
    """The longest that `/healthz` took while the flood went on, s."""
    took = [0.0]
    with ThreadPoolExecutor() as pool, httpx.Client(timeout=20) as client:
        flooding = pool.submit(flood)
        while not flooding.done() or len(took) == 1:
            begun = time.monotonic()
            assert client.get(f"http://127.0.0.1:{web.port}/healthz").status_code == 200
            took.append(time.monotonic() - begun)
            time.sleep(0.02)
        flooding.result()
    return max(took)


def send_all(web: Web, head: bytes, body: bytes) -> bytes:
    """Send a body of 300 MB in pieces, until it is refused; what came back."""
    with socket.create_connection(("127.0.0.1", web.port), timeout=20) as connection:
        connection.sendall(head)
        with contextlib.suppress(ConnectionError):
            for _ in range(BODY // len(body)):
                connection.sendall(body)
        answer = b""
        with contextlib.suppress(ConnectionError):
            while more := connection.recv(65_536):
                answer += more
        return answer


@pytest.mark.spread(1)
@pytest.mark.parametrize(
    ("head", "body"),
    [
        (LOGIN + b"Content-Length: %d\r\n\r\n" % BODY, b"x" * (1 << 20)),
        (LOGIN + b"Transfer-Encoding: chunked\r\n\r\n", b"100000\r\n" + b"x" * (1 << 20) + b"\r\n"),
    ],
    ids=["of-a-length", "in-chunks"],
)
def test_300_mb_from_nobody_are_not_kept(web: Web, head: bytes, body: bytes):
    before = memory(web)
    slowest = slowest_answer(web, lambda: send_all(web, head, body))
    assert memory(web) - before < 20 << 20
    assert slowest < 1
    with socket.create_connection(("127.0.0.1", web.port), timeout=20) as connection:
        connection.sendall(head + body[: 100 << 10])
        assert connection.recv(65_536).startswith(b"HTTP/1.1 413 ")


async def drip(port: int, begun: bytes) -> float:
    """Send a byte each tenth of a second until the server ends it; how long it lived, s."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    since = time.monotonic()
    writer.write(begun)
    ended = asyncio.ensure_future(reader.read())
    while not ended.done() and time.monotonic() - since < 30:
        with contextlib.suppress(ConnectionError):
            writer.write(b"x")
            await writer.drain()
        await asyncio.wait([ended], timeout=0.1)
    lived = time.monotonic() - since
    writer.close()
    with contextlib.suppress(ConnectionError):
        assert (await ended).startswith(b"HTTP/1.1 408 ")
    return lived


def test_200_that_drip_are_ended_and_nobody_waits_for_them(web: Web):
    upgrade = b"GET /ws/board/attack/ HTTP/1.1\r\nHost: here\r\nUpgrade: websocket\r\nX-"
    kinds = (b"GET / HTTP/1.1\r\nX-", LOGIN + b"Content-Length: 9999\r\n\r\n", upgrade)

    async def drip_all() -> list[float]:
        return await asyncio.gather(*(drip(web.port, kinds[n % 3]) for n in range(200)))

    lived: list[float] = []
    slowest = slowest_answer(web, lambda: lived.extend(asyncio.run(drip_all())))
    assert len(lived) == 200
    assert max(lived) < PATIENCE_S + 8, "a loaded machine included"
    assert slowest < 2


async def board(web: Web) -> tuple[ClientConnection, int]:
    """A board, once it is told something: 0, or the code with which it was closed."""
    address = f"ws://127.0.0.1:{web.port}/ws/board/attack/"
    connection = await connect_async(
        address, origin=Origin(f"http://127.0.0.1:{web.port}"),
        additional_headers={"Cookie": web.cookie}, open_timeout=60,
    )  # fmt: skip
    try:
        await connection.send('{"type": "filter"}')
        while '"type":"snapshot"' not in str(await connection.recv()):
            pass
    except ConnectionClosed as closed:
        return connection, closed.rcvd.code if closed.rcvd else 1006
    return connection, 0


def open_boards(web: Web, number: int) -> Counter[int]:
    """Open so many with one login, 50 at a time. How many ended how; another gets in meanwhile."""

    async def open_all() -> Counter[int]:
        turns = asyncio.Semaphore(50)

        async def one() -> tuple[ClientConnection, int]:
            async with turns:
                return await board(web)

        boards = await asyncio.gather(*(one() for _ in range(number)))
        await asyncio.to_thread(check_another, web)
        await asyncio.gather(*(connection.close() for connection, _ in boards))
        return Counter(code for _, code in boards)

    return asyncio.run(open_all())


def check_another(web: Web) -> None:
    """Another user's board opens, and one more of the first is told why it does not."""
    with web.socket(cookie=web.another) as other:
        other.send('{"type": "filter"}')
        assert until(other, "snapshot")["type"] == "snapshot"
    with web.socket() as refused:
        closing = until(refused, "closing")
    assert closing["code"] == 4429
    assert closing["reason"] == "20 boards are open in this login: close some"


def check_boards(web: Web, number: int) -> None:
    ended: list[Counter[int]] = []
    slowest = slowest_answer(web, lambda: ended.append(open_boards(web, number)))
    assert ended[0] == {0: 20, 4429: number - 20}
    assert slowest < 2

    def opens() -> bool:
        with web.socket() as again:
            again.send('{"type": "filter"}')
            return '"type":"closing"' not in str(again.recv())

    wait_until(opens, 20, "the room of closed boards is not free again")


def test_one_login_has_its_boards_and_locks_nobody_out(web: Web):
    check_boards(web, 60)


@pytest.mark.long
def test_2000_boards_of_one_login_lock_nobody_out(web: Web):
    check_boards(web, 2000)


async def flood_filters(web: Web, boards: int, filters: int) -> Counter[int]:
    """Send so many filters by each of so many boards of a login. How many ended how."""
    wanted = json.dumps({"type": "filter", "q": "-name:a " * 40})

    async def one() -> int:
        connection, _ = await board(web)
        with contextlib.suppress(ConnectionClosed):
            for _ in range(filters):
                await connection.send(wanted)
            async with asyncio.timeout(30):
                while True:
                    await connection.recv()
        return connection.close_code or 0

    return Counter(await asyncio.gather(*(one() for _ in range(boards))))


def test_filters_without_end_close_their_boards_and_slow_nobody_down(web: Web):
    ended: list[Counter[int]] = []
    slowest = slowest_answer(web, lambda: ended.append(asyncio.run(flood_filters(web, 10, 300))))
    assert ended == [Counter({4429: 10})]
    assert slowest < 2
    with web.socket(cookie=web.another) as other:
        other.send('{"type": "filter"}')
        assert until(other, "snapshot")["type"] == "snapshot"


def test_too_few_files_are_told_in_one_line(web: Web):
    limited = 'ulimit -n 600; exec "$0" manage.py serve'
    done = subprocess.run(
        ["bash", "-c", limited, sys.executable],
        env=web.environment | {f"{PREFIX}SOCKETS": "500"}, cwd=ROOT,
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "may have 600 files open and needs 1800" in done.stderr
    assert "TALLYBOARD_SOCKETS" in done.stderr
    assert "Traceback" not in done.stderr


def test_it_has_as_many_files_as_the_system_lets_it(web: Web):
    limits = Path(f"/proc/{web.process.pid}/limits").read_text()
    soft, hard = next(
        line.split()[3:5] for line in limits.splitlines() if line.startswith("Max open files")
    )
    assert soft == hard
