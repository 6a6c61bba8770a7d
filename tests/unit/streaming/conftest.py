"""What tests of the job's parts are given."""

from __future__ import annotations

from pathlib import Path

import pytest

from streaming.state.storage import LocalPath


@pytest.fixture
def tmp_path(tmp_path: Path) -> LocalPath:
    """An empty folder, as the storage of checkpoints."""
    return LocalPath(tmp_path)
