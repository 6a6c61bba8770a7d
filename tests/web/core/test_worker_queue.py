"""The worker's queue of files under load: real workers, real producers, each task exactly once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.run.stack import ROOT, wait_until

SOAK = "support.web.task_soak"

WORKER = (
    "-m",
    "celery",
    "-A",
    SOAK,
    "worker",
    "--concurrency",
    "1",
    "--loglevel",
    "warning",
)


class Soak:
    """Two workers and some producers on a queue of their own below `folder`."""

    def __init__(self, folder: Path) -> None:
        self.noted, self.log = folder / "noted", folder / "log"
        self.queue = folder / "celery" / "queue"
        self.environment = {
            **os.environ,
            "TALLYBOARD_DATA_DIR": str(folder),
            "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}",
        }

    @contextmanager
    def process(self, *command: str) -> Iterator[subprocess.Popen[bytes]]:
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, *command], cwd=ROOT, env=self.environment,
                stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)

    def ran(self) -> Counter[int]:
        """Return how often each number was noted."""
        return (
            Counter(map(int, self.noted.read_text().split())) if self.noted.exists() else Counter()
        )

    def run(self, tasks: int, producers: int, patience_s: float) -> None:
        """Have so many tasks carried out while they are asked for; each worker lives on."""
        share = tasks // producers
        with self.process(*WORKER, "-n", "one") as one, self.process(*WORKER, "-n", "two") as two:
            asking = [
                subprocess.Popen(
                    [sys.executable, "-m", SOAK, str(n * share), str((n + 1) * share)],
                    cwd=ROOT, env=self.environment,
                )
                for n in range(producers)
            ]  # fmt: skip
            try:
                wait_until(lambda: self.done(tasks, one, two), patience_s, "tasks are missing")
            finally:
                for each in asking:
                    each.wait(60)

    def done(self, tasks: int, *workers: subprocess.Popen[bytes]) -> bool:
        for worker in workers:
            assert worker.poll() is None, f"a worker died: {self.log.read_text()[-3000:]}"
        return len(self.ran()) >= tasks


def check(folder: Path, tasks: int, patience_s: float, producers: int = 4) -> None:
    soak = Soak(folder)
    soak.run(tasks, producers, patience_s)
    assert soak.ran() == Counter(range(tasks))
    assert [path.name for path in soak.queue.iterdir() if ".celery.msg" in path.name] == []
    assert "Traceback" not in soak.log.read_text()


@pytest.mark.timeout(120)
def test_each_of_20_tasks_is_carried_out_once(tmp_path: Path):
    check(tmp_path, 20, 60, producers=2)


@pytest.mark.extensive(
    guard="tests/web/core/test_worker_queue.py::test_each_of_20_tasks_is_carried_out_once"
)
@pytest.mark.timeout(120)
def test_each_of_300_tasks_is_carried_out_once(tmp_path: Path):
    check(tmp_path, 300, 60)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_each_of_10_000_tasks_is_carried_out_once(tmp_path: Path):
    check(tmp_path, 10_000, 800)
