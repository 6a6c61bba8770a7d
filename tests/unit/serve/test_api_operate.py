"""Partitions, the job and the metrics: what the heartbeats, the log and the counters say."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django_celery_results.models import TaskResult
from prometheus_client import Counter
from prometheus_client.parser import text_string_to_metric_families

from dashboard.core.common import metrics
from dashboard.core.common.scenarios import scenarios, topics
from dashboard.core.common.times import now_ms
from dashboard.core.job.models import BucketStatus, JobProgress
from dashboard.core.states.models import Divergence, FoldSnapshot, SinkOffset
from dashboard.operate.dead_letters.models import DeadLetter
from dashboard.serve.materialiser.worker import Materialiser
from support.web.heartbeats import heartbeat, store

pytestmark = pytest.mark.django_db


def get(path: str, headers: dict[str, str]) -> Any:
    response = Client().get(f"/api/v1/{path}", headers=headers)
    assert response.status_code == 200, response.content
    return response.json()


def beat(partition: int = 0, **more: Any) -> BucketStatus:
    at = now_ms()
    fields = {
        "epoch": 2, "executor": "3", "host": "worker-1", "log_time": at - 4_000, "offset": 6,
        "assets": 12, "timers": 5, "records": 40, "dead_letters": 1, "stale": 2,
    }  # fmt: skip
    return store(heartbeat(at, "attack", partition, **fields), **more)


def fill(bus: Any, topic: str, number: int, partition: int = 0) -> None:
    for _ in range(number):
        bus.producer().send_and_wait(topic, b"shop", b"{}", partition=partition)


# ---- partitions ---------------------------------------------------------------------------------


def test_a_partition_with_its_log_its_bucket_and_its_lag(bus, headers):
    fill(bus, "attack.reports", 10)
    bus.bus.truncate("attack.reports", 0, 4)
    status = beat()
    body = get("partitions", headers)
    assert body["broker"] == "answers"
    rows = {(row["topic"], row["partition"]): row for row in body["partitions"]}
    assert len(rows) == sum(scenario.partitions for scenario in scenarios().values())
    row = rows["attack.reports", 0]
    assert (row["begin"], row["end"], row["offset"], row["lag"]) == (4, 10, 6, 3)
    assert 4 <= row["lag_s"] < 60
    for name in ("executor", "host", "epoch", "assets", "timers", "engine", "log_time"):
        assert row[name] == getattr(status, name)
    assert row["heartbeat_at"] == status.received_at


def test_a_bucket_that_has_not_been_heard_of_has_no_lag(bus, headers):
    row = get("partitions", headers)["partitions"][0]
    assert (row["begin"], row["end"]) == (0, 0)
    assert {row[name] for name in ("offset", "lag", "lag_s", "host", "heartbeat_at")} == {None}


def test_a_bucket_that_is_ahead_of_an_old_answer_has_no_negative_lag(bus, headers):
    beat(offset=9_000, log_time=now_ms() + 60_000)
    row = get("partitions", headers)["partitions"][0]
    assert (row["lag"], row["lag_s"]) == (0, 0)


def test_a_broker_that_does_not_answer_is_said_plainly(bus, headers):
    beat()
    bus.bus.stop()
    body = get("partitions", headers)
    assert body["broker"].startswith("Kafka does not answer: ")
    row = body["partitions"][0]
    assert (row["begin"], row["end"], row["lag"]) == (None, None, None)
    assert (row["offset"], row["host"]) == (6, "worker-1")


# ---- the job ------------------------------------------------------------------------------------


def progress(at: int, status: str, message: str = "", **more: Any) -> None:
    batch = more.pop("batch", None)
    JobProgress.objects.create(
        query=more.pop("query", "kernel"), at=at, status=status, epoch=3, message=message,
        batch=json.dumps(batch) if batch else "", **more,
    )  # fmt: skip


def test_a_query_as_it_told_last(bus, headers):
    then = now_ms() - 60_000
    beat(received_at=then + 9_000)
    progress(then + 1_000, "starting")
    progress(then + 2_000, "running", "all well")
    progress(then + 3_000, "running", batch={"batchId": 7, "numInputRows": 40})
    progress(then + 4_000, "restarting", "in 1 s: an executor was lost")
    progress(then + 5_000, "running", "back again")
    progress(then + 6_000, "running", batch={"batchId": 8, "numInputRows": 2})
    (query,) = get("job", headers)["queries"]
    assert query == {
        "query": "kernel", "job": "", "engine": "kernel", "status": "running", "epoch": 3,
        "since": then + 5_000, "reported_at": then + 6_000, "heartbeat_at": then + 9_000,
        "restarts": 1, "message": "back again",
        "batch": {"reported_at": then + 6_000, "batchId": 8, "numInputRows": 2},
    }  # fmt: skip


def test_a_job_that_waits_says_why_and_keeps_its_last_batch(bus, headers):
    progress(1_000, "running", batch={"batchId": 1})
    progress(2_000, "waiting", "needs 14 slots, has 2")
    (query,) = get("job", headers)["queries"]
    assert (query["status"], query["since"]) == ("waiting", 2_000)
    assert query["message"] == "needs 14 slots, has 2"
    assert query["batch"]["batchId"] == 1


def test_what_was_said_before_the_status_changed_is_not_said_of_it(bus, headers):
    progress(1_000, "waiting", "needs 14 slots, has 2")
    progress(2_000, "running", batch={"batchId": 1})
    (query,) = get("job", headers)["queries"]
    assert (query["status"], query["message"]) == ("running", "")


def test_one_entry_for_each_engine_and_none_before_the_job_told_anything(bus, headers):
    assert get("job", headers)["queries"] == []
    progress(1_000, "running", query="python")
    progress(1_000, "stopped", query="kernel")
    statuses = {query["query"]: query["status"] for query in get("job", headers)["queries"]}
    assert statuses == {"kernel": "stopped", "python": "running"}


# ---- metrics ------------------------------------------------------------------------------------


def scrape(headers: dict[str, str]) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    response = Client().get("/metrics", headers=headers)
    assert response.status_code == 200
    assert response["Content-Type"].startswith("text/plain; version=")
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(response.content.decode())
        for sample in family.samples
    }


def key(name: str, **labels: str) -> tuple[str, frozenset[tuple[str, str]]]:
    return name, frozenset(labels.items())


def test_metrics_tell_how_far_each_part_has_come(bus, headers):
    fill(bus, "attack.reports", 10)
    fill(bus, "attack.states", 5)
    SinkOffset.objects.create(topic="attack.states", partition=0, next_offset=3)
    Divergence.objects.create(
        scenario="attack", asset="a", version="1", kept="{}", other="{}", found_at=1
    )
    beat()
    for status in ("starting", "running", "starting", "running", "restarting", "running"):
        progress(now_ms(), status)
    samples = scrape(headers)
    bucket = {"scenario": "attack", "partition": "0"}
    assert samples[key("tallyboard_broker_up")] == 1
    assert samples[key("tallyboard_bucket_offset", **bucket)] == 6
    assert samples[key("tallyboard_bucket_lag_records", **bucket)] == 3
    assert samples[key("tallyboard_bucket_lag_seconds", **bucket)] >= 4
    assert samples[key("tallyboard_bucket_assets", **bucket)] == 12
    assert samples[key("tallyboard_bucket_timers", **bucket)] == 5
    assert samples[key("tallyboard_bucket_log_time_seconds", **bucket)] > 1_700_000_000
    assert samples[key("tallyboard_job_status", query="kernel", status="running")] == 1
    assert samples[key("tallyboard_job_restarts", query="kernel")] == 2
    lag = key("tallyboard_materialiser_lag_records", topic="attack.states", partition="0")
    assert samples[lag] == 2
    assert samples[key("tallyboard_divergences_found")] == 1
    assert samples[key("tallyboard_sockets_open")] == 0


def test_without_a_broker_metrics_say_so_and_tell_the_rest(bus, headers):
    beat()
    bus.bus.stop()
    samples = scrape(headers)
    assert samples[key("tallyboard_broker_up")] == 0
    assert samples[key("tallyboard_bucket_offset", scenario="attack", partition="0")] == 6
    names = {name for name, _ in samples}
    assert "tallyboard_bucket_lag_records" not in names
    assert "tallyboard_materialiser_lag_records" not in names


def test_metrics_count_requests_by_route_and_problems_by_reason(bus, headers):
    before = scrape(headers)
    for _ in range(2):
        Client().get("/api/v1/scenarios/attack/assets/nowhere", headers=headers)
    Client().generic("BREW", "/api/v1/job", headers=headers)
    after = scrape(headers)
    route = "api/v1/scenarios/<scenario>/assets/<asset:asset>"
    counted = {
        key("tallyboard_api_requests_total", method="GET", route=route, status="404"): 2,
        key("tallyboard_api_problems_total", reason="unknown-asset"): 2,
        key("tallyboard_api_requests_total", method="other", route="api/v1/job", status="405"): 1,
        key("tallyboard_api_problems_total", reason="method-not-allowed"): 1,
    }
    for name, number in counted.items():
        assert after[name] - before.get(name, 0) == number, name


def test_metrics_tell_what_the_materialiser_counts(bus, headers):
    assert "tallyboard_materialised_records_total" not in {name for name, _ in scrape(headers)}
    bus.producer().send_and_wait("attack.states", b"shop", b"no state record", partition=0)
    worker = Materialiser(bus.bus, topics(), scenarios(), now_ms)
    worker.step()
    bus.producer().send_and_wait("attack.states", b"shop", b"nor is this", partition=0)
    worker.step()
    worker.close()
    samples = scrape(headers)
    of = {"topic": "attack.states"}
    assert samples[key("tallyboard_materialised_records_total", **of)] == 2
    assert samples[key("tallyboard_materialiser_unreadable_records_total", **of)] == 2
    assert samples[key("tallyboard_materialiser_batches_total")] == 1
    assert 0 < samples[key("tallyboard_materialiser_batch_seconds_total")] < 60


def test_metrics_count_the_open_dead_letters_by_reason_and_alarms_begin_at_0(bus, headers):
    now = now_ms()
    for offset, reason in enumerate(("bad-time", "bad-time", "not-json")):
        DeadLetter.objects.create(
            topic="attack.reports", partition=0, offset=offset, reason=reason, appended_at=now,
            size=1, dead_partition=0, dead_offset=offset, last_dead_offset=offset, noted_at=now,
        )  # fmt: skip
    figures = scrape(headers)
    assert figures[key("tallyboard_dead_letters", status="open", reason="bad-time")] == 2
    assert figures[key("tallyboard_sink_gaps_total", topic="attack.states")] == 0
    assert figures[key("tallyboard_lower_epoch_records_total", scenario="attack")] == 0
    bucket = {"scenario": "attack", "partition": "0"}
    assert figures[key("tallyboard_late_reports_total", **bucket, kind="refused")] == 0


def test_metrics_tell_of_the_workers_runs_and_of_snapshots(bus, headers):
    for n, (status, ended) in enumerate((("SUCCESS", 100), ("SUCCESS", 50), ("FAILURE", 70))):
        run = TaskResult.objects.create(
            task_id=str(n),
            task_name="dashboard.operate.administration.tasks.apply_retention",
            status=status,
        )
        at = datetime.fromtimestamp(ended, UTC)
        TaskResult.objects.filter(pk=run.pk).update(
            date_done=at, date_started=at - timedelta(seconds=1.5 * (n + 1))
        )
    for taken_at in (7_000, 5_000):
        FoldSnapshot.objects.create(
            scenario="attack", partition=1, next_offset=taken_at, clock=1, taken_at=taken_at,
            file="f", assets=0, digest="d",
        )  # fmt: skip
    samples = scrape(headers)
    labels = {"task": "apply_retention"}
    assert samples[key("tallyboard_task_time_seconds", status="success", **labels)] == 100
    assert samples[key("tallyboard_task_time_seconds", status="failure", **labels)] == 70
    assert samples[key("tallyboard_task_duration_seconds", **labels)] == 1.5
    assert samples[key("tallyboard_snapshot_time_seconds", scenario="attack", partition="1")] == 7


def test_nothing_is_told_that_no_document_names(bus, headers):
    Client().get("/api/v1/job", headers=headers)
    beat()
    ours = {name for name, _ in scrape(headers) if name.startswith("tallyboard_")}
    metric_names = {
        each.name for each in vars(metrics).values() if isinstance(each, metrics.Metric)
    }
    counted = {
        f"{family.name}_total"
        for each in vars(metrics).values()
        if isinstance(each, Counter)
        for family in each.describe()
    }
    assert ours <= metric_names | counted


def test_metrics_are_for_no_outsider_however_near_he_is(bus):
    response = Client(REMOTE_ADDR="127.0.0.1").get("/metrics")
    assert response.status_code == 401
    assert response["WWW-Authenticate"] == "Bearer"
    assert response.json()["reason"] == "not-authenticated"
