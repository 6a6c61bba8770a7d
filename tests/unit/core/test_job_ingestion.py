"""What the job tells, in the database: kept, bounded, thinned out; asks with their answers."""

from __future__ import annotations

from uuid import UUID

import pytest

from dashboard.core.job import ingestion
from dashboard.core.job.models import (
    DAY_MS,
    HOUR_MS,
    KEPT,
    KEPT_MS,
    JobProgress,
    JobRequest,
    surplus,
)
from support.web.retention import apply_all
from wire.job import Checkpoint, JobAnswer, QueryReport, Stopped

NOW = 1_790_000_000_000
ID = UUID("6f1d7a9e-0000-4000-8000-00000000000a")


def asked(**changes: object) -> JobRequest:
    fields = {
        "id": ID,
        "query": "kernel",
        "action": "stop",
        "username": "ada",
        "reason": "a drill",
        "asked_at": NOW,
        "status": "sent",
    }
    return JobRequest.objects.create(**fields | changes)


def answer(outcome: str, why: str = "", action: str = "stop", id_: str = str(ID)) -> QueryReport:
    job_answer = JobAnswer(id_, action, outcome, why)  # type: ignore[arg-type]
    return QueryReport("kernel", NOW + 5, "stopped", 1, answer=job_answer)


def stands(ask: JobRequest) -> tuple[str, str, int | None]:
    ask.refresh_from_db()
    return ask.status, ask.outcome, ask.answered_at


@pytest.mark.django_db
def test_all_that_is_told_is_kept():
    ingestion.ingest_progress(
        [
            QueryReport(
                "kernel",
                NOW,
                "stopped",
                3,
                "by ada",
                2,
                {"batchId": 4},
                NOW - 9,
                "real-time",
                "X\n at y",
                Checkpoint(4, NOW - 7, 1000),
                Stopped("ada", "a drill", NOW - 9),
            )
        ]
    )
    row = JobProgress.objects.get()
    assert (row.status, row.since, row.trigger, row.error) == (
        "stopped", NOW - 9, "real-time", "X\n at y",
    )  # fmt: skip
    assert (row.checkpoint_batch, row.checkpoint_at, row.checkpoint_size) == (4, NOW - 7, 1000)
    assert (row.stopped_by, row.stopped_reason) == ("ada", "a drill")


@pytest.mark.django_db
def test_an_ask_is_accepted_then_done_and_stays_so():
    ask = asked()
    ingestion.ingest_progress([answer("accepted")])
    assert stands(ask) == ("accepted", "", None)
    ingestion.ingest_progress([answer("done", "so it is"), answer("refused", "late")])
    assert stands(ask) == ("done", "so it is", NOW + 5)
    assert not JobProgress.objects.exists()


@pytest.mark.django_db
def test_answers_to_others_change_nothing():
    ask = asked()
    ingestion.ingest_progress([answer("done", id_="nobody"), answer("done", action="start")])
    assert stands(ask) == ("sent", "", None)


@pytest.mark.django_db
def test_what_is_kept_of_a_query_is_bounded(monkeypatch):
    monkeypatch.setattr(ingestion, "PROGRESS_KEPT", 5)
    ingestion.ingest_progress([QueryReport("python", NOW, "running", 1)])
    for at in range(8):
        ingestion.ingest_progress([QueryReport("kernel", NOW + at, "running", 1)])
    kept = JobProgress.objects.filter(query="kernel").order_by("id").values_list("at", flat=True)
    assert list(kept) == [NOW + at for at in range(3, 8)]
    assert JobProgress.objects.filter(query="python").exists()


def batch_rows(step: int, age: int) -> list[tuple[int, int]]:
    """One batch each `step` ms, newest first, for `age` ms: each with its time as its id."""
    return [(at, at) for at in range(NOW, NOW - age, -step)]


def test_of_older_batches_ever_fewer_are_kept():
    rows = batch_rows(1000, 2 * DAY_MS)
    gone = set(surplus(rows, NOW))
    kept = [at for _, at in rows if at not in gone]
    ages = [NOW - at for at in kept]
    assert sum(age <= HOUR_MS for age in ages) == 3601
    assert 23 * 60 <= sum(HOUR_MS < age <= DAY_MS for age in ages) <= 23 * 60 + 1
    assert 24 <= sum(age > DAY_MS for age in ages) <= 25
    assert surplus([(at, at) for at in kept], NOW) == []


@pytest.mark.django_db
def test_thinning_out_keeps_the_words():
    ingestion.ingest_progress([QueryReport("kernel", NOW - KEPT_MS - 1, "running", 1)])
    old = NOW - DAY_MS - HOUR_MS
    batches = [
        QueryReport("kernel", old + at, "running", 1, batch={"batchId": at}) for at in (1, 2)
    ]
    ingestion.ingest_progress([QueryReport("kernel", old, "restarting", 1, "again"), *batches])
    gone = asked(asked_at=NOW - 91 * DAY_MS)
    assert apply_all(KEPT, NOW) == 3
    assert not JobRequest.objects.filter(pk=gone.pk).exists()
    left = JobProgress.objects.order_by("id").values_list("message", "batch")
    assert list(left) == [("again", ""), ("", '{"batchId":2}')]
    assert apply_all(KEPT, NOW) == 0
