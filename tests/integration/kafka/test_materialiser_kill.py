"""The materialiser's process, killed again and again, loses nothing and repeats nothing."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from bus.base import TopicSpec
from bus.kafka import KafkaBus
from domain.records import Cause, StateRecord, Vote
from domain.scenario_parser import load_scenarios
from domain.version import Version
from support.kafka.materialiser_process import Query, materialiser, migrated, queries
from support.run.stack import ROOT, EmbeddedBroker, wait_until
from wire.sink import encode_headers, encode_state
from wire.topics import Topics

PREFIX = "killed-materialiser."
ASSETS, ROUNDS = 300, 120
STATES = ("clear", "suspicious", "under-attack")


def record(asset: int, turn: int) -> StateRecord:
    """The asset's record of this turn; its state changes with each."""
    state, offset = STATES[turn % 3], turn * ASSETS + asset
    return StateRecord(
        asset=f"site-{asset}",
        state=state,
        previous=STATES[(turn - 1) % 3] if turn else None,
        since=1_790_000_000_000 + turn,
        unconfirmed=False,
        version=Version(1, offset, 0),
        cause=Cause("report", 0, offset, 1_790_000_000_000 + turn, agent="waf-1"),
        votes=(Vote("waf-1", state, 1, 1, offset, None, 1),),
    )


def emit(bus: KafkaBus, topics: Topics) -> None:
    """All turns of all assets, each turn told twice, as after a crash of the job."""
    producer = bus.producer()
    for turn in range(ROUNDS):
        for _ in range(2):
            for asset in range(ASSETS):
                said = record(asset, turn)
                producer.send(
                    topics.states("attack"),
                    said.asset.encode(),
                    encode_state(said),
                    headers=encode_headers(said),
                )
            producer.poll()
    assert producer.flush(60) == 0
    producer.close()


@pytest.fixture
def environment(broker: EmbeddedBroker, tmp_path: Path) -> dict[str, str]:
    """Settings of the process; its database is there."""
    return migrated(broker, tmp_path, PREFIX)


@pytest.fixture
def query(tmp_path: Path) -> Iterator[Query]:
    """Ask the process's database."""
    with queries(tmp_path) as query:
        yield query


def reached(query: Query) -> int:
    """Return how many records of the states topic the database stands for."""
    sql = f"select sum(next_offset) from states_sinkoffset where topic like '{PREFIX}attack%'"
    return query(sql)[0][0] or 0


def _has(query: Query, goal: float) -> bool:
    return reached(query) > goal


@pytest.mark.extensive(
    guard="tests/e2e/faults/test_kill_each.py::test_killed_processes_come_back_and_nothing_is_lost"
)
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_killed_again_and_again_it_loses_nothing(broker, environment, query):
    scenarios = load_scenarios(ROOT / "scenarios.toml", demo=True)
    bus, topics = KafkaBus(broker.settings().kafka_options()), Topics(PREFIX)
    bus.ensure_topics(TopicSpec(*spec) for spec in topics.specs(scenarios.values()))
    emit(bus, topics)
    total, kills = 2 * ASSETS * ROUNDS, 0
    for share in (0.05, 0.3, 0.6):
        with materialiser(environment) as process:
            goal = share * total
            wait_until(partial(_has, query, goal), 60, "it does not advance")
            process.send_signal(signal.SIGKILL)
            kills += process.wait() == -signal.SIGKILL and reached(query) < total
    with materialiser(environment) as process:
        wait_until(lambda: reached(query) == total, 60, "it does not come to the end")
        begun = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(8) == 0
        assert time.monotonic() - begun < 5
    assert kills >= 2
    last = {f"site-{n}": record(n, ROUNDS - 1) for n in range(ASSETS)}
    rows = query("select asset, record from states_assetstate order by asset")
    assert rows == [(name, encode_state(last[name]).decode()) for name in sorted(last)]
    transitions = query("select asset, state from states_transition order by asset, version")
    turns = [STATES[turn % 3] for turn in range(ROUNDS)]
    assert transitions == [(name, state) for name in sorted(last) for state in turns]
    assert query("select count(*) from states_divergence") == [(0,)]
    counted = "select n from states_eventcount where name='records' and topic like '%.attack%'"
    assert query(counted) == [(total,)]
