"""How busy a machine is, by what the kernel counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from ops import machine_load
from ops.machine_load import CpuTimes, busy_cores


def test_times_are_read_without_what_makes_way(tmp_path: Path) -> None:
    stat = tmp_path / "stat"
    stat.write_text("cpu  100 9900 50 7000 80 20 30 40 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n")
    assert CpuTimes.read(stat) == CpuTimes(busy=2.0, stolen=0.4)


def test_busy_cores_are_what_others_had_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    readings = iter([CpuTimes(10, 1), CpuTimes(12.5, 1.5)])
    monkeypatch.setattr(CpuTimes, "read", lambda: next(readings))
    monkeypatch.setattr(machine_load.time, "sleep", lambda _seconds: None)
    assert busy_cores(2) == 1.5


def test_where_the_system_does_not_say_nothing_is_busy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def read() -> CpuTimes:
        raise FileNotFoundError

    monkeypatch.setattr(CpuTimes, "read", read)
    assert busy_cores(2) == 0
