"""A pipeline's supervisor on a bus in memory, with Spark played: requests, errors, an end."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from bus.base import TopicSpec
from bus.memory import MemoryBus
from config.settings import Settings
from dashboard.core.common.times import now_ms
from streaming.pipelines import supervisor as supervising
from streaming.pipelines.declaration import Pipeline, Sink, Source, Trigger
from streaming.pipelines.supervisor import PipelineSupervisor
from streaming.spark import run_loop
from streaming.state.checkpoint import current_epoch
from streaming.state.storage import LocalPath
from support.run.stack import wait_until
from support.spark.driver_harness import Query
from wire.job import Control, encode
from wire.pipeline import PipelineProgress, decode_pipeline
from wire.topics import Topics

PIPELINE = Pipeline(
    "p", "P", {"x": Source("in")}, (Sink("out"),), lambda x: x, trigger=Trigger(tick_ms=3_600_000)
)


class Trial:
    """A supervisor in a thread."""

    def __init__(self, folder: LocalPath, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bus, self.home, self.queries = MemoryBus(now_ms), folder / "p", list[Query]()
        specs = [TopicSpec(name, 1, {}) for name in ("in", "job.control", "job.pipelines")]
        self.bus.ensure_topics(specs)
        for name in ("session_for", "build"):
            monkeypatch.setattr(supervising.queries, name, lambda *_: None)
        monkeypatch.setattr(supervising.queries, "start", self._start)
        monkeypatch.setattr(supervising, "graph_of", lambda *_: ())
        monkeypatch.setattr(run_loop, "jvm_process", lambda _spark: None)
        monkeypatch.setattr(run_loop, "FIRST_PAUSE_S", 0.05)
        monkeypatch.setattr(run_loop, "LOOK_S", 0.02)
        monkeypatch.setattr(supervising, "LOOK_S", 0.02)
        settings = Settings(data_dir=folder, _env_file=None)  # type: ignore[call-arg]
        count = SimpleNamespace(value=0)
        context = SimpleNamespace(setLogLevel=lambda _: None, accumulator=lambda _: count)
        spark: Any = SimpleNamespace(sparkContext=context)
        self.stop = threading.Event()
        own = PipelineSupervisor(
            settings, PIPELINE, self.bus, spark, self.stop, self.home, [], None
        )
        self.thread = threading.Thread(target=own.run)
        self.thread.start()

    def _start(
        self, _settings: Any, _plain: Any, _built: Any, path: LocalPath, _counts: Any
    ) -> Query:
        assert not any(query.isActive for query in self.queries), "two at once"
        path.mkdir(parents=True, exist_ok=True)
        self.queries.append(Query())
        return self.queries[-1]

    def reports(self) -> list[PipelineProgress]:
        reader = self.bus.reader({("job.pipelines", 0): 0})
        return [decode_pipeline(one.value) for one in reader.poll(0.1, 1_000)]

    def wait_for(self, status: str) -> PipelineProgress:
        def last() -> PipelineProgress | None:
            plain = [one for one in self.reports() if one.answer is None]
            return plain[-1] if plain and plain[-1].status == status else None

        wait_until(last, 10, f"not {status}")
        progress = last()
        assert progress is not None
        return progress

    def ask(self, action: Any) -> str:
        id_ = f"{action}-{len(self.reports())}"
        record = encode(Control(id_, "pipeline/p", action, "ada", "a drill"))
        self.bus.producer().send_and_wait(Topics().control, b"pipeline/p", record)

        def outcomes() -> list[str]:
            answers = [one.answer for one in self.reports() if one.answer]
            return [a.outcome for a in answers if a.id == id_ and a.outcome != "accepted"]

        wait_until(outcomes, 10, f"{action} is not answered")
        return outcomes()[0]


@pytest.fixture
def trial(tmp_path: LocalPath, monkeypatch: pytest.MonkeyPatch) -> Iterator[Trial]:
    made = Trial(tmp_path, monkeypatch)
    made.wait_for("running")
    yield made
    made.stop.set()
    made.thread.join(10)
    assert not made.thread.is_alive()


def test_a_source_that_was_created_again_is_waited_for_until_a_reset(trial: Trial) -> None:
    checkpoint = current_epoch(trial.home).path
    for folder, text in (("offsets", 'v1\n{}\n{"in": {"0": 0}}'), ("commits", "v1\n{}")):
        (checkpoint / folder).make()
        (checkpoint / folder / "0").write_whole(text.encode())
    trial.bus.delete("in")
    trial.bus.ensure_topics([TopicSpec("in", 1, {})])
    trial.bus.producer().send_and_wait("in", b"k", b"v")
    assert trial.ask("stop") == "done"
    trial.ask("start")
    assert "in: deleted and created again" in trial.wait_for("waiting").message
    assert trial.ask("reset") == "done"
    trial.wait_for("running")


def test_it_ticks_while_it_runs(trial: Trial) -> None:
    def ticks() -> int:
        return len(trial.bus.reader({("pipelines.p.ticks", 0): 0}).poll(0.1, 100))

    wait_until(ticks, 10, "no tick")
    assert trial.ask("stop") == "done"
    trial.wait_for("stopped")
    before = ticks()
    assert trial.ask("start") == "done"
    wait_until(lambda: ticks() > before, 10, "no tick after the start")


def test_stop_start_and_reset(trial: Trial) -> None:
    assert trial.ask("start") == "done"
    assert trial.ask("stop") == "done"
    assert trial.wait_for("stopped").stopped is not None
    assert not trial.queries[-1].isActive
    assert trial.ask("start") == "done"
    first = trial.wait_for("running").epoch
    assert trial.ask("reset") == "done"
    wait_until(lambda: trial.wait_for("running").epoch > first, 10, "no new epoch")
    assert [path.name for path in trial.home.glob("epoch-*")] == [f"epoch-{first + 1}"]
    assert trial.ask("reload") == "refused"


def test_an_error_that_passes_and_one_that_stays(trial: Trial) -> None:
    trial.queries[-1].error = RuntimeError("Connection refused")
    wait_until(lambda: len(trial.queries) == 2, 10, "it was not started again")
    assert trial.wait_for("running").restarts == 1
    trial.queries[-1].error = RuntimeError("InvalidTimestamp: in/0/7: negative")
    assert "in/0/7: negative" in trial.wait_for("waiting").message
