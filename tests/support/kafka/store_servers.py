"""Store servers as processes, and a Redis, for tests."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bus.kafka import KafkaBus
from stores.base import StoreProblem
from stores.directory import Directory
from stores.owner_store import OwnerStore, ServerHealth
from stores.proofs import TICKET
from stores.tickets import ticket
from stores.transformation import ORDERS
from support.run.stack import ROOT, free_port, wait_until
from wire.topics import Topics

SECRET = "a secret of the tests alone, 0123456789"
REDIS = shutil.which("redis-server")


@contextmanager
def redis_server(folder: Path) -> Iterator[str]:
    """The URL of a Redis of its own; the test is skipped where none is installed."""
    if REDIS is None:
        pytest.skip("Redis is not installed: no redis-server on the PATH")
    port = free_port()
    command = [REDIS, "--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder)]
    server = subprocess.Popen([*command, "--save", ""], stdout=subprocess.DEVNULL)
    ping = ["redis-cli", "-p", str(port), "ping"]
    wait_until(lambda: subprocess.call(ping, stdout=subprocess.DEVNULL) == 0, 10, "no Redis")
    yield f"redis://127.0.0.1:{port}/0"
    server.kill()
    server.wait()


def opening(address: str, target: str) -> dict[str, str]:
    """The header that opens a path with its query at a server."""
    return {TICKET: f"Ticket {ticket(SECRET, address, target, time.time_ns() // 1_000_000)}"}


class StoreServers:
    """Processes of one group, and a store that asks them."""

    def __init__(
        self, bootstrap: str, prefix: str, folder: Path, *, keeps: str = "memory", redis: str = ""
    ) -> None:
        self.bootstrap, self.prefix, self.folder, self.keeps = bootstrap, prefix, folder, keeps
        self.redis = redis
        topics, self.bus = Topics(prefix), KafkaBus({"bootstrap.servers": bootstrap})
        self.topic = topics.states("orders")
        self.directory = Directory(self.bus, topics.store_group("orders"), self.topic, SECRET)
        self.store = OwnerStore(self.directory, SECRET, ORDERS, patience_s=10)
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, port: int | None = None) -> str:
        """Start one; its address."""
        port = port or free_port()
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith("TALLYBOARD_")
        } | {
            "TALLYBOARD_DATA_DIR": str(self.folder / "data"),
            "TALLYBOARD_KAFKA_BOOTSTRAP": self.bootstrap,
            "TALLYBOARD_TOPIC_PREFIX": self.prefix,
            "TALLYBOARD_STORES_SECRET": SECRET,
            "TALLYBOARD_STORES_SCENARIOS": "orders",
            "TALLYBOARD_REDIS_URL": self.redis,
        }
        command = [sys.executable, "-m", "stores", "--store", self.keeps, "--port", str(port)]
        with (self.folder / f"store-{port}.log").open("ab") as log:
            process = subprocess.Popen(
                command, env=environment, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT
            )
        self.processes[f"127.0.0.1:{port}"] = process
        return f"127.0.0.1:{port}"

    def health(self) -> list[ServerHealth]:
        """What those servers say that answer."""
        try:
            return [each for each in self.store.servers() if isinstance(each, ServerHealth)]
        except StoreProblem:
            return []

    def wait(self, servers: int, timeout_s: float = 40) -> list[ServerHealth]:
        """Wait until so many servers share all partitions, and answer for them."""

        def shared() -> bool:
            self.directory.expire()
            known = self.health()
            return (
                len(known) == servers
                and all(each.ready and each.partitions for each in known)
                and self.store.health().ready
            )

        wait_until(shared, timeout_s, f"{servers} servers do not share: {self.folder}")
        return self.health()

    def stop(self) -> None:
        """End them all."""
        self.store.close()
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            process.wait(15)
