"""Each process killed in turn while agents report: nothing is lost, no state is bent."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import httpx
import pytest

from agents.reporter import Reporter
from bus.kafka import KafkaBus
from stack import Stack, wait_until
from wire.topics import Topics

PIPELINE = ("broker", "job", "materialiser", "web")
"""A report goes through these."""
OTHERS = ("worker", "notifier", "beat", "pipelines", "simulator", "probe-a", "target")
ASSETS = ("witness-1", "witness-2", "witness-3")


class Witness:
    """Reports a new state of its orders ten times a second, and knows what Kafka confirmed."""

    def __init__(self, stack: Stack, spool: Path) -> None:
        self._reporter = Reporter(
            KafkaBus(stack.settings.kafka_options()), Topics().reports("orders"), spool
        )
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.steps = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
        self._reporter.close()

    def _run(self) -> None:
        while not self._done.wait(0.1):
            for asset in ASSETS:
                self._reporter.report(asset, "witness", f"step-{self.steps}")
            self.steps += 1

    def settle(self) -> None:
        """Stop reporting, and wait until everything is confirmed."""
        self._done.set()
        self._thread.join()
        wait_until(lambda: self._reporter.unconfirmed == 0, 60, "reports are not confirmed")


@pytest.fixture
def stack(tmp_path: Path, jars_dir: Path) -> Iterator[Stack]:
    """The whole product with its demo agents."""
    own = Stack(tmp_path / "data", jars_dir=jars_dir, pipelines="report-rates")
    own.start(180)
    yield own
    own.stop()


def steps_shown(stack: Stack, asset: str) -> list[str]:
    """Every state that the history has of an asset, in the order of its versions."""
    query = (
        "select state from board_transition where kind='change' and scenario='orders' and asset=? "
        "order by version"
    )
    database = sqlite3.connect(stack.data_dir / "tallyboard.sqlite3", timeout=30)
    try:
        return [state for (state,) in database.execute(query, (asset,))]
    finally:
        database.close()


def is_ready(stack: Stack) -> bool:
    """Return whether the board shows what a running job tallies."""
    try:
        return httpx.get(f"{stack.url}/readyz", timeout=5).status_code == 200
    except httpx.HTTPError:
        return False


def kill_and_wait(stack: Stack, witness: Witness, name: str) -> None:
    """Kill one process; wait until it runs again and a report made since is on the board."""
    before = stack.kill(name)
    wait_until(lambda: stack.pid(name) != before, 60, f"{name} was not started again")
    told = f"step-{witness.steps + 1}"
    wait_until(lambda: told in steps_shown(stack, ASSETS[0]), 120, f"no state after {name} died")
    wait_until(lambda: is_ready(stack), 120, f"not ready after {name} died")


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "victims",
    [
        pytest.param(PIPELINE, id="pipeline"),
        pytest.param((*PIPELINE, *OTHERS), id="all", marks=pytest.mark.extensive),
    ],
)
def test_killing_each_process_in_turn(
    stack: Stack, tmp_path: Path, victims: tuple[str, ...]
) -> None:
    with Witness(stack, tmp_path / "spool") as witness:
        for name in victims:
            kill_and_wait(stack, witness, name)
        witness.settle()
    last = f"step-{witness.steps - 1}"
    wait_until(
        lambda: all(steps_shown(stack, asset)[-1] == last for asset in ASSETS),
        60,
        f"the last confirmed report, {last}, was not judged",
    )
    every = [f"step-{n}" for n in range(witness.steps)]
    for asset in ASSETS:
        assert steps_shown(stack, asset) == every
    reconciled = stack.manage("reconcile", "--json", timeout_s=300)
    assert reconciled.returncode == 0, reconciled.stdout + reconciled.stderr
    found = json.loads(reconciled.stdout)
    assert found["differences"] == []
    assert found["compared"] >= len(ASSETS)
