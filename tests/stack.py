"""Real processes for tests: an embedded broker, and the whole product under its supervisor."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from config.settings import Settings
from ops.broker import prepare
from ops.ports import free_port

__all__ = ["EmbeddedBroker", "free_port", "wait_until"]


def wait_until(predicate: Callable[[], object], timeout_s: float, message: str) -> None:
    """Return once `predicate()` is true; fail the test with `message` after `timeout_s` seconds."""
    deadline = time.monotonic() + timeout_s
    while not predicate():
        if time.monotonic() > deadline:
            raise AssertionError(f"after {timeout_s:g} s: {message}")
        time.sleep(0.05)


class EmbeddedBroker:
    """The product's embedded broker on a free port, its log below `data_dir`."""

    def __init__(self, data_dir: Path, jars_dir: Path, port: int | None = None) -> None:
        self.data_dir, self.jars_dir, self.port = data_dir, jars_dir, port or free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        """The broker's address, `host:port`."""
        return f"127.0.0.1:{self.port}"

    @property
    def log(self) -> Path:
        """What the broker printed."""
        return self.data_dir / "broker.log"

    def start(self, timeout_s: float = 60) -> None:
        """Start the broker and wait until it answers a metadata request."""
        command = prepare(self.data_dir, self.jars_dir, self.port)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        wait_until(self.answers, timeout_s, f"no broker on {self.bootstrap}, see {self.log}")

    def answers(self) -> bool:
        """Whether a metadata request is answered."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        try:
            admin.list_topics(timeout=1)
        except KafkaException:
            return False
        return True

    def kill(self) -> None:
        """Kill the broker as `kill -9` does."""
        if self._process:
            self._process.kill()
            self._process.wait()

    def stop(self) -> None:
        """Ask the broker to stop, and wait; kill it after 20 s."""
        if self._process:
            self._process.terminate()
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self.kill()

    def settings(self, **changes: object) -> Settings:
        """Settings of a process that uses this broker and its data directory."""
        fixed = {
            "_env_file": None,
            "data_dir": self.data_dir,
            "jars_dir": self.jars_dir,
            "kafka_port": self.port,
        }
        return Settings(**fixed | changes)  # type: ignore[arg-type]
