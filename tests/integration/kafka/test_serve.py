"""`manage.py serve` as a process: a record in Kafka reaches a browser's socket; start and stop."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from uuid import uuid4

import httpx
import pytest
from websockets.exceptions import ConnectionClosed

from bus.base import TopicSpec
from bus.kafka import KafkaBus
from domain.records import Cause, StateRecord
from domain.scenario_parser import load_scenarios
from domain.version import Version
from support.run.stack import ROOT, EmbeddedBroker
from support.web.web_process import Web, until
from wire.sink import encode_headers, encode_state
from wire.topics import Topics

PREFIXED = f"serve-{uuid4().hex[:8]}."
FRAME = 65_536
"""Largest frame that the server reads, bytes."""


@pytest.fixture(scope="module")
def web(broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    """A board that is served, and stopped at the end."""
    web = Web(tmp_path_factory.mktemp("web"), broker.bootstrap, PREFIXED)
    yield web
    web.process.kill()
    web.process.wait()


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
