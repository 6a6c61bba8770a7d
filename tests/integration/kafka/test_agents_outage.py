"""Reports outlive a killed broker and a killed reporter; agents stop when they are told to."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agents import Reporter
from bus.base import ConsumerRecord, Delivered, TopicSpec
from bus.kafka import KafkaBus
from domain.records import Leave, Report
from support.kafka.brokers import bus_of
from support.run.stack import EmbeddedBroker, free_port, wait_until
from wire.source import decode_source

ROOT = Path(__file__).resolve().parents[3]
TOPIC = "attack.reports"
SOURCE = {"message.timestamp.type": "LogAppendTime"}


@pytest.fixture
def own_broker(tmp_path: Path, jars_dir: Path) -> Iterator[EmbeddedBroker]:
    """A broker that a test may kill, with the source topics."""
    broker = EmbeddedBroker(tmp_path / "broker", jars_dir)
    broker.start()
    bus_of(broker).ensure_topics(
        TopicSpec(f"{name}.reports", 4, SOURCE) for name in ("attack", "connectivity", "orders")
    )
    yield broker
    broker.kill()


def log_of(bus: KafkaBus, topic: str = TOPIC) -> list[ConsumerRecord]:
    """All that the topic holds."""
    bounds = bus.offsets([topic])
    reader = bus.reader({place: begin for place, (begin, _) in bounds.items()})
    messages: list[ConsumerRecord] = []

    def at_end() -> bool:
        messages.extend(reader.poll(0.1))
        return all(reader.positions()[place] >= end for place, (_, end) in bounds.items())

    wait_until(at_end, 30, f"{topic} is read to its end")
    reader.close()
    return messages


def votes(messages: list[ConsumerRecord]) -> dict[tuple[str, str], Report]:
    """Each agent's last report by its own time, the later offset at equal times."""
    last: dict[tuple[str, str], Report] = {}
    for message in messages:
        report = decode_source(message.key, message.value, message.timestamp)
        if isinstance(report, Leave):
            continue
        assert isinstance(report, Report)
        before = last.get((report.asset, report.agent))
        if before is None or (before.reported_at or 0) <= (report.reported_at or 0):
            last[report.asset, report.agent] = report
    return last


def withdrawn(messages: list[ConsumerRecord]) -> set[tuple[str, str]]:
    """Of which (asset, agent) the last record is a leave."""
    last = {}
    for message in messages:
        record = decode_source(message.key, message.value, message.timestamp)
        assert isinstance(record, Report | Leave)
        last[record.asset, record.agent] = isinstance(record, Leave)
    return {pair for pair, left in last.items() if left}


def test_broker_killed_under_reports_and_brought_back(
    own_broker: EmbeddedBroker, tmp_path: Path
) -> None:
    bus = bus_of(own_broker)
    places: list[tuple[str, Delivered]] = []
    with Reporter(
        bus, TOPIC, tmp_path / "spool", on_confirmed=lambda *it: places.append(it)
    ) as reporter:
        for n in range(400):
            if n == 100:
                assert reporter.flush(20) == 0
                own_broker.kill()
            if n == 300:
                wait_until(lambda: reporter.away, 10, "the outage is noticed")
            reporter.report(f"site-{n % 7}", f"waf-{n % 3}", "clear", detail={"n": n})
        assert reporter.flush(0.1) == 300
        own_broker.start()
        assert reporter.flush(60) == 0
        assert reporter.confirmed == len(places) == 400
        assert not reporter.away

    messages = log_of(bus)
    held = {
        Delivered(m.topic, m.partition, m.offset, m.timestamp): (m.key or b"").decode()
        for m in messages
    }
    assert [held[place] for _, place in places] == [asset for asset, _ in places]
    numbers = [json.loads(report.detail or "{}")["n"] for report in votes(messages).values()]
    assert sorted(numbers) == list(range(400 - 21, 400))


@pytest.mark.extensive(
    guard="tests/integration/kafka/test_agents_outage.py::"
    "test_broker_killed_under_reports_and_brought_back"
)
def test_what_a_slow_broker_took_stays_unconfirmed_until_it_is_sent_again(
    own_broker: EmbeddedBroker, tmp_path: Path
) -> None:
    """It stands still while the program ends, and writes what it was sent once it goes on."""
    bus = bus_of(own_broker)
    reporter = Reporter(bus, TOPIC, tmp_path / "spool")
    reporter.report("site", "waf-1", "clear")
    assert reporter.flush(20) == 0
    own_broker.stand_still()
    for n in range(100):
        reporter.report(f"site-{n}", "waf-1", "clear")
    reporter.close(2)
    assert (reporter.confirmed, reporter.unconfirmed, reporter.rejected) == (1, 100, 0)
    own_broker.go_on()
    wait_until(lambda: len(log_of(bus)) > 1, 30, "the broker took nothing of what it was sent")
    with Reporter(bus, TOPIC, tmp_path / "spool") as again:
        assert again.flush(30) == 0
        assert (again.confirmed, again.unconfirmed) == (100, 0)
    assert len(votes(log_of(bus))) == 101


REPORTING = """
import sys, time
from pathlib import Path
from agents import Reporter
from bus.kafka import KafkaBus
bus = KafkaBus({"bootstrap.servers": sys.argv[1]})
reporter = Reporter(bus, "attack.reports", Path(sys.argv[2]))
for n in range(100_000):
    reporter.report("site", "waf-1", f"s{n}")
    print(n, flush=True)
    time.sleep(0.001)
"""


@pytest.mark.extensive(
    guard="tests/unit/agents/test_agents_reporter.py::test_next_process_sends_what_is_left_before_its_own"
)
def test_reporter_killed_loses_nothing_that_it_accepted(
    own_broker: EmbeddedBroker, tmp_path: Path
) -> None:
    """Killed while Kafka is there, and again while it is away; the next process brings the rest."""
    spool, accepted = tmp_path / "spool", []
    for away in (False, True):
        if away:
            own_broker.kill()
        accepted.append(kill_while_reporting(own_broker.bootstrap, spool))
    own_broker.start()
    bus = bus_of(own_broker)
    with Reporter(bus, TOPIC, spool) as reporter:
        assert reporter.unconfirmed > 0
        reporter.report("site", "waf-1", "last")
        assert reporter.flush(60) == 0

    states = [
        read.state
        for m in log_of(bus)
        if isinstance(read := decode_source(m.key, m.value, m.timestamp), Report)
    ]
    for last in accepted:
        assert {f"s{n}" for n in range(last + 1)} <= set(states)
    assert states[-1] == "last"


def kill_while_reporting(bootstrap: str, spool: Path) -> int:
    """`kill -9` a process that reports; the number of the last report that it saw accepted."""
    command = [sys.executable, "-c", REPORTING, bootstrap, str(spool)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert child.stdout is not None
    for line in child.stdout:
        if int(line) >= 300:
            break
    child.kill()
    rest = [int(line) for line in child.stdout.read().split("\n")[:-1]]
    child.stdout.close()
    child.wait()
    return rest[-1] if rest else 300


def environment(data_dir: Path, kafka_port: int) -> dict[str, str]:
    http_port, target_port = free_port(), free_port()
    return os.environ | {
        "TALLYBOARD_DATA_DIR": str(data_dir),
        "TALLYBOARD_KAFKA_PORT": str(kafka_port),
        "TALLYBOARD_HTTP_PORT": str(http_port),
        "TALLYBOARD_TARGET_PORT": str(target_port),
    }


COMMANDS = (["agents.demo.simulator"], ["agents.probe", "--as", "probe-a"], ["agents.demo.target"])


def start(command: list[str], env: dict[str, str], log: Path) -> subprocess.Popen[bytes]:
    with log.open("wb") as out:
        return subprocess.Popen(
            [sys.executable, "-m", *command], cwd=ROOT, env=env, stdout=out, stderr=out
        )


def stop_all(children: list[subprocess.Popen[bytes]]) -> tuple[list[int], float]:
    """Exit codes after SIGTERM, and how long it took (s)."""
    started = time.monotonic()
    for child in children:
        child.send_signal(signal.SIGTERM)
    try:
        codes = [child.wait(20) for child in children]
    finally:
        for child in children:
            child.kill()
    return codes, time.monotonic() - started


@pytest.mark.extensive(
    guard="tests/unit/agents/test_agents_leave.py::test_a_probe_leaves_unless_it_is_to_stay"
)
def test_agents_report_and_stop_on_sigterm_where_probes_leave(
    own_broker: EmbeddedBroker, tmp_path: Path
) -> None:
    env = environment(tmp_path / "data", own_broker.port)
    logs = [tmp_path / f"{command[0]}.log" for command in COMMANDS]
    children = [start(c, env, log) for c, log in zip(COMMANDS, logs, strict=True)]
    bus = bus_of(own_broker)
    try:
        wait_until(
            lambda: (
                len(votes(log_of(bus, "connectivity.reports"))) > 30
                and len(votes(log_of(bus))) > 100
                and log_of(bus, "orders.reports")
                and {("broker", "probe-a"), ("demo-target", "probe-a")}
                <= votes(log_of(bus, "connectivity.reports")).keys()
            ),
            60,
            "simulated agents and the probe have reported",
        )
    finally:
        codes, took = stop_all(children)
    states = {
        a: r.state
        for (a, by), r in votes(log_of(bus, "connectivity.reports")).items()
        if by == "probe-a"
    }
    assert states == {"broker": "up", "demo-target": "up"}  # and the web server is not up yet
    watched = {(asset, "probe-a") for asset in states}
    assert withdrawn(log_of(bus, "connectivity.reports")) == watched
    assert codes == [0, 0, 0]
    assert took < 6
    assert all("level=info" in log.read_text() for log in logs)
    assert "Traceback" not in "".join(log.read_text() for log in logs)


@pytest.mark.extensive(
    guard="tests/unit/agents/test_agents_leave.py::test_leaves_wait_in_the_spool_while_kafka_is_away"
)
def test_agents_wait_for_a_broker_and_still_stop(tmp_path: Path) -> None:
    env = environment(tmp_path / "data", free_port())
    logs = [tmp_path / f"{command[0]}.log" for command in COMMANDS]
    children = [start(c, env, log) for c, log in zip(COMMANDS, logs, strict=True)]
    try:
        wait_until(
            lambda: all("wait on disk" in log.read_text() for log in logs[:2]), 60, "they spool"
        )
        assert [child.poll() for child in children] == [None] * 3
    finally:
        codes, took = stop_all(children)
    assert codes == [0, 0, 0]
    assert took < 6
