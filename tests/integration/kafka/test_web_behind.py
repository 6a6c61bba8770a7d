"""A web process that is behind the log, with a broker that answers, says so and since when.

It reads nothing more once it holds as many assets as it may that the database lacks: here the
materialiser does not run.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx
import pytest
from websockets.sync.client import ClientConnection

from bus.base import TopicSpec
from bus.kafka import KafkaBus
from dashboard.board.live.tailer import BATCH, MOST_AHEAD
from dashboard.core.job.freshness import WEB_LATE_MS
from domain.records import Cause, StateRecord
from domain.scenario_parser import load_scenarios
from domain.version import Version
from support.run.stack import ROOT, EmbeddedBroker, wait_until
from support.web.web_process import Web, until
from wire.sink import encode_headers, encode_state
from wire.topics import Topics

pytestmark = pytest.mark.extensive(
    guard="tests/unit/core/test_freshness.py::test_a_web_process_that_is_behind_judges_nothing_else"
)

BEHIND = "behind."
ASSETS = MOST_AHEAD + 4 * BATCH
"""So many that some stay in the log."""
PATIENCE_S = 120


@pytest.fixture
def web(broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    """A board that is served, of topics that there are."""
    specs = Topics(BEHIND).specs(load_scenarios(ROOT / "scenarios.toml").values())
    bus = KafkaBus({"bootstrap.servers": broker.bootstrap})
    bus.ensure_topics(TopicSpec(*spec) for spec in specs)
    web = Web(tmp_path_factory.mktemp("behind"), broker.bootstrap, BEHIND)
    yield web
    web.process.kill()
    web.process.wait()


def append(broker: EmbeddedBroker, number: int) -> None:
    """Orders as the job would tell of them, one record each."""
    producer = KafkaBus({"bootstrap.servers": broker.bootstrap}).producer()
    topic = Topics(BEHIND).states("orders")
    for n in range(number):
        record = StateRecord(
            asset=f"order-{n:06}", state="received", previous=None, since=1_000, unconfirmed=False,
            version=Version(1, n, 0), cause=Cause("report", 0, n, 1_000, agent="desk"),
        )  # fmt: skip
        producer.send(
            topic, record.asset.encode(), encode_state(record), headers=encode_headers(record)
        )
        if n % 1_000 == 0:
            producer.poll()
    assert producer.flush(60) == 0
    producer.close()


@contextmanager
def materialiser(web: Web) -> Iterator[None]:
    """The materialiser of this board, while it runs."""
    with web.log.open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "manage.py", "materialise"],
            env=web.environment, cwd=ROOT, stdout=log, stderr=log,
        )  # fmt: skip
    yield
    process.terminate()
    process.wait(30)


def beat(socket: ClientConnection, holds: Callable[[dict], bool]) -> dict:
    """The first beat of which this holds."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        message = until(socket, "beat")
        if holds(message):
            return message
    raise AssertionError(f"no such beat within {PATIENCE_S} s; the last: {message['problems']}")


def kinds(message: dict) -> list[str]:
    return [problem["kind"] for problem in message["problems"]]


@contextmanager
def open_board(web: Web) -> Iterator[ClientConnection]:
    """A socket that is told of the orders."""
    with web.socket("orders") as socket:
        socket.send(json.dumps({"type": "filter"}))
        yield socket


def orders(web: Web) -> int:
    """Return how many orders a board that is opened now has."""
    with open_board(web) as socket:
        counts: dict[str, int] = until(socket, "snapshot")["counts"]
    return counts.get("received", 0)


def test_web_that_waits_for_the_database_says_since_when_it_is_behind(
    web: Web, broker: EmbeddedBroker
):
    with open_board(web) as socket:
        fresh = beat(socket, lambda message: "web" not in kinds(message))
    append(broker, ASSETS)
    with open_board(web) as socket:
        first = beat(socket, lambda message: kinds(message) == ["web"])
        later = beat(socket, lambda message: message["now"] > first["now"] + WEB_LATE_MS)
    (problem,) = later["problems"]
    assert problem["kind"] == "web"
    assert problem["what"] == "States are late on this server"
    assert problem["stale"]
    assert fresh["now"] - 1_000 < problem["since"] < later["now"] - 2 * WEB_LATE_MS
    assert broker.answers()
    wait_until(lambda: orders(web) >= MOST_AHEAD, 90, "it does not read as far as it may")
    assert orders(web) < ASSETS
    page = httpx.get(
        f"http://127.0.0.1:{web.port}/s/orders/", headers={"Cookie": web.cookie}, timeout=60
    )
    assert 'data-kind="web"' in page.text
    assert f'data-at="{problem["since"]}"' in page.text

    with materialiser(web), open_board(web) as socket:
        beat(socket, lambda message: "web" not in kinds(message))
        assert orders(web) == ASSETS
    assert "Traceback" not in web.log.read_text()
