"""What Kafka refuses a web process is on its pages and in its readiness, until it is put right."""

from __future__ import annotations

import html
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from confluent_kafka.admin import AclOperation

from bus.base import TopicSpec
from bus.kafka import KafkaBus
from domain.scenario_parser import load_scenarios
from support.kafka.secured_broker import SecuredBroker
from support.run.stack import ROOT, wait_until
from support.web.web_process import Web
from wire.topics import Topics

pytestmark = pytest.mark.timeout(240)

USER, PASSWORD = "board", "the-boards-own"
PREFIX = "shown."


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory, jars_dir: Path) -> Iterator[SecuredBroker]:
    """A broker with the product's topics, on which its user has no right."""
    broker = SecuredBroker(tmp_path_factory.mktemp("secured"), jars_dir, **{USER: PASSWORD})
    broker.start()
    specs = Topics(PREFIX).specs(load_scenarios(ROOT / "scenarios.toml").values())
    KafkaBus(broker.options()).ensure_topics(TopicSpec(*spec) for spec in specs)
    yield broker
    broker.kill()


@pytest.fixture
def web(secured: SecuredBroker, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Web]:
    """A web process that logs in with this password."""
    served = Web(
        tmp_path, secured.bootstrap, PREFIX, kafka_security_protocol="SASL_PLAINTEXT",
        kafka_sasl_mechanism="PLAIN", kafka_username=USER, kafka_password=request.param,
    )  # fmt: skip
    yield served
    served.process.kill()
    served.process.wait()


def missing(web: Web) -> list[str]:
    answer = httpx.get(f"http://127.0.0.1:{web.port}/readyz", timeout=30).json()["missing"]
    return [str(each) for each in answer]


def page(web: Web, path: str, cookie: str) -> str:
    answer = httpx.get(f"http://127.0.0.1:{web.port}{path}", headers={"Cookie": cookie}, timeout=60)
    assert answer.status_code == 200
    return html.unescape(answer.text)


@pytest.mark.extensive(
    guard="tests/unit/serve/test_readiness.py::"
    "test_what_kafka_refuses_is_named_before_all_that_follows_from_it"
)
@pytest.mark.parametrize("web", ["guessed"], indirect=True)
def test_a_wrong_password_is_told_with_its_settings(web: Web) -> None:
    settings = "check TALLYBOARD_KAFKA_USERNAME and TALLYBOARD_KAFKA_PASSWORD"

    def login_refused() -> bool:
        return missing(web)[0].startswith("kafka: Kafka refuses the login")

    wait_until(login_refused, 60, f"readiness does not name it: {missing(web)}, see {web.log}")
    assert missing(web)[0].endswith(settings)
    board = page(web, "/s/orders/", web.cookie)
    assert 'data-kind="kafka"' in board
    assert "Kafka refuses this server" in board
    assert "Kafka refuses this server" in page(web, "/partitions/", web.another)
    assert settings in web.log.read_text()
    assert "guessed" not in web.log.read_text() + board + "".join(missing(web))


@pytest.mark.extensive(
    guard="tests/unit/serve/test_readiness.py::test_a_refused_topic_is_named_where_kafka_is_asked"
)
@pytest.mark.parametrize("web", [PASSWORD], indirect=True)
def test_a_missing_right_is_told_with_its_topic_until_it_is_granted(
    secured: SecuredBroker, web: Web
) -> None:
    topics = Topics(PREFIX)

    def named(topic: str, right: str) -> bool:
        first = missing(web)[0]
        return first.startswith("kafka: ") and topic in first and right in first

    wait_until(
        lambda: named(PREFIX, "DESCRIBE"), 60, f"no right is named: {missing(web)}, see {web.log}"
    )
    for spec in topics.specs(load_scenarios(ROOT / "scenarios.toml").values()):
        secured.grant(USER, AclOperation.DESCRIBE, topic=spec.name)
    wait_until(
        lambda: named(".states", "READ") or named("job.", "READ"), 60, "no right to READ is named"
    )
    assert "Kafka refuses this server" in page(web, "/s/orders/", web.cookie)
    for spec in topics.specs(load_scenarios(ROOT / "scenarios.toml").values()):
        secured.grant(USER, AclOperation.READ, topic=spec.name)
    wait_until(
        lambda: not any(each.startswith("kafka: ") for each in missing(web)),
        60,
        f"it does not go on: {missing(web)}, see {web.log}",
    )
    assert 'data-kind="kafka"' not in page(web, "/s/orders/", web.cookie)
    assert "Traceback" not in web.log.read_text()
