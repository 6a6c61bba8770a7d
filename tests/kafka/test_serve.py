"""`manage.py serve` as a process: a record in Kafka reaches a browser's socket; start and stop."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin

from bus.base import TopicSpec
from bus.kafka import KafkaBus
from config.settings import PREFIX
from domain.records import Cause, StateRecord
from domain.scenario import load_scenarios
from domain.version import Version
from stack import ROOT, EmbeddedBroker, free_port, wait_until
from wire.sink import encode_headers, encode_state
from wire.topics import Topics

LOGIN = """
import django
django.setup()
from django.core.management import call_command
call_command("migrate", verbosity=0)
from django.conf import settings
from django.test import Client
from webkit import make_user, show
for number in range(400):
    show("connectivity", f"{number:03d}-" + "long-" * 40, "up")
browser = Client()
browser.force_login(make_user("manager"))
print(settings.SESSION_COOKIE_NAME + "=" + browser.cookies[settings.SESSION_COOKIE_NAME].value)
"""

PREFIXED = "serve."
FRAME = 65_536
"""Largest frame that the server reads, bytes."""


class Web:
    """The served board of a data directory of its own."""

    def __init__(self, data_dir: Path, bootstrap: str) -> None:
        self.port, self.log = free_port(), data_dir / "web.log"
        self.environment = {
            **{name: text for name, text in os.environ.items() if not name.startswith(PREFIX)},
            f"{PREFIX}DATA_DIR": str(data_dir),
            f"{PREFIX}HTTP_PORT": str(self.port),
            f"{PREFIX}KAFKA_BOOTSTRAP": bootstrap,
            f"{PREFIX}TOPIC_PREFIX": PREFIXED,
            "DJANGO_SETTINGS_MODULE": "dashboard.settings",
            "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}",
        }
        made = subprocess.run(
            [sys.executable, "-c", LOGIN], env=self.environment, cwd=ROOT,
            capture_output=True, text=True, timeout=90, check=False,
        )  # fmt: skip
        assert made.returncode == 0, made.stderr
        self.cookie = made.stdout.split()[-1]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                self.command, env=self.environment, cwd=ROOT, stdout=log, stderr=log
            )
        wait_until(self.answers, 60, f"no answer, see {self.log}")

    @property
    def command(self) -> list[str]:
        return [sys.executable, "manage.py", "serve"]

    def answers(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()
        try:
            return httpx.get(f"http://127.0.0.1:{self.port}/healthz", timeout=5).status_code == 200
        except httpx.TransportError:
            return False

    def socket(self, scenario: str = "attack") -> ClientConnection:
        return connect(
            f"ws://127.0.0.1:{self.port}/ws/board/{scenario}/",
            origin=Origin(f"http://127.0.0.1:{self.port}"),
            additional_headers={"Cookie": self.cookie},
        )


@pytest.fixture(scope="module")
def web(broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    """A board that is served, and stopped at the end."""
    web = Web(tmp_path_factory.mktemp("web"), broker.bootstrap)
    yield web
    web.process.kill()
    web.process.wait()


def until(socket: ClientConnection, kind: str) -> dict:
    """The next message of a kind, what has a number acknowledged."""
    while True:
        message: dict = json.loads(socket.recv(timeout=30))
        if "seq" in message:
            socket.send(json.dumps({"type": "ack", "seq": message["seq"]}))
        if message["type"] == kind:
            return message


def test_record_reaches_the_socket(web: Web, broker: EmbeddedBroker):
    bus, topics = KafkaBus({"bootstrap.servers": broker.bootstrap}), Topics(PREFIXED)
    specs = topics.specs(load_scenarios(ROOT / "scenarios.toml").values())
    bus.ensure_topics(TopicSpec(*spec) for spec in specs)
    record = StateRecord(
        asset="10.0.0.0/8", state="under-attack", previous=None, since=1_000, unconfirmed=False,
        version=Version(1, 7, 0), cause=Cause("report", 0, 7, 1_000, agent="waf-1"),
    )  # fmt: skip
    with web.socket() as socket:
        socket.send(json.dumps({"type": "filter"}))
        until(socket, "snapshot")
        producer = bus.producer()
        producer.send_and_wait(
            topics.states("attack"), b"10.0.0.0/8", encode_state(record),
            headers=encode_headers(record),
        )  # fmt: skip
        deadline = time.monotonic() + 30
        rows: list[dict] = []
        while not rows and time.monotonic() < deadline:
            message = json.loads(socket.recv(timeout=30))
            rows = message.get("rows", [])
            if "seq" in message:
                socket.send(json.dumps({"type": "ack", "seq": message["seq"]}))
        producer.close()
    assert [(row["asset"], row["state"]) for row in rows] == [("10.0.0.0/8", "under-attack")]
    page = httpx.get(
        f"http://127.0.0.1:{web.port}/s/attack/a/10.0.0.0%2F8/", headers={"Cookie": web.cookie}
    )
    assert page.status_code == 200
    assert "Under attack" in page.text


def test_large_board_arrives_whole(web: Web):
    with web.socket("connectivity") as socket:
        socket.send(json.dumps({"type": "filter"}))
        snapshot = until(socket, "snapshot")
    assert len(snapshot["rows"]) == 400
    assert len(json.dumps(snapshot)) > 2 * FRAME


def test_oversized_message_closes(web: Web):
    with web.socket() as socket:
        socket.send(json.dumps({"type": "filter", "q": "x" * FRAME}))
        with pytest.raises(ConnectionClosed) as closed:
            until(socket, "never said")
    assert closed.value.rcvd
    assert closed.value.rcvd.code == 1009
    assert "exceeds" in closed.value.rcvd.reason


def test_taken_port_is_one_clear_message(web: Web):
    second = subprocess.run(
        web.command, env=web.environment, cwd=ROOT, capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip
    assert second.returncode == 1
    assert f"Cannot listen on 127.0.0.1:{web.port}" in second.stderr
    assert "TALLYBOARD_HTTP_PORT" in second.stderr
    assert "Traceback" not in second.stderr


def test_stops_at_once_and_tells_its_browsers(web: Web):
    with web.socket() as socket:
        socket.send(json.dumps({"type": "filter"}))
        until(socket, "snapshot")
        begun = time.monotonic()
        web.process.send_signal(signal.SIGTERM)
        web.process.wait(20)
        took = time.monotonic() - begun
    assert took < 5, f"{took:.1f} s"
    assert web.process.returncode == 0, web.log.read_text()
    assert "Traceback" not in web.log.read_text()
