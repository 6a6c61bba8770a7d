"""Nobody else reaches what a running copy listens on, and a query that fails is told at once."""

from __future__ import annotations

import ipaddress
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from streaming.spark.gateway import MAIN_CLASS
from support.run.stack import Stack, wait_until

pytestmark = pytest.mark.extensive(
    guard="tests/unit/streaming/test_streaming_parts.py::test_on_one_machine_spark_listens_there_alone"
)

LISTENING = "0A"
# Those of PySpark's gateway, of Spark's driver and of its block manager.
MOST_PORTS = 3
BATCH_S = 30
SOON_S = 10
"""So soon `/readyz` tells that a query has failed."""


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory, jars_dir: Path) -> Iterator[Stack]:
    """A running copy without agents."""
    only = ("broker", "job", "materialiser", "web", "worker")
    folder = tmp_path_factory.mktemp("ports") / "data"
    own = Stack(folder, only, jars_dir=jars_dir, batch_s=BATCH_S)
    try:
        yield own.start(300)
    finally:
        own.stop()


def listening(pids: list[int]) -> dict[tuple[str, int], int]:
    """The process of each address and port that these processes listen on."""
    owners = {}
    for pid in pids:
        with suppress(OSError):
            for handle in Path(f"/proc/{pid}/fd").iterdir():
                with suppress(OSError):
                    owners[str(handle.readlink())] = pid
    listeners = {}
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            owner = owners.get(f"socket:[{fields[9]}]")
            if fields[3] == LISTENING and owner is not None:
                host, port = fields[1].split(":")
                listeners[str(_address(host)), int(port, 16)] = owner
    return listeners


def _address(digits: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """An address as the kernel shows it: words of four bytes, each the last byte first."""
    words = [bytes.fromhex(digits[at : at + 8])[::-1] for at in range(0, len(digits), 8)]
    address = ipaddress.ip_address(b"".join(words))
    return getattr(address, "ipv4_mapped", None) or address


def readyz(stack: Stack) -> tuple[int, list[str]]:
    answer = httpx.get(f"{stack.url}/readyz", timeout=10)
    return answer.status_code, answer.json()["missing"]


def test_every_port_is_this_machines_alone(stack: Stack) -> None:
    listeners = listening(stack.leftovers())
    known = {stack.settings.http_port, stack.settings.kafka_port}
    assert known <= {port for _, port in listeners}
    job_jvm = [port for (_, port), pid in listeners.items() if pid in _java(stack)]
    assert 0 < len(job_jvm) <= MOST_PORTS, "Real-time Mode opens a port for each task"
    open_ones = [place for place in listeners if not ipaddress.ip_address(place[0]).is_loopback]
    assert open_ones == []


def test_garbage_on_its_ports_ends_no_query(stack: Stack) -> None:
    for (host, port), pid in listening(stack.leftovers()).items():
        if pid in _java(stack):
            _garbage(host, port)
    before = len(_committed(stack))
    wait_until(lambda: len(_committed(stack)) > before, 60, "no commit after the garbage")
    assert readyz(stack) == (200, [])
    assert b"restarting" not in (stack.data_dir / "logs" / "job.log").read_bytes()


@pytest.mark.extensive(
    guard="tests/unit/serve/test_readiness.py::"
    "test_a_query_that_failed_is_told_at_once_and_its_return_too"
)
def test_a_query_that_fails_is_told_at_once_and_comes_back(stack: Stack) -> None:
    assert readyz(stack) == (200, [])
    missing_lists: list[list[str]] = []

    def failed() -> bool:
        status, missing = readyz(stack)
        if status == 503 and any(each.startswith("query kernel: ") for each in missing):
            missing_lists.append(missing)
        return bool(missing_lists)

    commits = _commits(stack)
    aside = commits.rename(commits.with_name("aside"))
    commits.touch()  # nothing can be written into a file
    wait_until(failed, BATCH_S + SOON_S, "it goes on without commits, or is not told of")
    commits.unlink()
    aside.rename(commits)
    assert missing_lists[0][0].startswith(("query kernel: restarting: ", "query kernel: failed: "))
    wait_until(lambda: readyz(stack) == (200, []), 120, "it does not come back")


def _commits(stack: Stack) -> Path:
    """Where the query notes each batch that it has committed."""
    (commits,) = (stack.data_dir / "checkpoint").glob("*/*/commits")
    return commits


def _committed(stack: Stack) -> list[Path]:
    return [path for path in _commits(stack).iterdir() if path.name.isdigit()]


def _java(stack: Stack) -> set[int]:
    """The job's JVM: the one that loads Spark."""
    main = MAIN_CLASS.encode()
    return {pid for pid in stack.leftovers() if main in Path(f"/proc/{pid}/cmdline").read_bytes()}


def _garbage(host: str, port: int) -> None:
    """Two frames of Spark's form that hold nothing of Spark's."""
    frame = (8 + 1 + 8).to_bytes(8, "big") + b"\x7f" + b"nonsense"
    with suppress(OSError), socket.create_connection((host, port), 2) as conn:
        conn.sendall(2 * frame)
        time.sleep(0.05)
