"""The pipelines' process for tests, on a broker and topics of the test's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from bus.base import ConsumerRecord, Reader, TopicSpec
from support.run.stack import ROOT, wait_until
from support.spark.jobs import Job
from wire.job import Control, JobAnswer, encode
from wire.pipeline import PipelineProgress, decode_pipeline, query_name

TRIALS = """\
import runpy
from streaming.pipelines import registry
registry.PACKAGE = "trial_pipelines"
runpy.run_module("streaming.pipelines", run_name="__main__")
"""
"""The process, with the tests' own pipelines in place of the shipped ones."""

URGENT = """\
import os, runpy
os.nice = lambda increment: 0
runpy.run_module("streaming.pipelines", run_name="__main__")
"""
"""The process with the priority of others: a test of lag has no idle machine."""


@dataclass
class PipelineProcess(Job):
    """`python -m streaming.pipelines`. pipelines: which ones; trials: whether of the tests."""

    pipelines: str = "all"
    trials: bool = True
    variables: Mapping[str, str] = field(default_factory=dict)
    follow: Reader | None = None
    reported: list[PipelineProgress] = field(default_factory=list)

    def environment(self) -> dict[str, str]:
        own = {
            "TALLYBOARD_PIPELINES": self.pipelines,
            "TALLYBOARD_PIPELINES_MEMORY": "600m",
            "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}",
            **self.variables,
        }
        return super().environment() | own

    def _module(self) -> list[str]:
        return ["-c", TRIALS if self.trials else URGENT]

    def make(self, **partitions: int) -> None:
        """Make topics: `numbers=2` is `trial.numbers` with two partitions."""
        specs = [
            TopicSpec(f"{self.prefix}trial.{name}", count, {}) for name, count in partitions.items()
        ]
        self.bus.ensure_topics(specs)

    def reports(self, name: str) -> list[PipelineProgress]:
        """What a pipeline has reported, oldest first."""
        if self.follow is None:
            self.follow = self.bus.reader({(self.topics.pipelines, 0): 0})
        while messages := self.follow.poll(0.1, 10_000):
            self.reported += [decode_pipeline(one.value) for one in messages]
        return [record for record in self.reported if record.name == name]

    def clean_up(self) -> None:
        super().clean_up()
        if self.follow is not None:
            self.follow.close()

    def last(self, name: str) -> PipelineProgress:
        """The last report of a pipeline, which has reported something."""
        return [record for record in self.reports(name) if record.answer is None][-1]

    def wait_for(self, name: str, status: str, timeout_s: float = 120) -> PipelineProgress:
        """Wait until a pipeline reports this status, and return the report."""

        def right() -> bool:
            return bool(self.reports(name)) and self.last(name).status == status

        wait_until(right, timeout_s, f"{name} is not {status}, see {self.log}")
        return self.last(name)

    def ask(self, name: str, action: Any, timeout_s: float = 60) -> JobAnswer:
        """Request something of a pipeline; return its answer."""
        id_ = str(uuid4())
        query = query_name(name)
        record = encode(Control(id_, query, action, "ada", "a drill"))
        self.bus.producer().send_and_wait(self.topics.control, query.encode(), record)

        def answers() -> list[JobAnswer]:
            job_answers = [record.answer for record in self.reports(name) if record.answer]
            return [one for one in job_answers if one.id == id_ and one.outcome != "accepted"]

        wait_until(answers, timeout_s, f"{action} of {name} is not answered, see {self.log}")
        return answers()[0]

    def written(self, topic: str) -> int:
        """How many records a topic holds; cheaper than to read them."""
        edges = self.bus.offsets([f"{self.prefix}{topic}"]).values()
        return sum(end - begin for begin, end in edges)

    def output(self, topic: str) -> list[ConsumerRecord]:
        """What a pipeline has written into `trial.<topic>`."""
        return self.read([f"{self.prefix}trial.{topic}"])
