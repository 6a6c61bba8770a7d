"""What hands rows from task to task on one machine: none lost, each in order, and a bound."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from support.spark.kernel_replay import java_command

RELAY = Path(__file__).resolve().parents[2] / "kernel/java/tallyboard/kernel/Relay.java"
MOST_BYTES = 4 << 20  # RowChannel.MOST_BYTES


class Relayed(NamedTuple):
    """What came through a channel. most_bytes: waited at once."""

    rows: int
    out_of_order: int
    most_bytes: int
    ended: bool


Relay = Callable[..., Relayed]


@pytest.fixture(scope="module")
def relay(jars_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Relay:
    """Send rows through a channel in a JVM."""
    command = java_command(jars_dir, RELAY, tmp_path_factory.mktemp("relay"))

    def run(writers: int, rows: int, size: int, ending: int, pause_ms: int = 0) -> Relayed:
        numbers = map(str, (writers, rows, size, ending, pause_ms))
        result = subprocess.run(
            [*command, *numbers], capture_output=True, text=True, check=True, timeout=60
        )
        came, out_of_order, most, ended = result.stdout.split()
        return Relayed(int(came), int(out_of_order), int(most), ended == "true")

    return run


def test_every_row_comes_in_the_order_of_who_wrote_it(relay: Relay) -> None:
    came = relay(writers=6, rows=50_000, size=128, ending=6)
    assert came[:2] == (300_000, 0)
    assert came.ended


def test_who_writes_waits_for_who_reads(relay: Relay) -> None:
    came = relay(writers=4, rows=300, size=100_000, ending=4, pause_ms=20)
    assert came[:2] == (1_200, 0)
    assert 100_000 < came.most_bytes <= MOST_BYTES + 100_000
    assert came.ended


def test_it_does_not_end_while_one_may_still_write(relay: Relay) -> None:
    came = relay(writers=3, rows=10, size=64, ending=2)
    assert came[:2] == (30, 0)
    assert not came.ended
