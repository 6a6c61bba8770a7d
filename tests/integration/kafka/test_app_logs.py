"""The web server's log of clients, from a browser's requests to the topic."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import httpx
import pytest

from bus.base import TopicSpec
from bus.kafka import KafkaBus
from config.logs import REQUESTS, SECURITY
from domain.scenario_parser import load_scenarios
from support.run.stack import ROOT, EmbeddedBroker, wait_until
from support.web.web_process import Web
from wire.partitioner import partition_of
from wire.topics import Topics

PREFIX = f"logged-{uuid4().hex[:8]}."
TOPICS = Topics(PREFIX)
AGENT = "Mozilla/5.0 (of nobody else)"


@pytest.fixture(scope="module", autouse=True)
def topics(bus: KafkaBus) -> None:
    """The product's topics are there."""
    specs = TOPICS.specs(load_scenarios(ROOT / "scenarios.toml").values())
    bus.ensure_topics(TopicSpec(*spec) for spec in specs)


@pytest.fixture(scope="module")
def web(
    broker: EmbeddedBroker, bus: KafkaBus, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Web]:
    """The served board."""
    web = Web(tmp_path_factory.mktemp("web"), broker.bootstrap, PREFIX)
    yield web
    web.process.kill()
    web.process.wait()


def test_logins_and_requests_of_a_client_are_in_the_topic_without_its_name(
    web: Web, bus: KafkaBus
) -> None:
    with httpx.Client(
        base_url=f"http://127.0.0.1:{web.port}", headers={"User-Agent": AGENT}
    ) as browser:
        browser.get("/account/login/")
        form = {"login": "mallory-7", "password": "guess-8", **_token(browser)}
        browser.post("/account/login/", data=form)
        browser.get("/api/v1/scenarios", headers={"Authorization": "Bearer secret-9"})
    reader = bus.reader({(TOPICS.app_logs, at): 0 for at in range(2)})
    records: list[tuple[bytes, int, dict[str, Any]]] = []

    def complete() -> bool:
        records.extend(
            (m.key or b"", m.partition, json.loads(m.value or b"")) for m in reader.poll(0.2)
        )
        return len([one for one in records if one[2]["logger"] == REQUESTS]) >= 3

    wait_until(complete, 30, "the requests are not in the topic")
    reader.close()
    [client] = {key for key, _, _ in records}
    for key, partition, record in records:
        assert record["client"].encode() == key
        assert partition == partition_of(key, 2)
        assert record["app_name"] == "tallyboard"
        for name in ("mallory", "guess", "secret", "127.0.0.1", "Mozilla"):
            assert name not in json.dumps(record)
    assert client.startswith(b"client-")
    actions = [record["action"] for _, _, record in records if record["logger"] == SECURITY]
    assert actions == ["login", "token-refused"]
    asked = [(record["method"], record["status"]) for *_, record in records if "route" in record]
    assert asked == [("GET", 200), ("POST", 200), ("GET", 401)]


def _token(browser: httpx.Client) -> dict[str, str]:
    [token] = [text for name, text in browser.cookies.items() if "csrf" in name]
    return {"csrfmiddlewaretoken": token}


@pytest.mark.extensive(
    guard="tests/integration/kafka/test_app_logs.py::"
    "test_logins_and_requests_of_a_client_are_in_the_topic_without_its_name"
)
def test_it_can_be_turned_off(
    broker: EmbeddedBroker, bus: KafkaBus, tmp_path_factory: pytest.TempPathFactory
) -> None:
    before = bus.offsets([TOPICS.app_logs])
    web = Web(tmp_path_factory.mktemp("off"), broker.bootstrap, PREFIX, app_logs=0)
    try:
        assert httpx.get(f"http://127.0.0.1:{web.port}/account/login/").status_code == 200
    finally:
        web.process.terminate()
        assert web.process.wait(30) == 0
    assert bus.offsets([TOPICS.app_logs]) == before
