"""Processes killed while agents report, at once or in turn: nothing is lost, no state is bent."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Self

import httpx
import pytest

from agents.reporter import Reporter
from bus.kafka import KafkaBus
from support.run.stack import Stack, wait_until
from wire.topics import Topics

PIPELINE = ("broker", "job", "materialiser", "web")
"""A report goes through these."""
OTHERS = ("worker", "notifier", "beat", "pipelines", "simulator", "probe-a", "target")
Victims = tuple[tuple[str, ...], ...]
"""Those that are killed at once, in the order in which that happens."""
AT_ONCE: Victims = (PIPELINE,)
IN_TURN: Victims = tuple((name,) for name in (*PIPELINE, *OTHERS))
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
def stack(tmp_path: Path, jars_dir: Path, victims: Victims) -> Iterator[Stack]:
    """The whole product with its demo agents, or what a report goes through alone."""
    only, pipelines = (PIPELINE, "none") if victims == AT_ONCE else ((), "report-rates")
    own = Stack(tmp_path / "data", only, jars_dir=jars_dir, pipelines=pipelines)
    own.start(300)
    yield own
    own.stop()


def steps_shown(stack: Stack, asset: str) -> list[str]:
    """Every state that the history has of an asset, in the order of its versions."""
    query = (
        "select state from states_transition where kind='change' and scenario='orders' and asset=? "
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


def kill_and_wait(stack: Stack, witness: Witness, names: tuple[str, ...]) -> None:
    """Kill processes; wait until they run again and a report made since is on the board."""
    before = {name: stack.kill(name) for name in names}
    for name, pid in before.items():
        wait_until(partial(runs_anew, stack, name, pid), 60, f"{name} was not started again")
    step = f"step-{witness.steps + 1}"
    wait_until(lambda: step in steps_shown(stack, ASSETS[0]), 120, f"no state after {names} died")
    wait_until(lambda: is_ready(stack), 120, f"not ready after {names} died")


def runs_anew(stack: Stack, name: str, before: int) -> bool:
    """Return whether a process runs under another id than before."""
    return stack.pid(name) != before


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "victims",
    [
        pytest.param(AT_ONCE, id="at-once"),
        pytest.param(IN_TURN, id="in-turn", marks=pytest.mark.extensive),
    ],
)
def test_killed_processes_come_back_and_nothing_is_lost(
    stack: Stack, tmp_path: Path, victims: Victims
) -> None:
    with Witness(stack, tmp_path / "spool") as witness:
        for names in victims:
            kill_and_wait(stack, witness, names)
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
    reconciliation = json.loads(reconciled.stdout)
    assert reconciliation["differences"] == []
    assert reconciliation["compared"] >= len(ASSETS)
