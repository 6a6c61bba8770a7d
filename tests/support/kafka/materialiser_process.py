"""The materialiser's process for tests, on a broker and a database of the test's own."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from support.run.stack import ROOT, EmbeddedBroker

Query = Callable[[str], list[tuple]]


def migrated(broker: EmbeddedBroker, folder: Path, prefix: str, **more: str) -> dict[str, str]:
    """Return the environment of a process whose database is there. more: settings by name."""
    own = {
        "TALLYBOARD_DATA_DIR": str(folder),
        "TALLYBOARD_KAFKA_BOOTSTRAP": broker.bootstrap,
        "TALLYBOARD_TOPIC_PREFIX": prefix,
        "TALLYBOARD_LOG_LEVEL": "warning",
        **more,
    }
    environment = os.environ | own
    manage(environment, "migrate", "-v", "0")
    return environment


def manage(environment: dict[str, str], *arguments: str) -> None:
    """Run a command of `manage.py`, which succeeds."""
    subprocess.run([sys.executable, "manage.py", *arguments], cwd=ROOT, env=environment, check=True)


@contextmanager
def materialiser(environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """The process as the supervisor runs it."""
    process = subprocess.Popen(
        [sys.executable, "manage.py", "materialise"], cwd=ROOT, env=environment
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@contextmanager
def queries(folder: Path) -> Iterator[Query]:
    """Ask the process's database."""
    database = sqlite3.connect(folder / "tallyboard.sqlite3", timeout=20)
    yield lambda sql: database.execute(sql).fetchall()
    database.close()
