"""Views on a real broker: copies that are killed, a broker that is, topics that are made again."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from confluent_kafka.admin import AdminClient

from bus.base import TopicSpec
from bus.follower import Follower
from bus.kafka import KafkaBus
from dashboard.operate.console.topic_copies import ViewTailer
from dashboard.operate.console.topic_table import TopicRowFilter, ViewTable
from dashboard.operate.console.topics import TopicView
from support.kafka.brokers import bus_of
from support.run.stack import ROOT, EmbeddedBroker, wait_until
from support.web.web_process import Web

COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": "100",
    "min.cleanable.dirty.ratio": "0.001",
    "max.compaction.lag.ms": "100",
    "delete.retention.ms": "0",
}
COMPACTION_S = 90
"""The broker looks for something to compact every 15 s."""

PREFIX = f"views-{uuid4().hex[:8]}."
TOPIC = f"{PREFIX}orders.now"
Content = tuple[str, str | None]


def send(bus: KafkaBus, topic: str, *contents: Content) -> None:
    producer = bus.producer()
    for key, value in contents:
        producer.send(topic, key.encode(), None if value is None else value.encode())
    assert producer.flush(30) == 0


@contextmanager
def copy_of(bus: KafkaBus, topic: str) -> Iterator[ViewTable]:
    """A copy that a thread follows."""
    table = ViewTable(TopicView("orders", topic, "Orders"))
    tailer = Follower(ViewTailer(bus, [table], lambda: time.time_ns() // 1_000_000))
    tailer.start()
    try:
        yield table
    finally:
        tailer.stop()


def rows(table: ViewTable) -> dict[str, str]:
    if table.state().status != "ready":
        return {}
    return {
        r.key.decode(): r.value.decode() for r in table.page(TopicRowFilter().test(), 10_000).rows
    }


def wait_for(table: ViewTable, expected: dict[str, str]) -> None:
    wait_until(lambda: rows(table) == expected, 30, f"{table.state()}, expected {len(expected)}")


def delete(broker: EmbeddedBroker, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.delete_topics([topic])[topic].result(20)


# ---- the web server's copy ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def web(broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    folder = tmp_path_factory.mktemp("web")
    path = folder / "views.toml"
    path.write_text('[orders]\ntopic = "orders.now"\n')
    web = Web(folder, broker.bootstrap, PREFIX, views=path)
    yield web
    web.process.kill()
    web.process.wait()


def asked(web: Web, path: str = "") -> httpx.Response:
    address = f"http://127.0.0.1:{web.port}/api/v1/views/orders{path}"
    return httpx.get(address, headers={"Cookie": web.another}, timeout=10)


def answered_rows(web: Web) -> dict[str, Any]:
    """The rows that the process answers with; none while it does not answer."""
    try:
        answer = asked(web, "?limit=1000")
    except httpx.TransportError:
        return {}
    if answer.status_code != 200:
        assert answer.status_code == 503, answer.text
        return {}
    return {
        row["key"]: (row["value"], row["partition"], row["offset"])
        for row in answer.json()["items"]
    }


@pytest.mark.extensive(
    guard="tests/integration/kafka/test_views_kafka.py::"
    "test_a_topic_made_again_is_read_anew_whatever_it_holds"
)
@pytest.mark.slow
def test_a_copy_rebuilt_after_a_kill_equals_the_live_one_compacted_or_not(
    web: Web, broker: EmbeddedBroker
):
    bus, topic = bus_of(broker), TOPIC
    bus.ensure_topics([TopicSpec(topic, 3, COMPACTED)])
    left: dict[str, int] = {}
    for turn in range(5):
        keys = {f"order-{number}": number % 7 == turn for number in range(60)}
        send(bus, topic, *((key, None if gone else f"{turn}") for key, gone in keys.items()))
        left = {key: turn for key, gone in keys.items() if not gone}
    wait_until(lambda: len(answered_rows(web)) == len(left), 30, f"{asked(web).text}")
    live = answered_rows(web)
    assert {key: value for key, (value, _, _) in live.items()} == left

    kill_and_restart(web)
    wait_until(lambda: answered_rows(web) == live, 30, f"{asked(web).text}")
    wait_until(lambda: compact(bus, topic), COMPACTION_S, "nothing was compacted")
    kill_and_restart(web)
    wait_until(lambda: answered_rows(web).items() >= live.items(), 30, f"{asked(web).text}")


def compact(bus: KafkaBus, topic: str) -> bool:
    """Write one more record to each partition, so that segments end; whether records are gone."""
    send(bus, topic, *((f"more-{number}", "0") for number in range(9)))
    edges = bus.offsets([topic])
    reader = bus.reader({place: begin for place, (begin, _) in edges.items()})
    count = 0
    while not reader.at_end():
        count += len(reader.poll(0.5))
    reader.close()
    return count < sum(end - begin for begin, end in edges.values())


def kill_and_restart(web: Web) -> None:
    web.process.kill()
    web.process.wait()
    with web.log.open("ab") as log:
        web.process = subprocess.Popen(
            web.command, env=web.environment, cwd=ROOT, stdout=log, stderr=log
        )
    wait_until(web.answers, 60, f"no answer, see {web.log}")


def test_the_command_prints_the_table_and_follows_it(web: Web, broker: EmbeddedBroker):
    bus, topic = bus_of(broker), TOPIC
    bus.ensure_topics([TopicSpec(topic, 3, COMPACTED)])
    send(bus, topic, ("cmd-1", "1"), ("cmd-2", ""))
    command = [sys.executable, "manage.py", "view", "orders", "--key", "cmd-*"]
    options: dict[str, Any] = {"env": web.environment, "cwd": ROOT, "text": True}
    once = subprocess.run(
        [*command, "--not-empty"], capture_output=True, timeout=60, check=True, **options
    )
    assert [line for line in once.stdout.splitlines() if "\t" in line] == ["cmd-1\t1"]
    with subprocess.Popen([*command, "--follow"], stdout=subprocess.PIPE, **options) as following:
        assert following.stdout is not None
        lines = (line.rstrip("\n") for line in following.stdout if "cmd-" in line)
        assert [next(lines), next(lines)] == ["cmd-1\t1", "cmd-2\t"]
        send(bus, topic, ("cmd-1", "2"), ("cmd-1", None), ("cmd-3", "3"))
        seen = {next(lines) for _ in range(3)}
        assert seen == {"~ cmd-1\t2", "- cmd-1", "+ cmd-3\t3"}
        following.send_signal(signal.SIGTERM)
        assert following.wait(20) == 0


def test_the_command_says_what_is_missing(web: Web, broker: EmbeddedBroker):
    environment = web.environment | {"TALLYBOARD_TOPIC_PREFIX": "no-such-topic."}
    for name, words in (("orders", "There is no topic"), ("nobodys", "none of: orders")):
        ended = subprocess.run(
            [sys.executable, "manage.py", "view", name],
            env=environment, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert (ended.returncode, words in ended.stderr) == (1, True), ended.stderr


@pytest.mark.extensive(
    guard="tests/unit/operate/test_topic_views.py::test_a_file_that_declares_no_views_is_refused_in_words"
)
def test_a_server_does_not_start_with_a_file_that_declares_no_view(web: Web, tmp_path: Path):
    path = tmp_path / "views.toml"
    path.write_text("[orders]\ntopic = 7\n")
    environment = web.environment | {"TALLYBOARD_VIEWS": str(path), "TALLYBOARD_HTTP_PORT": "1"}
    ended = subprocess.run(
        web.command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip
    assert ended.returncode == 1
    assert f"{path}: orders.topic: expected a text of 1-255 characters, got 7" in ended.stderr


# ---- brokers and topics -------------------------------------------------------------------------


@pytest.mark.spread(1)
@pytest.mark.parametrize("records", [1, 5, 9])
def test_a_topic_made_again_is_read_anew_whatever_it_holds(broker: EmbeddedBroker, records: int):
    bus, topic = bus_of(broker), f"again-{records}.orders.states"
    bus.ensure_topics([TopicSpec(topic, 1, {})])
    send(bus, topic, *((f"old-{number}", "1") for number in range(5)))
    with copy_of(bus, topic) as table:
        wait_for(table, {f"old-{number}": "1" for number in range(5)})
        delete(broker, topic)
        wait_until(lambda: bus.partitions(topic) == 0, 20, "the topic is still there")
        bus.ensure_topics([TopicSpec(topic, 2, {})])
        send(bus, topic, *((f"new-{number}", "2") for number in range(records)))
        wait_for(table, {f"new-{number}": "2" for number in range(records)})


@pytest.mark.extensive(
    guard="tests/integration/kafka/test_agents_outage.py::"
    "test_broker_killed_under_reports_and_brought_back"
)
def test_a_copy_outlives_its_broker(tmp_path: Path, jars_dir: Path):
    own = EmbeddedBroker(tmp_path, jars_dir)
    own.start()
    try:
        bus, topic = bus_of(own), "orders.states"
        bus.ensure_topics([TopicSpec(topic, 2, {})])
        send(bus, topic, ("a", "1"), ("b", "1"))
        with copy_of(bus, topic) as table:
            wait_for(table, {"a": "1", "b": "1"})
            own.kill()
            before = table.state().as_of
            assert before is not None
            assert rows(table) == {"a": "1", "b": "1"}
            own.start()
            send(bus, topic, ("a", "2"), ("b", None))
            wait_for(table, {"a": "2"})
            wait_until(
                lambda: (table.state().as_of or 0) > before, 20, "the copy is still as of then"
            )
            assert table.state().restarts == 0
    finally:
        own.kill()
