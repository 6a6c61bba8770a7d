"""The real job does what the console asks: it stops, goes on, takes changed rules over."""

from __future__ import annotations

from typing import Any

import pytest

from support.histories.judge import assert_equal_to_fold
from support.run.stack import wait_until
from support.spark.jobs import SCENARIOS, Job, Load
from wire.job import Control, JobAnswer, QueryReport, decode_progress, encode

pytestmark = [pytest.mark.timeout(480), pytest.mark.slow]

CHANGED = SCENARIOS.replace('clear = "700ms"', 'clear = "100ms"').replace(
    '"open"', '"open"\nmin_voters = 9'
)


def query_reports(job: Job) -> list[QueryReport]:
    return [decode_progress(m.value) for m in job.read([job.topics.progress])]


def ask(job: Job, id_: str, action: Any) -> JobAnswer:
    """Ask for something, and wait until it is answered for good."""
    record = Control(id_, "kernel", action, "ada", "a drill")
    job.bus.producer().send_and_wait(job.topics.control, b"kernel", encode(record))

    def answers() -> list[JobAnswer]:
        job_answers = [p.answer for p in query_reports(job) if p.answer and p.answer.id == id_]
        return [answer for answer in job_answers if answer.outcome != "accepted"]

    wait_until(answers, 60, f"{action} is not answered, see {job.log}")
    return answers()[-1]


def ends(job: Job) -> dict[tuple[str, int], int]:
    """Return how far the job's own topics and its ticks have come."""
    names = [job.topics.buckets, *map(job.topics.reports, job.scenarios())]
    return {place: end for place, (_, end) in job.bus.offsets(names).items()}


def test_stop_start_and_reload(job: Job) -> None:
    process = job.start()
    load = Load(job, 21)
    load.send(300)
    load.finish()

    assert ask(job, "stop", "stop").outcome == "done"
    last = query_reports(job)[-1]
    assert last.status == "stopped"
    assert last.stopped is not None
    assert last.stopped.reason == "a drill"
    standing = ends(job)
    load.send(200)  # it waits in the log
    sent = ends(job)
    assert sent != standing
    others = query_reports(job)
    assert ask(job, "again", "stop").why == "ada had stopped it already"
    assert len(query_reports(job)) == len(others) + 1
    assert ends(job) == sent, "a stopped job writes heartbeats or ticks"

    assert ask(job, "start", "start").outcome == "done"
    load.send(100)
    load.finish()
    sizes = lambda: [p.checkpoint.size for p in query_reports(job) if p.checkpoint]  # noqa: E731
    wait_until(sizes, 60, "nothing is told of the checkpoint")
    assert sizes()[-1] > 1000

    job.scenarios_file.write_text(CHANGED)
    answer = ask(job, "reload", "reload")
    assert (answer.outcome, answer.why) == ("done", "changed: sites, orders")
    load.send(200)
    load.finish()
    process.terminate()
    assert process.wait(10) == 0
    judged = assert_equal_to_fold(job)
    assert judged.rules == 4 + 4
    assert "scenario" in judged.causes
