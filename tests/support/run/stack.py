"""Real processes for tests: an embedded broker, and the whole product under its supervisor."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from config.settings import PREFIX, Settings
from ops.broker import prepare
from ops.leftovers import end_leftovers, find_leftovers
from ops.ports import free_port
from ops.supervise import ROOT, NotRunning, Supervisor

__all__ = ["EmbeddedBroker", "Stack", "free_port", "wait_until"]

QUICK_START = (
    "-XX:TieredStopAtLevel=1 -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)
"""Java's options of a job that lives for seconds: half of what a start costs goes into compiling
better and into verifying Spark's classes."""


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

    def options(self) -> dict[str, str]:
        """Return the options of a client."""
        return {"bootstrap.servers": self.bootstrap}

    @property
    def log(self) -> Path:
        """Return what the broker printed."""
        return self.data_dir / "broker.log"

    def start(self, timeout_s: float = 60) -> None:
        """Start the broker and wait until it answers a metadata request."""
        command = self.command()
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        wait_until(self.answers, timeout_s, f"no broker on {self.bootstrap}, see {self.log}")

    def command(self) -> list[str]:
        """Write the broker's files, and return the command that runs it."""
        return prepare(self.data_dir, self.jars_dir, self.port)

    def answers(self) -> bool:
        """Return whether a metadata request is answered."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        try:
            admin.list_topics(timeout=1)
        except KafkaException:
            return False
        return True

    def stand_still(self) -> None:
        """Have it do nothing, as a machine that swaps does."""
        assert self._process
        self._process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED)  # until each of its threads does

    def go_on(self) -> None:
        """Have it go on where it stood still."""
        assert self._process
        self._process.send_signal(signal.SIGCONT)

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
        fixed: dict[str, object] = {
            "data_dir": self.data_dir,
            "jars_dir": self.jars_dir,
            "kafka_port": self.port,
        }
        return Settings(_env_file=None, **fixed | changes)  # type: ignore[arg-type,call-arg]


class Stack:
    """The whole product, or some of its processes, under its supervisor with ports of its own."""

    def __init__(self, data_dir: Path, only: Iterable[str] = (), **changes: object) -> None:
        """`changes` are settings by field name, above those that keep this copy apart."""
        self.only = tuple(only)
        http, target, kafka, mail = free_ports(4)
        fields: dict[str, object] = {
            "data_dir": data_dir,
            "jars_dir": ROOT / ".jars",
            "http_port": http,
            "target_port": target,
            "mail_catcher_port": mail,
            "kafka_port": kafka,
            "pipelines": "none",  # a JVM more for each copy, which few tests look at
            **changes,
        }
        self.settings = Settings(_env_file=None, **fields)  # type: ignore[arg-type,call-arg]
        self._environment = {
            f"{PREFIX}{name.upper()}": str(int(value) if isinstance(value, bool) else value)
            for name, value in fields.items()
        }
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def data_dir(self) -> Path:
        """Return where this copy keeps everything."""
        return self.settings.data_dir

    @property
    def output(self) -> Path:
        """Return what the console would have shown."""
        return self.data_dir / "console.log"

    @property
    def url(self) -> str:
        """The web server's address, without a slash at its end."""
        return self.settings.local_url

    @property
    def logins(self) -> dict[str, str]:
        """Password by name of the demo users."""
        passwords: dict[str, str] = json.loads((self.data_dir / "demo-logins.json").read_text())
        return passwords

    @contextmanager
    def logged_in(self, role: str) -> Iterator[httpx.Client]:
        """Yield a client that is logged in as a demo user."""
        with httpx.Client(base_url=self.url, follow_redirects=True, timeout=60) as client:
            page = client.get("/account/login/").text
            _, _, token = page.partition('name="csrfmiddlewaretoken" value="')
            fields = {
                "csrfmiddlewaretoken": token.partition('"')[0],
                "login": role,
                "password": self.logins[role],
            }
            answer = client.post("/account/login/", data=fields, headers={"Referer": self.url})
            assert answer.status_code == 200
            assert "/account/login/" not in str(answer.url), answer.text
            yield client

    def environment(self) -> dict[str, str]:
        """The environment of a process of this copy."""
        kept = {key: value for key, value in os.environ.items() if not key.startswith(PREFIX)}
        return kept | self._environment | {"JDK_JAVA_OPTIONS": QUICK_START}

    def start(self, timeout_s: float = 120, *, wait: bool = True) -> Stack:
        """Start, and wait until all that was asked for is ready."""
        self.data_dir.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "ops.up", "--tied", f"--only={','.join(self.only)}"]
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                command, cwd=ROOT, env=self.environment(), umask=0o022,  # as of a user's shell
                stdout=output, stderr=subprocess.STDOUT,
            )  # fmt: skip
        if wait:
            self.wait_ready(timeout_s)
        return self

    def wait_ready(self, timeout_s: float = 120) -> None:
        """Wait until the console says that the product is ready."""

        def ready() -> bool:
            assert self.process
            assert self.process.poll() is None, f"ended: {self.output.read_text()}"
            return b"is ready" in self.output.read_bytes()

        wait_until(ready, timeout_s, f"not ready, see {self.output} and {self.data_dir}/logs")

    def pid(self, name: str) -> int:
        """Process id of a supervised process, once it runs."""
        wait_until(lambda: self._seen_pid(name), 30, f"{name} does not run")
        return self._seen_pid(name)

    def _seen_pid(self, name: str) -> int:
        try:
            return Supervisor(self.data_dir).statuses()[name].pid
        except NotRunning:
            return 0

    def kill(self, name: str) -> int:
        """Kill a supervised process as `kill -9` does; returns the id that it had."""
        pid = self.pid(name)
        os.kill(pid, signal.SIGKILL)
        return pid

    def manage(self, *arguments: str, timeout_s: float = 120) -> subprocess.CompletedProcess[str]:
        """Run a management command against this copy."""
        return subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=ROOT,
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )

    def leftovers(self) -> list[int]:
        """Processes of this copy that run now."""
        return find_leftovers(self.data_dir)

    def stop(self, timeout_s: float = 15) -> float:
        """Interrupt it as Ctrl-C does, and wait; returns the seconds that this took."""
        begun = time.monotonic()
        if self.process:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        end_leftovers(self.data_dir, patience_s=0)
        return time.monotonic() - begun


def free_ports(count: int) -> list[int]:
    """Return ports that are free and differ."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]
