"""`/healthz` and `/readyz`: ready is what shows, and what is missing has a name."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.management import call_command
from django.db import OperationalError, connection
from django.test import Client

from bus.base import NotPermitted
from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.times import now_ms
from dashboard.core.job.ingestion import ingest_progress
from dashboard.core.job.liveness import Signs
from dashboard.core.job.models import BucketStatus, JobProgress
from dashboard.core.states.models import SinkOffset
from dashboard.serve.api import health
from support.web.heartbeats import heartbeat, store
from wire.job import ClockBehind, QueryReport

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("impatient")]


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A materialiser that is behind is not waited for."""
    monkeypatch.setattr(health, "CATCH_UP_S", 0)


def heartbeats(log_time: int) -> None:
    """Every bucket has been heard of, and has reached `log_time` (ms)."""
    for scenario in scenarios().values():
        for partition in range(scenario.partitions):
            store(heartbeat(log_time, scenario.name, partition, engine="python"))


def ready() -> tuple[int, list[str]]:
    response = Client().get("/readyz")
    body: dict[str, Any] = response.json()
    assert body["ready"] == (response.status_code == 200)
    return response.status_code, body["missing"]


def change(bus: Any, partition: int = 0) -> None:
    """A state record that the database has not seen yet."""
    bus.producer().send_and_wait(bus.topics.states("attack"), b"shop", b"{}", partition=partition)


def test_the_process_is_up_without_anything_else(bus):
    bus.bus.stop()
    assert Client().get("/healthz").status_code == 200


def test_what_kafka_refuses_is_named_before_all_that_follows_from_it(bus, monkeypatch):
    signs, why = Signs(), "Kafka refuses the login (no): check TALLYBOARD_KAFKA_PASSWORD"
    monkeypatch.setattr(health, "process_signs", lambda: signs)
    heartbeats(now_ms())
    assert ready() == (200, [])
    signs.refused(why, now_ms())
    assert ready() == (503, [f"kafka: {why}"])
    BucketStatus.objects.all().delete()
    status, missing = ready()
    assert (status, missing[0]) == (503, f"kafka: {why}")
    assert any("has not reported" in each for each in missing[1:])


def test_a_refused_topic_is_named_where_kafka_is_asked(bus, monkeypatch):
    def refuse(*_: object, **__: object) -> None:
        raise NotPermitted("Kafka refuses the topic attack.states")

    heartbeats(now_ms())
    monkeypatch.setattr(bus.bus, "offsets", refuse)
    assert ready() == (503, ["kafka: Kafka refuses the topic attack.states"])


def test_not_before_each_bucket_has_been_heard_of(bus):
    status, missing = ready()
    assert status == 503
    assert len(missing) == sum(scenario.partitions for scenario in scenarios().values())
    assert missing[0] == "bucket attack/0: the job has not reported yet"
    heartbeats(now_ms())
    assert ready() == (200, [])


def tell(status: str, message: str = "", query: str = "python") -> None:
    JobProgress.objects.create(query=query, at=now_ms(), status=status, epoch=1, message=message)


def test_a_query_that_failed_is_told_at_once_and_its_return_too(bus):
    heartbeats(now_ms())
    tell("running")
    assert ready() == (200, [])
    error = "StreamingQueryException: [STREAM_FAILED] Query [id = 1] failed: shop.example is bad"
    tell("restarting", f"in 1 s: {error}")
    assert ready() == (503, ["query python: restarting: StreamingQueryException: [STREAM_FAILED]"])
    tell("failed", "Spark's JVM ended with 3")
    assert ready() == (503, ["query python: failed: Spark's JVM ended with 3"])
    tell("waiting", "the data directory cannot be written (OSError: /srv/tallyboard: no)")
    assert ready() == (503, ["query python: waiting: the data directory cannot be written"])
    tell("starting")
    assert ready() == (503, ["query python: starting"])
    tell("catching-up")
    assert ready() == (200, [])
    tell("failed", query="kernel")  # it carries nothing here any more
    assert ready() == (200, [])


def stop(query: str, at: int) -> None:
    """The job told that it was asked to stop a query."""
    JobProgress.objects.create(
        query=query, at=at, status="stopped", epoch=1, since=at - 60_000, stopped_by="ada",
        stopped_reason="maintenance\x1b[2J",
    )  # fmt: skip


def resting() -> dict[str, int]:
    queries: dict[str, int] = Client().get("/readyz").json()["resting"]
    return queries


def test_a_stop_on_purpose_is_told_apart(bus):
    now = now_ms()
    heartbeats(now - 60_000)
    assert resting() == {}
    stop("python", now)
    status, missing = ready()
    assert (status, missing[0]) == (503, "query python: was stopped, see the job's page")
    assert resting() == {"python": now}
    change(bus)
    assert resting() == {}, "the board does not show all that was tallied"


def test_a_stop_is_told_at_once(bus):
    heartbeats(now_ms())
    stop("python", now_ms())
    assert ready() == (503, ["query python: was stopped, see the job's page"])


def test_what_another_query_owes_is_no_rest(bus):
    now = now_ms()
    heartbeats(now - 60_000)
    JobProgress.objects.create(query="kernel", at=now, status="running", epoch=1)
    stop("python", now)
    assert resting() == {"python": now}
    BucketStatus.objects.filter(bucket="orders/2").update(engine="kernel")
    assert resting() == {}
    BucketStatus.objects.filter(bucket="orders/2").update(log_time=now, at=now)
    assert resting() == {"python": now}


def test_a_scenario_that_was_never_heard_of_rests_where_the_whole_job_does(bus):
    stop("python", at := now_ms())
    assert resting() == {"python": at}


def test_who_stopped_it_is_listed_for_a_terminal(bus, capsys: pytest.CaptureFixture[str]):
    call_command("stopped")
    assert capsys.readouterr().out == ""
    heartbeats(now_ms())
    stop("python", 1_790_000_060_000)
    call_command("stopped")
    assert capsys.readouterr().out == (
        "python (Attacks, Clients, Connectivity, Customers, Orders) was stopped by ada on "
        "2026-09-21 14:13:20 UTC: maintenance\ufffd[2J\n"
    )


def test_one_bucket_that_stands_still_is_named(bus):
    heartbeats(now_ms())
    BucketStatus.objects.filter(bucket="orders/2").update(log_time=now_ms() - 12_000)
    status, (missing,) = ready()
    assert status == 503
    assert missing == "bucket orders/2: 12 s behind"


def test_a_brokers_clock_that_is_behind_is_named_until_it_is_right(bus):
    heartbeats(now := now_ms())
    BucketStatus.objects.filter(bucket="orders/2").update(log_time=now - 12_000)
    behind = {"orders/2": ClockBehind(599_997, now - 12_000)}
    ingest_progress([QueryReport("python", now, "running", 1, clocks_behind=behind)])
    assert ready() == (503, ["bucket orders/2: the broker's clock is 600 s behind"])
    BucketStatus.objects.filter(bucket="orders/2").update(log_time=now)
    ingest_progress([QueryReport("python", now, "running", 1)])
    assert ready() == (200, [])


def test_ten_seconds_are_fresh_enough(bus):
    heartbeats(now_ms() - 9_000)
    assert ready() == (200, [])


def test_changes_that_the_board_does_not_show_are_named(bus):
    heartbeats(now_ms())
    change(bus)
    change(bus, partition=1)
    SinkOffset.objects.create(topic="attack.states", partition=1, next_offset=1)
    status, (missing,) = ready()
    assert status == 503
    assert missing == "materialiser: attack.states/0 at 0 of 1"
    SinkOffset.objects.create(topic="attack.states", partition=0, next_offset=1)
    assert ready() == (200, [])


def test_a_materialiser_that_is_seconds_behind_is_waited_for(bus, monkeypatch: pytest.MonkeyPatch):
    heartbeats(now_ms())
    change(bus)
    looks: list[dict[tuple[str, int], int]] = [{}, {}, {("attack.states", 0): 1}]
    monkeypatch.setattr(health, "CATCH_UP_S", 60)
    monkeypatch.setattr(health, "POLL_S", 0)
    monkeypatch.setattr(health, "sink_offsets", lambda: looks.pop(0))
    assert ready() == (200, [])
    assert looks == []


def test_without_a_broker(bus):
    heartbeats(now_ms())
    bus.bus.stop()
    assert ready() == (503, ["kafka: does not answer"])


def test_without_a_database(bus, monkeypatch: pytest.MonkeyPatch):
    def gone() -> None:
        raise OperationalError("no such host")

    monkeypatch.setattr(connection, "ensure_connection", gone)
    assert ready() == (503, ["database: does not answer"])
