"""The comparison with other engines for real: fetched, compiled and run on a small log."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from bench.peers.engines import BY_NAME, KERNEL
from bench.results import Result
from bench.stack import ROOT

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
