"""Two Beats on one PostgreSQL database: one schedules, whoever is killed or cut off."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from config.settings import Settings
from ops.processes import processes
from support.run.stack import ROOT, wait_until
from support.web.postgresql import empty_database

pytestmark = pytest.mark.extensive(guard="tests/web/core/test_beat.py::test_one_of_two_sends")

BEGUN, WAITS, SENT = "beat schedules", "another one schedules", "Sending due task"
LOST = "the lock of the schedule cannot be had"
HOLDERS = "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted"


class Beat:
    """A Beat with a data directory of its own, as on a machine of its own."""

    def __init__(self, folder: Path, database: str) -> None:
        self.log = folder.with_suffix(".log")
        self.environment = os.environ | {
            "TALLYBOARD_DATA_DIR": str(folder),
            "TALLYBOARD_DATABASE_URL": database,
            "TALLYBOARD_KAFKA_BOOTSTRAP": "127.0.0.1:1",
        }

    @contextmanager
    def running(self) -> Iterator[subprocess.Popen[bytes]]:
        """Run it; it is killed at the end."""
        [beat] = processes(Settings(), ["beat"])
        with self.log.open("wb") as log:
            process = subprocess.Popen(
                beat.command, cwd=ROOT, env=self.environment, stdout=log, stderr=log
            )
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    def said(self, text: str) -> int:
        """How often it has said so."""
        return self.log.read_text().count(text)


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_one_of_two_beats_schedules(url: str, tmp_path: Path) -> None:
    database = empty_database(url, "beats")
    first, second = Beat(tmp_path / "first", database), Beat(tmp_path / "second", database)
    migrate = [sys.executable, "manage.py", "migrate", "-v", "0"]
    subprocess.run(migrate, cwd=ROOT, env=first.environment, check=True)
    with psycopg.connect(database, autocommit=True) as server, first.running() as victim:
        wait_until(lambda: first.said(SENT), 60, "nothing is sent")
        with second.running():
            wait_until(lambda: second.said(WAITS), 60, "it does not wait")
            before = first.said(SENT)
            wait_until(lambda: first.said(SENT) > before + 4, 60, "nothing more is sent")
            assert second.said(SENT) == 0

            [(holder,)] = server.execute(HOLDERS).fetchall()
            server.execute("SELECT pg_terminate_backend(%s)", (holder,))
            wait_until(lambda: first.said(LOST) == 1, 60, "it goes on without the lock")
            wait_until(lambda: first.said(BEGUN) + second.said(BEGUN) == 2, 60, "nobody schedules")
            assert len(server.execute(HOLDERS).fetchall()) == 1

            victim.kill()
            wait_until(lambda: second.said(SENT), 60, "the other one does not take over")
            assert len(server.execute(HOLDERS).fetchall()) == 1
