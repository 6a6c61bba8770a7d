"""A real job reads its log again as it is asked to: from the beginning, and from a snapshot."""

from __future__ import annotations

import hashlib
import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import confluent_kafka as ck
import pytest
from confluent_kafka.admin import AdminClient
from jobs import SCENARIOS, Job, Load
from judging import MARKER

from bus.base import Message, TopicPartition
from domain.fold import Bucket
from domain.records import DeadLetter, ScenarioChange, StateRecord
from stack import EmbeddedBroker, wait_until
from wire.job import Answer, Control, Progress, decode_heartbeat, decode_progress, encode
from wire.sink import encode_headers, encode_state
from wire.snapshot import Emitted, dump_snapshot
from wire.source import decode_placed

pytestmark = [pytest.mark.timeout(480), pytest.mark.slow]

Logs = dict[TopicPartition, list[Message]]
Told = dict[tuple[str, str], tuple[bytes | None, tuple[tuple[str, bytes], ...]]]
"""By topic and asset: value and headers."""


@pytest.fixture
def job(broker: EmbeddedBroker, tmp_path: Path, engine: str) -> Iterator[Job]:
    """A configured job, not yet started."""
    made = Job(broker, tmp_path / "job", f"rebuild-{engine}.", engine, batch_s=5)
    made.configure(SCENARIOS)
    yield made
    made.clean_up()


def told(job: Job) -> list[Progress]:
    return [decode_progress(m.value) for m in job.read([job.topics.progress])]


def answers(job: Job, id_: str) -> list[Answer]:
    return [p.answer for p in told(job) if p.answer and p.answer.id == id_]


def ask(job: Job, id_: str, action: Any, query: str, parameters: dict[str, Any]) -> None:
    """Ask for something, and wait until it is taken on."""
    record = Control(id_, query, action, "ada", "a drill", parameters)
    job.bus.producer().send_and_wait(job.topics.control, query.encode(), encode(record))
    wait_until(lambda: answers(job, id_), 30, f"{action} is not answered, see {job.log}")


def wait_for(job: Job, id_: str) -> Answer:
    """Wait until what was asked has been answered for good."""
    settled = lambda: [a for a in answers(job, id_) if a.outcome != "accepted"]  # noqa: E731
    wait_until(settled, 120, f"{id_} is not done, see {job.log}")
    return settled()[-1]


def logs(job: Job) -> Logs:
    """What the source topics hold, by partition."""
    found: Logs = {}
    for message in job.read(map(job.topics.reports, job.scenarios())):
        found.setdefault((message.topic, message.partition), []).append(message)
    return found


def emitted(job: Job, log: list[Message]) -> tuple[Bucket, list[tuple[int, Emitted]]]:
    """The plain fold over a partition's log from its beginning, and all it emitted, with where."""
    scenario = job.scenarios()[job.topics.scenario_of(log[0].topic) or ""]
    at = log[0].partition
    records = [decode_placed(m.key, m.value, m.timestamp, at, scenario.partitions) for m in log]
    first = next(r.scenario for r in records if isinstance(r, ScenarioChange))
    bucket, found = Bucket(first, at, 1), []
    for message, record in zip(log, records, strict=True):
        outs = bucket.apply(record, message.offset, message.timestamp)
        found += [(message.offset, out) for out in outs if not isinstance(out, DeadLetter)]
    return bucket, found


def shown(job: Job) -> Told:
    """The newest of each asset in the states topics, by version."""
    found: dict[tuple[str, str], Message] = {}
    for message in job.read(map(job.topics.states, job.scenarios())):
        place = (message.topic, (message.key or b"").decode())
        if place not in found or version(message) > version(found[place]):
            found[place] = message
    return {place: (message.value, message.headers) for place, message in found.items()}


def version(message: Message) -> list[int]:
    return [int(part) for part in dict(message.headers)["version"].split(b".")]


def check(job: Job, whole: Logs, epoch: int) -> None:
    """What is shown is what the fold last emitted, all of it in this epoch.

    The job was stopped somewhere behind the last markers: so far it must have come.
    """
    found = shown(job)
    for (topic, _), log in whole.items():
        states = job.topics.states(job.topics.scenario_of(topic) or "")
        marker = max(m.offset for m in log if (m.key or b"").startswith(MARKER))
        wanted: dict[str, list[Any]] = {}
        for offset, record in emitted(job, log)[1]:
            there = replace(record, version=record.version._replace(epoch=epoch))
            value = encode_state(there) if isinstance(there, StateRecord) else None
            before = wanted.setdefault(there.asset, []) if offset > marker else []
            wanted[there.asset] = [*before, (value, encode_headers(there))]
        for asset, told in wanted.items():
            assert found.pop((states, asset)) in told, asset
    assert not found


def stop(process: Any) -> None:
    process.terminate()
    assert process.wait(10) == 0


def snapshot(job: Job, whole: Logs) -> dict[str, Any]:
    """Keep the fold over these logs as the worker does; returns where a rebuild is to begin."""
    folder = job.data_dir / "snapshots"
    folder.mkdir(exist_ok=True)
    buckets = {}
    for (topic, partition), log in whole.items():
        bucket, told = emitted(job, log)
        data = dump_snapshot(bucket, {record.asset: record for _, record in told})
        name = f"{job.topics.scenario_of(topic)}-{partition}-{log[-1].offset + 1}.fold"
        (folder / name).write_bytes(data)
        digest = hashlib.sha256(data).hexdigest()
        place = {"offset": log[-1].offset + 1, "snapshot": name, "digest": digest}
        buckets[f"{job.topics.scenario_of(topic)}/{partition}"] = place
    return {"buckets": buckets}


def delete_before(job: Job, places: dict[str, Any]) -> None:
    """Let the log's beginning go, as retention does."""
    ends = [
        ck.TopicPartition(
            job.topics.reports(name.split("/")[0]), int(name.split("/")[1]), place["offset"]
        )
        for name, place in places["buckets"].items()
    ]
    admin = AdminClient({"bootstrap.servers": job.broker.bootstrap})
    for future in admin.delete_records(ends).values():
        future.result(20)


@pytest.mark.parametrize("engine", ["kernel", "python"])
def test_the_log_is_read_again(job: Job, engine: str) -> None:
    process = job.start()
    load = Load(job, 31)
    load.send(600)
    load.finish()

    ask(job, "whole", "rebuild", engine, {})
    os.killpg(process.pid, signal.SIGKILL)  # wherever it is
    process.wait()
    process = job.start()
    assert wait_for(job, "whole").outcome == "done"
    load.send(100)
    load.finish()
    stop(process)
    check(job, logs(job), 2)

    kept = logs(job)
    places = snapshot(job, kept)
    delete_before(job, places)
    process = job.start()
    load.send(200)
    load.finish()
    ask(job, "lost", "rebuild", engine, {})
    assert "expected one, as the log does not begin there" in wait_for(job, "lost").why
    ask(job, "seeded", "rebuild", engine, places)
    assert wait_for(job, "seeded").outcome == "done"
    load.send(100)
    load.finish()
    stop(process)
    check(job, {at: kept[at] + log for at, log in logs(job).items()}, 3)
    beats = [decode_heartbeat(m.value) for m in job.read([job.topics.buckets])]
    assert {beat.epoch for beat in beats} == {1, 2, 3}
    steps = [a.step for a in answers(job, "seeded") if a.step]
    assert steps[-1].done == steps[-1].of > 0
    assert sorted(p.name for p in (job.data_dir / "checkpoint" / engine).glob("epoch-*")) == [
        "epoch-2",
        "epoch-3",
    ]
