"""The real job takes a changed rule at its offset, through a restart too, and takes it back."""

from __future__ import annotations

from typing import Any

import pytest

from domain.records import ScenarioChange
from support.histories.judge import assert_equal_to_fold
from support.run.stack import wait_until
from support.spark.jobs import Job, Load
from wire.job import Carried, Control, JobAnswer, decode_progress, encode
from wire.sink import decode_state
from wire.source import decode_source

pytestmark = [pytest.mark.timeout(480), pytest.mark.slow]

KEYS = {"holds": {"clear": "100ms"}, "min_voters": 1, "rule": {"kind": "latest"}}


def carried(job: Job) -> Carried:
    """Return what the job told of the scenario last."""
    carried_scenarios = [decode_progress(m.value).carried for m in job.read([job.topics.progress])]
    return [each for each in carried_scenarios if each and each.scenario == "sites"][-1]


def ask(job: Job, id_: str, keys: dict[str, Any]) -> JobAnswer:
    """Ask for an overlay of the sites, and wait until it is answered for good."""
    parameters = {"scenario": "sites", "keys": keys, "base": carried(job).version}
    record = Control(id_, "kernel", "rule", "ada", "a drill", parameters)
    job.bus.producer().send_and_wait(job.topics.control, b"kernel", encode(record))

    def answers() -> list[JobAnswer]:
        job_answers = [decode_progress(m.value).answer for m in job.read([job.topics.progress])]
        return [a for a in job_answers if a and a.id == id_ and a.outcome != "accepted"]

    wait_until(answers, 60, f"{id_} is not answered, see {job.log}")
    return answers()[-1]


def rules(job: Job, partition: int) -> list[int]:
    """The offsets of the scenario records in a partition of the sites."""
    return [
        m.offset
        for m in job.read([job.topics.reports("sites")])
        if m.partition == partition
        and isinstance(decode_source(m.key, m.value, m.timestamp), ScenarioChange)
    ]


def tallied_at(job: Job) -> set[tuple[int, int]]:
    """Return where the scenario records lie after which a state record came."""
    state_records = [
        decode_state(m.key, m.value) for m in job.read([job.topics.states("sites")]) if m.value
    ]
    causes = (record.cause for record in state_records if record.cause.type == "scenario")
    return {(cause.partition, cause.offset) for cause in causes}


def test_a_rule_is_changed_and_outlives_a_restart(job: Job) -> None:
    process = job.start()
    load = Load(job, 33)
    load.send(400)
    load.finish()
    load.send(100)  # votes that live when the rule comes
    answer = ask(job, "change", KEYS)
    assert (answer.outcome, answer.why[:7]) == ("done", "sites: ")
    offsets = carried(job).offsets
    assert {at: rules(job, at)[-1] for at in (0, 1)} == offsets
    load.send(300)
    load.finish()
    assert tallied_at(job) & set(offsets.items()), "no state was tallied anew where the rule began"

    process.kill()
    process.wait()
    process = job.start()
    load.send(200)
    load.finish()
    assert carried(job).offsets == offsets
    assert carried(job).overlay.user == "ada"
    assert ask(job, "back", {}).outcome == "done"
    load.send(200)
    load.finish()
    process.terminate()
    assert process.wait(10) == 0
    assert [len(rules(job, at)) for at in (0, 1)] == [3, 3]
    judged = assert_equal_to_fold(job)
    assert judged.rules == 2 * 3 + 2
    assert "scenario" in judged.causes
