"""A real job reads its log again as it is asked to: at its beginning, with snapshots, without."""

from __future__ import annotations

import hashlib
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import confluent_kafka as ck
import pytest
from confluent_kafka.admin import AdminClient

from bus.base import ConsumerRecord, TopicPartition
from domain.bounds import Bound, applied_time
from domain.fold import Bucket
from domain.records import DeadLetter, Report, ScenarioChange, StateRecord
from streaming.state.buckets import BucketId
from support.histories.judge import MARKER
from support.histories.sharedlog import VIRTUAL_TIME
from support.run.stack import EmbeddedBroker, wait_until
from support.spark.jobs import SCENARIOS, Job, Load
from wire.job import (
    Control,
    Heartbeat,
    JobAnswer,
    QueryReport,
    decode_heartbeat,
    decode_progress,
    encode,
)
from wire.partitioner import partition_of
from wire.sink import encode_headers, encode_state
from wire.snapshot import Emitted, dump_snapshot
from wire.source import decode_placed, decode_source, encode_report

pytestmark = [pytest.mark.timeout(480), pytest.mark.slow]

Logs = dict[TopicPartition, list[ConsumerRecord]]
ShownRecords = dict[tuple[str, str], tuple[bytes | None, tuple[tuple[str, bytes], ...]]]
"""By topic and asset: value and headers."""


@pytest.fixture
def job(
    make_job: Callable[..., Job], engine: str, place: str, request: pytest.FixtureRequest
) -> Job:
    """A job with its checkpoints in a place."""
    made = make_job(engine=engine)
    if place == "hdfs":
        made.checkpoint = f"{request.getfixturevalue('hdfs').url}/{made.prefix}"
    return made


def query_reports(job: Job) -> list[QueryReport]:
    return [decode_progress(m.value) for m in job.read([job.topics.progress])]


def answers(job: Job, id_: str) -> list[JobAnswer]:
    return [p.answer for p in query_reports(job) if p.answer and p.answer.id == id_]


def ask(job: Job, id_: str, action: Any, query: str, parameters: dict[str, Any]) -> None:
    """Ask for something, and wait until it is taken on."""
    record = Control(id_, query, action, "ada", "a drill", parameters)
    job.bus.producer().send_and_wait(job.topics.control, query.encode(), encode(record))
    wait_until(lambda: answers(job, id_), 30, f"{action} is not answered, see {job.log}")


def wait_for(job: Job, id_: str) -> JobAnswer:
    """Wait until what was asked has been answered for good."""
    settled = lambda: [a for a in answers(job, id_) if a.outcome != "accepted"]  # noqa: E731
    wait_until(settled, 120, f"{id_} is not done, see {job.log}")
    return settled()[-1]


def logs(job: Job) -> Logs:
    """Return what the source topics hold, by partition."""
    messages: Logs = {}
    for message in job.read(map(job.topics.reports, job.scenarios())):
        messages.setdefault((message.topic, message.partition), []).append(message)
    return messages


def emitted(job: Job, log: list[ConsumerRecord]) -> tuple[Bucket, list[tuple[int, Emitted]]]:
    """The plain fold over a partition's log from its beginning, and all it emitted, with where."""
    records = (decode_source(None, m.value, m.timestamp) for m in log if m.key is None)
    first = next(r.scenario for r in records if isinstance(r, ScenarioChange))
    bucket = Bucket(first, log[0].partition, 1)
    return bucket, folded(job, bucket, log)


def folded(job: Job, bucket: Bucket, log: list[ConsumerRecord]) -> list[tuple[int, Emitted]]:
    """All that a bucket emits over these records, with where."""
    partitions, emissions = job.scenarios()[bucket.scenario.name].partitions, []
    for m in log:
        record = decode_placed(
            m.key, m.value, m.timestamp, bucket.partition, partitions, headers=m.headers
        )
        outs = bucket.apply(record, m.offset, m.timestamp)
        emissions += [(m.offset, out) for out in outs if not isinstance(out, DeadLetter)]
    return emissions


def shown(job: Job) -> ShownRecords:
    """The newest of each asset in the states topics, by version."""
    newest: dict[tuple[str, str], ConsumerRecord] = {}
    for message in job.read(map(job.topics.states, job.scenarios())):
        place = (message.topic, (message.key or b"").decode())
        if place not in newest or version(message) > version(newest[place]):
            newest[place] = message
    return {place: (message.value, message.headers) for place, message in newest.items()}


def version(message: ConsumerRecord) -> list[int]:
    return [int(part) for part in dict(message.headers)["version"].split(b".")]


def check(job: Job, shown_records: ShownRecords, whole: Logs, epoch: int) -> None:
    """What was shown is what the fold last emitted, all of it in this epoch.

    That was somewhere behind the last markers: so far the job must have come.
    """
    shown_records = dict(shown_records)
    for (topic, _), log in whole.items():
        states = job.topics.states(job.topics.scenario_of(topic) or "")
        for asset, allowed_records in allowed(
            emitted(job, log)[1], last_marker(log), epoch
        ).items():
            assert shown_records.pop((states, asset)) in allowed_records, asset
    assert not shown_records


def last_marker(log: list[ConsumerRecord]) -> int:
    return max(m.offset for m in log if (m.key or b"").startswith(MARKER))


def allowed(outs: list[tuple[int, Emitted]], marker: int, epoch: int) -> dict[str, list[Any]]:
    """By asset, what may be shown: the last of these up to the marker, or any one after it."""
    wanted: dict[str, list[Any]] = {}
    for offset, record in outs:
        there = replace(record, version=record.version._replace(epoch=epoch))
        value = encode_state(there) if isinstance(there, StateRecord) else None
        before = wanted.setdefault(there.asset, []) if offset > marker else []
        wanted[there.asset] = [*before, (value, encode_headers(there))]
    return wanted


def check_forgetful(job: Job, before: Logs, now: Logs, firsts: dict[str, Any], epoch: int) -> int:
    """Return what is shown of a bucket that began without state: the fold from there on, from none.

    What it knows nothing of stands as the epoch before left it, behind the markers of then. Returns
    of how many assets that is so.
    """
    shown_records, left = shown(job), 0
    for (topic, partition), log in now.items():
        name = job.topics.scenario_of(topic) or ""
        first = firsts[f"{name}/{partition}"]["offset"]
        outs = folded(
            job,
            Bucket(job.scenarios()[name], partition, epoch),
            [m for m in log if m.offset >= first],
        )
        known = allowed(outs, last_marker(log), epoch)
        forgotten = allowed(emitted(job, log)[1], last_marker(before[topic, partition]), epoch - 1)
        for asset, allowed_records in (forgotten | known).items():
            assert shown_records.pop((job.topics.states(name), asset)) in allowed_records, asset
        left += len(forgotten.keys() - known.keys())
    assert not shown_records
    return left


def ends(job: Job) -> dict[str, int]:
    """By bucket, the next offset of its log."""
    topics = map(job.topics.reports, job.scenarios())
    return {
        f"{job.topics.scenario_of(topic)}/{at}": end
        for (topic, at), (_, end) in job.bus.offsets(topics).items()
    }


def stop(process: Any) -> None:
    process.terminate()
    assert process.wait(10) == 0


def snapshot(job: Job, whole: Logs) -> dict[str, Any]:
    """Keep the fold over these logs as the worker does; returns where a rebuild is to begin."""
    folder = job.data_dir / "snapshots"
    folder.mkdir(exist_ok=True)
    buckets = {}
    for (topic, partition), log in whole.items():
        bucket, emissions = emitted(job, log)
        data = dump_snapshot(bucket, {record.asset: record for _, record in emissions})
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


@pytest.mark.extensive(
    guard="tests/integration/spark/test_state_rebuild.py::test_a_clock_that_was_ahead_is_got_over"
)
@pytest.mark.parametrize("place", ["disk", "hdfs"])
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
    check(job, shown(job), logs(job), 2)

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
    shown_records = shown(job)  # and the logs afterwards: the job goes on meanwhile
    before = {at: kept[at] + log for at, log in logs(job).items()}
    check(job, shown_records, before, 3)

    # a reset begins in mid-log with no state: what it knows nothing of stays on the boards
    places = {name: {"offset": end} for name, end in ends(job).items()}
    load.send(15)
    ask(job, "bare", "reset", engine, {"buckets": places})
    assert wait_for(job, "bare").outcome == "done"
    load.send(15)
    load.finish()
    stop(process)
    now = {at: kept[at] + log for at, log in logs(job).items()}
    assert check_forgetful(job, before, now, places, 4) > 5
    beats = [decode_heartbeat(m.value) for m in job.read([job.topics.buckets])]
    assert {beat.epoch for beat in beats} == {1, 2, 3, 4}
    steps = [a.step for a in answers(job, "seeded") if a.step]
    assert steps[-1].done == steps[-1].of > 0
    if job.checkpoint is None:
        left = (job.data_dir / "checkpoint" / engine).glob("epoch-*")
        assert sorted(path.name for path in left) == ["epoch-3", "epoch-4"]


# ---- a broker's clock that was ahead ----------------------------------------------------------

DAY = 86_400_000
ASSET = "shop.example"
BUCKET = BucketId("sites", partition_of(ASSET.encode(), 2))


@pytest.fixture
def virtual(broker: EmbeddedBroker, tmp_path: Path) -> Iterator[Job]:
    """A configured job whose records may bring their own append times."""
    made = Job(broker, tmp_path / "job", "bounded.", "kernel", batch_s=5)
    made.source_config = VIRTUAL_TIME
    made.configure(SCENARIOS)
    yield made
    made.clean_up()


def now() -> int:
    """Unix time, ms."""
    return int(time.time() * 1000)


def report(job: Job, agent: str, state: str, at: int) -> None:
    """Append a report with this append time (ms)."""
    producer = ck.Producer({"bootstrap.servers": job.broker.bootstrap})
    value = encode_report(Report(ASSET, agent, state, min(at, now())))
    topic = job.topics.reports(BUCKET.scenario)
    producer.produce(topic, value, ASSET, partition=BUCKET.partition, timestamp=at)
    assert producer.flush(20) == 0


def newest_beat(job: Job) -> Heartbeat | None:
    """The bucket's newest heartbeat."""
    beats = [decode_heartbeat(m.value) for m in job.read([job.topics.buckets])]
    return next((beat for beat in reversed(beats) if beat.bucket == str(BUCKET)), None)


def is_ahead(job: Job) -> bool:
    """Whether the bucket's newest heartbeat tells of a clock that is hours ahead of the job's."""
    beat = newest_beat(job)
    return beat is not None and beat.log_time - beat.at > DAY // 2


def folded_bounded(job: Job, bounds: Sequence[Bound], epoch: int) -> list[StateRecord]:
    """Return what the plain fold emits of the asset over the bucket's log, under these bounds."""
    log = logs(job)[job.topics.reports(BUCKET.scenario), BUCKET.partition]
    records = [
        decode_placed(m.key, m.value, m.timestamp, BUCKET.partition, 2, headers=m.headers)
        for m in log
    ]
    first = next(r.scenario for r in records if isinstance(r, ScenarioChange))
    bucket, state_records = Bucket(first, BUCKET.partition, epoch), []
    for m, record in zip(log, records, strict=True):
        at = applied_time(bounds, m.offset, m.timestamp, bucket.clock)
        state_records += [
            out for out in bucket.apply(record, m.offset, at) if isinstance(out, StateRecord)
        ]
    return [out for out in state_records if out.asset == ASSET]


def test_a_clock_that_was_ahead_is_got_over(virtual: Job) -> None:
    job = virtual
    process = job.start()
    wait_until(lambda: newest_beat(job), 60, f"no heartbeat, see {job.log}")
    for agent in ("w1", "w2", "w3"):
        report(job, agent, "attack", now())
    report(job, "w1", "attack", now() + DAY)
    wait_until(lambda: is_ahead(job), 30, "the heartbeat does not tell that the clock is ahead")

    bound = now()
    ask(job, "bounded", "rebuild", "kernel", {"bounds": {str(BUCKET): bound}})
    assert wait_for(job, "bounded").outcome == "done"
    epoch_2 = lambda: (beat := newest_beat(job)) is not None and beat.epoch == 2  # noqa: E731
    wait_until(epoch_2, 60, "no heartbeat of the new epoch")
    assert not is_ahead(job)

    # Time passes again: the votes fall silent by their lifetime of three seconds.
    def fell_silent() -> bool:
        value = shown(job).get((job.topics.states("sites"), ASSET), (None, ()))[0]
        return value is not None and value.count(b'"silent":') == 3

    wait_until(fell_silent, 30, "the votes do not fall silent")
    stop(process)
    bounds = next(p.bounds for p in reversed(query_reports(job)) if p.bounds)[str(BUCKET)]
    assert bounds[0][0] == bound
    shown_record = shown(job)[job.topics.states(BUCKET.scenario), ASSET]
    wanted = [(encode_state(out), encode_headers(out)) for out in folded_bounded(job, bounds, 2)]
    assert shown_record in wanted[-12:]  # the log may have gone on after the job, by reminders
    assert shown_record[0] is not None
    assert b'"state":"attack"' in shown_record[0]
