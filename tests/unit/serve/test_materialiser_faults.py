"""What goes wrong around the materialiser, and what stands in the sink that should not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.db import DataError, OperationalError

from bus.follower import PAUSES_S, Follower
from dashboard.core.job.models import BucketStatus, JobProgress
from dashboard.core.states.models import AssetState, EventCount, SinkOffset
from dashboard.core.states.queries import sink_offsets
from dashboard.serve.materialiser import worker as materialiser_worker
from dashboard.serve.materialiser.worker import Materialiser
from dashboard.watch.commands.models import Command as Row
from domain.records import Command, Report
from domain.scenario_parser import load_scenarios
from support.kafka.counted_stop import CountedStop
from support.kafka.sinks import PlayedJob
from support.web.heartbeats import heartbeat
from wire.job import QueryReport, encode
from wire.sink import encode_headers, encode_state, state_of_json

pytestmark = pytest.mark.django_db
SCENARIOS = load_scenarios(Path(__file__).parents[3] / "scenarios.toml")
ID = "0b8f7e0c-51a3-4f0e-9d3e-6a8a3a1f2c55"
NOW = 1_790_000_000_000


@pytest.fixture
def job(job: PlayedJob) -> PlayedJob:
    """A played job with one order reported."""
    job.put("orders", Report("order-1", "station-1", "received"))
    job.run()
    return job


@pytest.fixture
def worker(job: PlayedJob) -> Materialiser:
    """A materialiser that has read nothing yet."""
    return Materialiser(job.bus, job.topics, SCENARIOS, lambda: NOW)


def drain(worker: Materialiser) -> None:
    while worker.step():
        pass


def counted(name: str, topic: str = "") -> int:
    """Return what the database has of it."""
    return sum(EventCount.objects.filter(name=name, topic=topic).values_list("n", flat=True))


def test_it_goes_on_after_a_lost_broker(job, worker):
    job.bus.stop()
    stop = CountedStop(4)
    real, job.bus.ensure_topics = job.bus.ensure_topics, lambda *_, **__: job.bus.wait(0)
    Follower(worker, stop).run()
    assert stop.asked == list(PAUSES_S[:4])
    job.bus.ensure_topics = real
    job.bus.start()
    Follower(worker, CountedStop(1)).run()
    assert AssetState.objects.get().asset == "order-1"
    assert counted("faults") == 4


def test_it_goes_on_after_a_locked_database(job, worker, monkeypatch):
    real, faults = materialiser_worker.write, iter([OperationalError("database is locked")] * 2)

    def write(*arguments):
        for fault in faults:
            raise fault
        real(*arguments)

    monkeypatch.setattr(materialiser_worker, "write", write)
    stop = CountedStop(4)
    Follower(worker, stop).run()
    assert stop.asked[:3] == [
        PAUSES_S[0],
        PAUSES_S[1],
        materialiser_worker.PACE_S,
    ]
    assert AssetState.objects.get().asset == "order-1"
    assert counted("faults") == 2


def test_what_is_read_is_counted_with_it_and_by_another_process_on(job, worker, monkeypatch):
    topic = job.topics.states("orders")
    drain(worker)
    assert counted("records", topic) == 1
    job.put("orders", Report("order-1", "station-1", "shipped"))
    job.run()
    with monkeypatch.context() as patch:
        patch.setattr("dashboard.serve.materialiser.writer.advance_offsets", lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            worker.step()
    assert counted("records", topic) == 1
    another = Materialiser(job.bus, job.topics, SCENARIOS, lambda: NOW)
    drain(another)
    assert counted("records", topic) == 2
    assert counted("batches") == 0  # of which the one that is over is told with the next
    job.put("orders", Report("order-1", "station-1", "received"))
    job.run()
    drain(another)
    assert (counted("records", topic), counted("batches")) == (3, 1)
    assert 0 < counted("batch-us") < 60_000_000


def test_a_sink_that_no_longer_holds_what_comes_next_is_counted(job, worker):
    drain(worker)
    worker.close()
    topic = job.topics.states("orders")
    for state in ("picking", "packing"):
        job.put("orders", Report("order-1", "station-1", state))
    job.run()
    for (_, partition), (_, end) in job.bus.offsets([topic]).items():
        job.bus.truncate(topic, partition, end - 1)
    drain(worker)
    assert counted("gaps", topic) == 1
    assert AssetState.objects.get().state == "packing"


def test_it_stops_when_told(worker):
    stop = CountedStop(1)
    stop.set()
    Follower(worker, stop).run()
    assert AssetState.objects.count() == 0


def bent(text: str, *changes: tuple[str, str]) -> bytes:
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text.encode()


BENDS = [
    (b"order-1", [('"since":1790000', '"since":-90000')]),
    (b"order-1", [('"since":1790000', '"since":99999999999990000')]),
    (b"order-1", [('"since":', '"since":true,"x":')]),
    (b"order-1", [('"state":"received"', '"state":["received"]')]),
    (b"order-1", [('"state":"received"', f'"state":"{"x" * 65}"')]),
    (b"order-1", [('"state":"received"', '"state":"a\\u0000b"')]),
    (b"order-1", [('"type":"report"', f'"type":"{"x" * 21}"')]),
    (b"order-1", [('"votes":[', '"votes":[7,')]),
    (b"order-1", [('"version":"1.', '"version":"9999999.')]),
    (b"order-1", [('"version":"1.', '"version":"1.1.')]),
    (b"order-1", [('"answer":null', '"answer":{"command":"x","outcome":"applied"}')]),
    (b"order-2", []),
    (b"\xff", []),
    (None, []),
    (b"order-1", [('"unconfirmed":false', '"unconfirmed":"no"')]),
]


@pytest.mark.parametrize(("key", "changes"), BENDS)
def test_what_no_column_takes_is_refused_and_stops_nothing(job, worker, key, changes):
    drain(worker)
    before = AssetState.objects.values().get()
    topic = job.topics.states("orders")
    assert counted("unreadable", topic) == 0
    value = bent(before["record"], *changes)
    place = job.producer.send_and_wait(topic, key, value, partition=before["partition"])
    drain(worker)
    assert AssetState.objects.values().get() == before
    assert counted("unreadable", topic) == 1
    assert sink_offsets()[topic, place.partition] == place.offset + 1


def test_a_tombstone_without_headers_is_refused(job, worker):
    job.producer.send_and_wait(job.topics.states("orders"), b"order-1", None)
    drain(worker)
    assert not AssetState.objects.get().purged


def test_what_the_database_alone_refuses_is_refused_alone(job, worker, monkeypatch):
    job.put("orders", Report("order-bad", "station-1", "received"))
    job.put("orders", Report("order-2", "station-1", "received"))
    job.run()
    real = materialiser_worker.write

    def write(batch, scenarios, now):
        if ("orders", "order-bad") in batch.states:
            raise DataError("out of range")
        real(batch, scenarios, now)

    monkeypatch.setattr(materialiser_worker, "write", write)
    drain(worker)
    assert counted("unreadable", job.topics.states("orders")) == 1
    assert counted("records", job.topics.states("orders")) == 3
    assert set(AssetState.objects.values_list("asset", flat=True)) == {"order-1", "order-2"}
    ends = job.bus.offsets([job.topics.states("orders")])
    assert all(sink_offsets().get(place, 0) == end for place, (_, end) in ends.items())


def beat(**changes: Any) -> bytes:
    return encode(heartbeat(5, **{"offset": 50, "engine": "python"} | changes))


@pytest.mark.parametrize("together", [True, False])
def test_heartbeats_told_again_do_not_turn_back(job, worker, together):
    drain(worker)
    for changes in ({"offset": 60}, {"offset": 55}, {"epoch": 0, "offset": 99}):
        job.producer.send_and_wait(job.topics.buckets, b"attack/0", beat(**changes))
        if not together:
            drain(worker)
    drain(worker)
    assert BucketStatus.objects.get(bucket="attack/0").offset == 60
    job.producer.send_and_wait(job.topics.buckets, b"attack/0", beat(epoch=2, offset=1))
    drain(worker)
    assert BucketStatus.objects.get(bucket="attack/0").offset == 1


@pytest.mark.parametrize("changes", [{"bucket": "x" * 61}, {"host": "a\0b"}, {"offset": 2**63}])
def test_a_heartbeat_that_no_column_takes_is_refused(job, worker, changes):
    job.producer.send_and_wait(job.topics.buckets, b"x", beat(**changes))
    drain(worker)
    assert BucketStatus.objects.count() == len(job.buckets)
    assert not BucketStatus.objects.filter(host="a\0b").exists()


def test_of_the_jobs_progress_the_newest_is_kept(job, worker, monkeypatch):
    monkeypatch.setattr("dashboard.core.job.ingestion.PROGRESS_KEPT", 5)
    for n in range(20):
        progress = QueryReport("tally", n, "running", 1, f"batch {n}", 0, {"batchId": n})
        job.producer.send_and_wait(job.topics.progress, b"tally", encode(progress))
    drain(worker)
    kept = JobProgress.objects.order_by("-id")
    assert [row.at for row in kept] == [19, 18, 17, 16, 15]
    assert kept[0].batch == '{"batchId":19}'


def test_an_answer_about_another_asset_settles_no_command(job, worker):
    row = Row.objects.create(
        id=ID, scenario="orders", asset="mine", kind="set", username="o", created_at=1
    )
    job.put("orders", Command("release", "other", ID, "mallory"))
    job.run()
    drain(worker)
    row.refresh_from_db()
    assert row.status == "sending"


def test_a_command_learns_where_it_is_in_the_log(job, worker):
    row = Row.objects.create(
        id=ID, scenario="orders", asset="order-1", kind="purge", username="o", created_at=1
    )
    job.put("orders", Command("purge", "order-1", ID, "olga"))
    job.run()
    drain(worker)
    row.refresh_from_db()
    assert (row.status, row.answered_at) == ("answered", NOW)
    assert row.version[7:26].lstrip("0") == str(row.offset)


def test_a_repeated_command_keeps_its_first_answer(job, worker):
    for _ in range(2):
        job.put("orders", Command("purge", "order-1", ID, "olga"))
        job.run()
        drain(worker)
    purged = AssetState.objects.get()
    assert purged.purged
    assert Row.objects.count() == 0


def test_a_gap_in_the_sink_is_passed_over(job, worker):
    drain(worker)
    topic = job.topics.states("orders")
    record = state_of_json(AssetState.objects.get().record)
    SinkOffset.objects.filter(topic=topic).update(next_offset=999)
    job.producer.send_and_wait(
        topic, b"order-1", encode_state(record), headers=encode_headers(record)
    )
    drain(Materialiser(job.bus, job.topics, SCENARIOS, lambda: NOW))
    ends = job.bus.offsets([topic])
    assert {place: at for place, at in sink_offsets().items() if place[0] == topic} | {
        place: 999 for place, (_, end) in ends.items() if not end
    } == {place: end or 999 for place, (_, end) in ends.items()}
