"""What tests of the kernel are given."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.browser.shared_product import exclusive
from support.spark.kernel_replay import Replay, compile_replay
from support.spark.spark_session import spark

__all__ = ["replay", "spark"]


@pytest.fixture(scope="session")
def replay(session_folder: Path, jars_dir: Path) -> Replay:
    """The kernel, compiled, beside its harness, which the session compiles once."""
    work = session_folder / "replay"
    with exclusive(session_folder / "replay.lock"):
        if not work.exists():
            compile_replay(jars_dir, work)
    return Replay(jars_dir, work)
