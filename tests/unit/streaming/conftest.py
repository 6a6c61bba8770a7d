"""What tests of the job's parts are given."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from bus.memory import MemoryBus
from streaming.state.storage import LocalPath


@pytest.fixture
def bus() -> MemoryBus:
    """A bus in memory, without topics."""
    return MemoryBus(lambda: time.time_ns() // 1_000_000)


@pytest.fixture
def tmp_path(tmp_path: Path) -> LocalPath:
    """An empty folder, as the storage of checkpoints."""
    return LocalPath(tmp_path)
