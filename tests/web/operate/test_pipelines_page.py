"""Pipelines on the job's page: how each fares, its graph, what is asked of it."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from django.test import Client

from bus.base import ConsumerRecord
from dashboard.core.audit.models import AuditEntry
from dashboard.core.common.kafka import Gateway
from dashboard.core.common.times import now_ms
from dashboard.core.job.ingestion import MOST_PIPELINES, ingest_pipeline_progress
from dashboard.core.job.models import JobRequest, PipelineStatus
from dashboard.serve.materialiser.worker import sort_out
from support.spark.query_results import asked
from support.web.web_fixtures import logged_in_as
from wire.job import JobAnswer
from wire.pipeline import Assignment, Gathering, Invalid, Node, PipelineProgress, encode_pipeline
from wire.topics import Topics

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("gateway")]

GRAPH = (
    Node("source-reports", "source", "attack.reports", "reports"),
    Node("operator-1", "operator", "aggregate", "stateful", ("source-reports",)),
    Node("store-1", "store", "rocksdb", "1 partitions", ("operator-1",)),
    Node("sink-rates", "sink", "pipelines.report-rates", "", ("operator-1",)),
)


def report(status: Any = "running", age: int = 0, **more: Any) -> None:
    """A pipeline reported so long ago, ms."""
    title = "Reports of each agent in each minute"
    ingest_pipeline_progress(
        [PipelineProgress("report-rates", now_ms() - age, status, title, **more)]
    )


def body(client: Client) -> str:
    return client.get("/job/").content.decode()


def test_a_table_shows_what_it_gathers_and_its_budget() -> None:
    report(gathering=Gathering(given=7_000, sent=1_234, budget=10 << 20, share=5 << 20))
    operator = logged_in_as("operator")
    page = body(operator)
    for words in (
        "<dd>7,000</dd>",
        "1,234 <small>after gathering",
        "10.5 MB <small>5.2 MB in each",
    ):
        assert words in page, words
    report()
    assert "after gathering" not in body(operator)


def test_without_a_pipeline_the_page_names_the_setting() -> None:
    assert "TALLYBOARD_PIPELINES" in body(logged_in_as("operator"))


def test_figures_graph_tasks_and_invalid_times() -> None:
    report(
        graph=GRAPH,
        assignments=(Assignment("attack.reports", 3, 1, 4_711),),
        invalid=(Invalid("attack.reports", "ahead", 23),),
        behind=4_711,
        behind_ms=1_250,
        dead_letters=9,
        restarts=2,
        batch_records=1_999,
        batch_limit=2_000,
    )
    page = body(logged_in_as("operator"))
    for words in ("report-rates", "4,711", "1,250 ms", "pipelines.report-rates", "stateful",
                  "after attack.reports (source)", "ahead", "23", "rocksdb",
                  "1,999", "at most 2,000 from a source"):  # fmt: skip
        assert words in page, words


@pytest.mark.parametrize(
    ("status", "age", "message", "word"),
    [
        ("running", 0, "", "running"),
        ("running", 60_000, "", "stalled"),
        ("restarting", 0, "in 2 s: gone", "restarting"),
        ("starting", 0, "", "restarting"),
        ("waiting", 0, "correct the declaration", "waiting"),
        ("stopped", 60_000, "by ada: a drill", "stopped"),
    ],
)
def test_each_state_in_words(status: str, age: int, message: str, word: str) -> None:
    report(status, age, message=message)
    page = body(logged_in_as("operator"))
    assert f'<span class="word">{word}</span>' in page
    assert message in page


def ask(client: Client, action: str, **changes: Any) -> Any:
    form = {"id": str(uuid.uuid4()), "action": action, "reason": "a drill", "confirm": "on"}
    return client.post("/job/pipelines/report-rates/ask/", form | changes)


@pytest.mark.parametrize("action", ["stop", "start", "reset"])
def test_an_admin_asks_and_reads_the_answer(gateway: Gateway, action: str) -> None:
    report("stopped" if action == "start" else "running")
    admin = logged_in_as("admin")
    assert ask(admin, action).url == "/job/#query-pipeline-report-rates"
    [sent] = asked(gateway)
    assert (sent.query, sent.action) == ("pipeline/report-rates", action)
    assert AuditEntry.objects.filter(action=f"pipeline.{action}").exists()
    answer = JobAnswer(sent.id, sent.action, "done", "epoch 1 is deleted, 2 begins")
    ingest_pipeline_progress([PipelineProgress("report-rates", now_ms(), "running", answer=answer)])
    assert JobRequest.objects.get().status == "done"
    assert "epoch 1 is deleted" in body(admin)


def test_operators_are_offered_nothing_and_refused() -> None:
    report()
    operator = logged_in_as("operator")
    assert "Reset…" not in body(operator)
    assert ask(operator, "reset").status_code == 403


def test_what_cannot_be_asked_is_refused() -> None:
    report()
    admin = logged_in_as("admin")
    assert ask(admin, "reload").status_code == 404
    assert admin.post("/job/pipelines/nobody/ask/", {"action": "stop"}).status_code == 404
    refused = ask(admin, "stop", reason="")
    assert refused.status_code == 422
    assert "This field is required" in refused.content.decode()
    assert not JobRequest.objects.exists()


def test_the_materialiser_counts_what_it_cannot_read() -> None:
    topics = Topics()
    good = encode_pipeline(PipelineProgress("report-rates", 1, "running"))
    values = [good, b"{", good.replace(b"report-rates", b"a" * 101)]
    batch = sort_out(
        [
            ConsumerRecord(topics.pipelines, 0, at, 1, b"k", value, ())
            for at, value in enumerate(values)
        ],
        topics,
    )
    assert [record.name for record in batch.pipelines] == ["report-rates"]
    assert batch.counted["unreadable", topics.pipelines] == 2
    assert batch.offsets == {(topics.pipelines, 0): 3}


def test_no_more_pipelines_are_kept_than_may_be() -> None:
    names = [f"p{number}" for number in range(MOST_PIPELINES + 5)]
    ingest_pipeline_progress([PipelineProgress(name, 1, "running") for name in names])
    assert PipelineStatus.objects.count() == MOST_PIPELINES
    ingest_pipeline_progress([PipelineProgress("p0", 2, "stopped")])
    assert PipelineStatus.objects.get(name="p0").status == "stopped"
