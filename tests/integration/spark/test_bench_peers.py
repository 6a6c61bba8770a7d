"""The comparison with other engines for real: fetched, compiled and run on a small log."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path

import msgspec
import pytest

from bench.drain import source
from bench.live import start_job
from bench.load import MAJORITY, SCENARIO, backlog
from bench.peers.drain import states_like
from bench.peers.engines import BY_NAME, KERNEL, Place, running_at, started
from bench.peers.outcome import Outcome, differences, outcome
from bench.results import Result
from bench.stack import ROOT, Engine, product

REPORTS, ASSETS = 20_000, 2_000


@pytest.mark.long
@pytest.mark.timeout(900)
def test_every_peer_makes_of_the_log_what_the_kernel_makes(tmp_path: Path) -> None:
    size = [f"--reports={REPORTS}", f"--assets={ASSETS}"]
    done = subprocess.run(
        [sys.executable, "-m", "bench.peers", "--parts=drain", *size, f"--results={tmp_path}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    result = msgspec.json.decode((tmp_path / "peers.json").read_bytes(), type=Result)
    engines = [run["engine"] for run in result.runs]
    assert engines == [KERNEL, *BY_NAME, KERNEL]
    assert len({run["records"] for run in result.runs}) == 1
    assert all(run["records"] > ASSETS and run["cpu_s"] > 0 for run in result.runs)
    assert result.machine.others is not None
    assert "| Kafka Streams, exactly once |" in done.stdout
    assert "other processes took" in done.stdout


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_peer_answers_under_a_steady_load(tmp_path: Path) -> None:
    options = ["--parts=live", "--peers=streams-eos", "--seconds=5", f"--results={tmp_path}"]
    done = subprocess.run(
        [sys.executable, "-m", "bench.peers", *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    result = msgspec.json.decode((tmp_path / "peers.json").read_bytes(), type=Result)
    assert [run["engine"] for run in result.runs] == [KERNEL, "streams-eos"]
    assert all(run["delays"]["count"] >= 0.95 * 5 * 1000 for run in result.runs)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ["streams-alo", "flink-alo"])
def test_votes_expire_in_a_peer_as_they_do_in_the_kernel(name: str) -> None:
    with product(MAJORITY.format(lifetime="10s"), Engine(KERNEL)) as copy:
        start_job(copy, Engine(KERNEL))
        states, sink = copy.topics.states(SCENARIO), f"{name}.states"
        copy.bus.ensure_topics([states_like(copy, sink)])
        names = started(BY_NAME[name], Place(copy, source(copy), sink, name, 10_000))
        copy.wait(lambda: running_at(copy, names) > 0, 60, name)
        producer = copy.bus.producer()
        for key, value in backlog(2_000, 300):
            producer.send(source(copy), key, value)
        producer.close(30)

        def silent(topic: str) -> Outcome:
            return outcome(copy.bus, topic, {})

        def all_silent(topic: str) -> bool:
            last = silent(topic).last
            votes = [vote for shown in last.values() for vote in shown.split(" ")[1:]]
            return len(last) == 300 and all(vote.endswith("?") for vote in votes)

        for topic in (states, sink):
            copy.wait(partial(all_silent, topic), 90, f"every vote to expire in {topic}")
        assert differences(silent(states), silent(sink)) == []
