"""A driver in a thread, on a bus in memory, with Spark played."""

from __future__ import annotations

import math
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bus.memory import MemoryBus
from config.settings import Settings
from streaming.fold import query as fold_query
from streaming.fold.assignment import EngineAssignment
from streaming.fold.plan import Plan
from streaming.fold.rules import read_book
from streaming.job.driver import Driver
from streaming.spark import run_loop
from streaming.spark.jvm import JvmLost
from streaming.state.storage import LocalPath
from support.run.stack import wait_until
from wire.job import Control, JobAnswer, QueryReport, decode_progress, encode
from wire.topics import Topics

TOPICS = Topics()
SCENARIOS = """\
[sites]
partitions = 2
vote_lifetime = "1d"
states = [{ name = "bad" }, { name = "good" }]
rule = { kind = "latest" }
holds = { good = "5m" }
"""


class Query:
    """Spark's query, played: it runs until it is stopped or told to fail."""

    lastProgress = None  # noqa: N815, Spark's own name

    def __init__(self) -> None:
        self.isActive = True
        self.error: Exception | None = None

    def awaitTermination(self, timeout: float = math.inf) -> bool:  # noqa: N802, Spark's own name
        deadline = time.monotonic() + timeout
        while self.isActive and self.error is None and time.monotonic() < deadline:
            time.sleep(0.01)
        if self.error is not None:
            self.isActive = False
            raise self.error
        return not self.isActive

    def stop(self) -> None:
        self.isActive = False


class Stage:
    """A driver in a thread, on a bus in memory, with Spark played."""

    def __init__(self, folder: Path, bus: MemoryBus, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.bus = LocalPath(folder), bus
        self.file = folder / "scenarios.toml"
        self.queries: list[Query] = []
        self.triggers: list[str] = []
        self.plans: list[Plan] = []
        self.stop = threading.Event()
        self.lost: list[JvmLost] = []
        monkeypatch.setattr(run_loop, "jvm_process", lambda _spark: None)
        monkeypatch.setattr(run_loop, "PAUSE_STAYING_S", 60)
        monkeypatch.setattr(run_loop, "FIRST_PAUSE_S", 0.1)
        monkeypatch.setattr(run_loop, "LOOK_S", 0.02)
        monkeypatch.setattr(fold_query, "start", self._started)

    def _started(self, *args: Any, **more: Any) -> Query:
        self.triggers.append(more["trigger"])
        self.plans.append(args[2])
        assert not any(query.isActive for query in self.queries)
        self.queries.append(Query())
        return self.queries[-1]

    def begin(self, room: int | None = None, **fields: Any) -> None:
        """Run a driver as a new process would. fields: more settings."""
        self.stop.clear()
        fields = {"demo": False, "tick_ms": 60_000, **fields}
        settings = Settings(data_dir=self.folder, scenarios=self.file, _env_file=None, **fields)  # type: ignore[call-arg]
        shares: Any = {"kernel": dict(read_book(settings).rules)}
        home = self.folder / "checkpoint"
        sharing = EngineAssignment("kernel", "real-time", home, shares, room)
        spark: Any = SimpleNamespace(sparkContext=SimpleNamespace(setLogLevel=lambda _: None))
        driver = Driver(settings, sharing, self.bus, spark, self.stop, "kernel")
        self.thread = threading.Thread(target=self._run, args=(driver,), daemon=True)
        self.thread.start()

    def _run(self, driver: Driver) -> None:
        try:
            driver.run()
        except JvmLost as lost:
            self.lost.append(lost)

    def end(self) -> None:
        self.stop.set()
        self.thread.join(10)
        assert not self.thread.is_alive()

    def query_reports(self) -> list[QueryReport]:
        return [decode_progress(value) for value in values(self.bus, TOPICS.progress)]

    def status(self) -> str:
        query_reports = self.query_reports()
        return query_reports[-1].status if query_reports else ""

    def wait_for(self, status: str) -> None:
        wait_until(lambda: self.status() == status, 20, f"not {status}")

    def ask(self, id_: str, action: Any, **parameters: Any) -> JobAnswer:
        """Ask, and wait until it is answered for good."""
        return self.answer(self.ask_only(id_, action, **parameters))

    def ask_only(self, id_: str, action: Any, **parameters: Any) -> str:
        """Ask, and return the request's id."""
        ask = Control(id_, "kernel", action, "ada", "a drill", parameters)
        self.bus.producer().send_and_wait(TOPICS.control, b"kernel", encode(ask))
        return id_

    def answer(self, id_: str) -> JobAnswer:
        def last() -> JobAnswer | None:
            job_answers = [
                p.answer for p in self.query_reports() if p.answer and p.answer.id == id_
            ]
            return next((answer for answer in job_answers if answer.outcome != "accepted"), None)

        wait_until(lambda: last() is not None, 20, f"{id_} is not answered")
        job_answer = last()
        assert job_answer is not None
        return job_answer

    def rules(self) -> int:
        return sum(b'"scenario"' in value for value in values(self.bus, TOPICS.reports("sites")))


def values(bus: MemoryBus, topic: str) -> list[bytes]:
    edges = bus.offsets([topic])
    reader = bus.reader({place: begin for place, (begin, _) in edges.items()})
    return [message.value or b"" for message in reader.poll(0, 100_000)]
