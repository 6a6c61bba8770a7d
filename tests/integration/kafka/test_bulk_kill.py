"""A real Celery worker, killed in the middle of a bulk run: nothing lost, nothing sent anew."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bus.base import TopicSpec
from bus.kafka import KafkaBus
from domain.fold import Bucket
from domain.records import Command, Record, Report, StateRecord
from domain.scenario import Scenario
from domain.scenario_parser import load_scenarios
from support.run.stack import wait_until
from wire.sink import encode_headers, encode_state
from wire.source import decode_placed, encode_report
from wire.topics import Topics

ROOT = Path(__file__).resolve().parents[3]
PREFIX = "killed-bulk."
ASSETS = 20_000
START = """
import uuid
from django.contrib.auth.models import Group, User
from django.http import QueryDict
from dashboard.watch.bulk.forms import BulkForm
from dashboard.watch.bulk.review import keep
from dashboard.core.common.times import now_ms
from dashboard.core.common.scenarios import scenarios
user, scenario = User.objects.create(username="olga"), scenarios()["attack"]
data = QueryDict(mutable=True)
data.update({"id": str(uuid.uuid4()), "by": "filter", "kind": "purge", "reason": "a drill",
             "unchanged": "on"})
form = BulkForm(scenario, data, {})
assert form.is_valid(), form.errors
chosen = form.chosen(now_ms())
user.groups.add(Group.objects.get_or_create(name="operator")[0])
run = form.run(user, chosen.words, now_ms())
run.save(force_insert=True)
keep(run, scenario, chosen.assets, now_ms())
run.start(user, now_ms())
"""

Query = Callable[[str], list[Any]]


class Log:
    """The source topic of a scenario, folded as the job does, and what it emits."""

    def __init__(self, bus: KafkaBus, topics: Topics, scenario: Scenario) -> None:
        self.bus, self.topics, self.scenario = bus, topics, scenario
        self.topic = topics.reports(scenario.name)
        self.buckets = [Bucket(scenario, n, 1) for n in range(scenario.partitions)]
        self.reader = bus.reader({(self.topic, n): 0 for n in range(scenario.partitions)})
        self.records: list[Record] = []
        self.producer = bus.producer()

    def report(self) -> None:
        """A report on each asset."""
        value = encode_report(Report("", "waf-1", "clear"))
        for n in range(ASSETS):
            self.producer.send(self.topic, f"site-{n}".encode(), value)
            self.producer.poll()
        assert self.producer.flush(60) == 0

    def fold(self) -> None:
        """Fold what has arrived, and emit."""
        while not self.reader.at_end():
            for m in self.reader.poll(1, 10_000):
                place = (m.partition, self.scenario.partitions)
                record = decode_placed(m.key, m.value, m.timestamp, *place)
                self.records.append(record)
                for emission in self.buckets[m.partition].apply(record, m.offset, m.timestamp):
                    self.emit(emission)
        assert self.producer.flush(60) == 0

    def emit(self, emission: object) -> None:
        """Append an emission to the states."""
        value = encode_state(emission) if isinstance(emission, StateRecord) else None
        self.producer.send(
            self.topics.states("attack"),
            emission.asset.encode(),  # type: ignore[attr-defined]
            value,
            headers=encode_headers(emission),  # type: ignore[arg-type]
        )
        self.producer.poll()


@pytest.fixture
def environment(broker, tmp_path: Path) -> dict[str, str]:
    own = {
        "TALLYBOARD_DATA_DIR": str(tmp_path),
        "TALLYBOARD_KAFKA_BOOTSTRAP": broker.bootstrap,
        "TALLYBOARD_TOPIC_PREFIX": PREFIX,
        "TALLYBOARD_LOG_LEVEL": "warning",
    }
    environment = os.environ | own
    manage(environment, "migrate", "-v", "0")
    return environment


@pytest.fixture
def query(environment: dict[str, str], tmp_path: Path) -> Iterator[Query]:
    database = sqlite3.connect(tmp_path / "tallyboard.sqlite3", timeout=20)
    yield lambda sql: database.execute(sql).fetchall()
    database.close()


def manage(environment: dict[str, str], *arguments: str) -> None:
    subprocess.run([sys.executable, "manage.py", *arguments], cwd=ROOT, env=environment, check=True)


@contextmanager
def running(environment: dict[str, str], *command: str) -> Iterator[int]:
    """A process and its children, in a group of their own; its id."""
    process = subprocess.Popen(
        [sys.executable, *command], cwd=ROOT, env=environment, start_new_session=True
    )
    try:
        yield process.pid
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


WORKER = ("-m", "celery", "-A", "dashboard", "worker", "--beat", "--concurrency", "1")


def sent(query: Query) -> int:
    """Return how many assets have been sent."""
    ((n,),) = query("select count(*) from bulk_item where outcome not in ('ready', 'sending')")
    return int(n)


def _shown(query: Query) -> bool:
    return query("select count(*) from states_assetstate") == [(ASSETS,)]


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.extensive(
    guard="tests/web/watch/test_bulk.py::test_a_worker_killed_after_sending_sends_under_the_same_id"
)
def test_killed_in_mid_run_it_sends_the_rest_and_nothing_anew(broker, environment, query):
    scenario = load_scenarios(ROOT / "scenarios.toml", demo=True)["attack"]
    bus, topics = KafkaBus(broker.settings().kafka_options()), Topics(PREFIX)
    scenarios = load_scenarios(ROOT / "scenarios.toml", demo=True)
    bus.ensure_topics(TopicSpec(*spec) for spec in topics.specs(scenarios.values()))
    log = Log(bus, topics, scenario)
    log.report()
    log.fold()
    with running(environment, "manage.py", "materialise"):
        wait_until(partial(_shown, query), 60, "the board is not filled")
        manage(environment, "shell", "-v", "0", "-c", START)
        with running(environment, *WORKER):
            wait_until(lambda: sent(query) > ASSETS // 10, 60, "nothing is sent")
        assert sent(query) < ASSETS, "it was killed too late to tell"
        with running(environment, *WORKER):
            wait_until(lambda: sent(query) == ASSETS, 90, "the rest is not sent")
            log.fold()
            ended = "select count(*) from bulk_run where status = 'done'"
            wait_until(lambda: query(ended) == [(1,)], 60, "it does not end")
    outcomes = Counter(dict(query("select outcome, count(*) from bulk_item group by outcome")))
    assert outcomes == {"applied": ASSETS}
    assert query("select matched from bulk_run") == [(ASSETS,)]
    ids: dict[str, set[str]] = {}
    for record in log.records:
        if isinstance(record, Command):
            ids.setdefault(record.asset, set()).add(record.id)
    assert len(ids) == ASSETS
    assert {len(own) for own in ids.values()} == {1}
    assert query("select count(*) from states_assetstate where not purged") == [(0,)]
    places = query("select count(distinct partition || '/' || \"offset\") from bulk_item")
    assert places == [(ASSETS,)]
