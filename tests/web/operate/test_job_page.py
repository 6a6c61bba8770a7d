"""The job's page: each state in words, what is asked of a query and what became of it, charts."""

from __future__ import annotations

import json
import re
import uuid
from typing import Any

import pytest
from django.test import Client
from msgspec.structs import replace

from bus.memory import MemoryBus
from dashboard.core.common.kafka import Gateway
from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.times import now_ms
from dashboard.core.job.ingestion import ingest_progress
from dashboard.core.job.liveness import process_signs
from dashboard.core.job.models import (
    JobProgress,
    JobRequest,
    JobSample,
    thin_samples,
)
from dashboard.core.job.requests import REQUEST_LIMIT
from dashboard.core.states.models import AssetState
from dashboard.core.states.rows import seen_of
from dashboard.operate.console import samples
from dashboard.operate.dead_letters.models import DeadLetter
from domain.records import Cause, StateRecord
from domain.version import Version
from support.histories.hostile import calm, text
from support.web.heartbeats import heartbeat, store
from support.web.pages import text_of
from support.web.web_fixtures import logged_in_as
from support.web.world import World
from wire.job import (
    EXPIRES_MS,
    Checkpoint,
    ClockBehind,
    Control,
    JobAnswer,
    QueryReport,
    Stopped,
    bucket_name,
    decode_control,
)

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("gateway")]


BATCH = {
    "batchId": 41,
    "batchDuration": 1_250,
    "numInputRows": 12_345,
    "inputRowsPerSecond": 99.5,
    "processedRowsPerSecond": 9876.0,
    "durationMs": {"addBatch": 900, "walCommit": 70},
    "state": {"numRowsUpdated": 4711, "memoryUsedBytes": 2_500_000, "numShufflePartitions": 2},
    "rocksdb": {"sstFileSize": 25_899, "getCount": 7167, "commitFlushLatency": 407},
}


def tell(status: Any = "running", since: int = 1_000_000, **more: Any) -> None:
    """The job tells of its kernel; since: ms ago."""
    now = now_ms()
    ingest_progress(
        [QueryReport("kernel", now, status, 3, since=now - since, trigger="real-time", **more)]
    )


def beat(age: int = 0, **changes: Any) -> None:
    """A bucket of the kernel was heard of so long ago."""
    beat = heartbeat(now_ms() - age, epoch=3, assets=11, timers=5, records=40)
    store(beat, **changes)


def body(client: Client) -> str:
    return client.get("/job/").content.decode()


def test_before_anything_is_told_it_says_what_to_do():
    page = body(logged_in_as("operator"))
    assert "No heartbeat has come from the job yet" in page
    assert "make status" in page
    assert "Nothing yet." in page


def test_a_standby_that_is_ready_is_shown():
    beat()
    tell()
    client = logged_in_as("operator")
    assert re.search(r"<dt>Standby</dt>\s*<dd>–</dd>", body(client))
    tell(standby=now_ms() - 60_000)
    assert re.search(r"<dt>Standby</dt>\s*<dd>ready since <time", body(client))


def test_a_brokers_clock_that_is_behind_is_shown():
    beat()
    tell()
    client = logged_in_as("operator")
    assert re.search(r"<dt>Broker's clock</dt>\s*<dd>\s*–\s*</dd>", body(client))
    behind = ClockBehind(599_997, now_ms() - 60_000)
    tell(clocks_behind={"attack/1": behind, "attack/0": behind})
    page = body(client)
    shown = r"<dd>\s*10 min behind in attack/0, attack/1\s*<small>since <time"
    assert re.search(shown, page)
    assert "The broker's clock is behind the job's own: set it." in page
    assert "As it should be." not in page


def test_figures_of_a_query_that_runs():
    beat()
    tell(checkpoint=Checkpoint(41, now_ms() - 5_000, 1_500_000))
    tell(checkpoint=Checkpoint(41, now_ms() - 5_000, 1_500_000), batch=BATCH)
    page = body(logged_in_as("operator"))
    for figure in ("running", "real-time", "1.5 MB", "12,345", "9,876", "4,711", "2.5 MB",
                   "Processing 900 ms", "25.9 kB", "7,167", "407 ms", "state 1",
                   "attack.reports", "attack.states", "dead-letters",
                   "TALLYBOARD_SPARK_UI_PORT"):  # fmt: skip
        assert figure in page, figure
    assert page.count("attack.reports") == 1


@pytest.mark.parametrize(
    ("received", "processed", "shown"),
    [(99.5, 9_876.0, "99.5"), (80_000.0, 9_876.0, "9,876"), (80_000.0, 0.0, "80,000")],
)
def test_no_more_is_received_than_processed(received: float, processed: float, shown: str):
    """Spark divides what it has received by the time between two starts of a batch."""
    beat()
    rates = {"inputRowsPerSecond": received, "processedRowsPerSecond": processed}
    tell(batch={**BATCH, **rates})
    assert f"<dt>Received/s</dt><dd>{shown}</dd>" in body(logged_in_as("operator"))


@pytest.mark.parametrize(
    ("status", "more", "heard", "word", "why"),
    [
        ("running", {}, 0, "running", "As it should be."),
        ("running", {}, 6_000, "stalled", "no heartbeat since then"),
        ("running", {"since": 10_000}, 60_000, "restarting", "its first heartbeat is yet to come"),
        ("catching-up", {"message": "x/0: lost"}, 0, "catching-up", "x/0: lost"),
        ("waiting", {"message": "raise N"}, 60_000, "waiting", "raise N"),
        ("restarting", {"message": "in 1 s: gone"}, 60_000, "restarting", "in 1 s: gone"),
        ("starting", {}, 60_000, "restarting", "process has started"),
        ("stopped", {}, 60_000, "stopped", "process was ended"),
        ("stopped", {"stopped": Stopped("ada", "why", 5)}, 60_000, "stopped", "by ada: why"),
    ],
)  # fmt: skip
def test_each_state_in_words(status: Any, more: Any, heard: int, word: str, why: str):
    beat(heard)
    tell(status, **more)
    page = body(logged_in_as("operator"))
    assert f'<span class="word">{word}</span>' in page
    assert why in page


def test_restarts_open_to_the_whole_error():
    tell("restarting", message="in 2 s: Caused by: gone", error="Gone\n  at <x>\n" + "y" * 9_000)
    tell("running")
    page = body(logged_in_as("operator"))
    assert "in 2 s: Caused by: gone" in page
    assert "at &lt;x&gt;" in page
    assert "y" * 9_000 in page


def restarts(page: str) -> str:
    n: str
    (n,) = re.findall(r"<dt[^>]*>Restarts</dt><dd>([^<]*)</dd>", page)
    return n


def test_a_process_that_was_killed_is_a_restart_with_its_time_and_cause():
    beat()
    client = logged_in_as("operator")
    for status in ("starting", "running"):
        tell(status)
    tell("running", batch=BATCH)
    assert restarts(body(client)) == "0"
    assert "None in the last 30 days." in body(client)
    tell("starting")  # of the next process: it counts from 0, and the one before said nothing
    at = JobProgress.objects.latest("id").at
    tell("running")
    page = body(client)
    assert restarts(page) == "1"
    assert "its process ended without a word (killed?)" in page
    (problems,) = re.findall(r'<div class="problems">.*?</div>', page, re.DOTALL)
    assert f'data-at="{at}"' in problems
    tell("starting")  # killed while it read its state
    assert restarts(body(client)) == "2"


def test_a_start_that_is_reported_again_is_no_restart():
    since = now_ms()
    report = QueryReport("kernel", since, "starting", 3, since=since, trigger="real-time")
    ingest_progress([report, replace(report, at=since + 1, standby=since)])
    client = logged_in_as("operator")
    assert restarts(body(client)) == "0"
    ingest_progress([replace(report, at=since + 2, since=since + 2)])
    assert restarts(body(client)) == "1", "another start"


@pytest.mark.parametrize("last", ["stopped", "failed"])
def test_a_process_that_ended_in_order_was_not_killed(last: Any):
    for status in ("starting", "running", last, "starting", "running"):
        tell(status, message="Spark's JVM ended with 1" if status == "failed" else "")
    page = body(logged_in_as("operator"))
    assert "killed?" not in page
    assert restarts(page) == ("1" if last == "failed" else "0")


def test_restarts_of_the_query_and_of_its_process_are_counted_together():
    for status in ("starting", "running", "restarting", "running", "starting", "running"):
        tell(status, message="in 1 s: gone" if status == "restarting" else "")
    page = body(logged_in_as("operator"))
    assert restarts(page) == "2"
    assert page.index("killed?") < page.index("in 1 s: gone"), "the newest first"


# ---- what is missing ----------------------------------------------------------------------------


def words(client: Client) -> str:
    """The page's words, without its markup."""
    return text_of(body(client))


def test_what_is_missing_is_listed_in_words_with_what_an_admin_does():
    client = logged_in_as("operator")
    page = words(client)
    assert "What is missing No heartbeat has come from the job yet" in page
    assert "make status" in page
    now = now_ms()
    for name, scenario in scenarios().items():
        for at in range(scenario.partitions):
            place = bucket_name(name, at)
            late = 60_000 if place == "attack/1" else 0
            process_signs().remember(place, now, now - late, "kernel")
    process_signs().reached(now)
    page = words(client)
    assert "What is missing States are late in attack/1 since" in page
    assert "it catches up unless a process is missing" in page
    process_signs().remember("attack/1", now + 1, now + 1, "kernel")
    assert "What is missing Nothing: states and history are current" in words(client)


@pytest.mark.parametrize(
    ("role", "link", "call"),
    [("admin", True, False), ("operator", True, True), ("manager", False, True)],
)
def test_a_banner_leads_to_the_list_who_may_read_it_and_says_whom_to_call(
    role: str, link: bool, call: bool
):
    page = logged_in_as(role).get("/").content.decode()
    banner = page[page.index('id="banner"') : page.index("</details>", page.index('id="banner"'))]
    assert ('href="/job/#missing"' in banner) is link
    assert ("If it lasts, call an admin." in banner) is call
    assert "readyz" not in page


def test_a_broken_batch_is_left_out():
    tell(batch=BATCH)
    JobProgress.objects.update(batch="{")
    assert "No batch has ended yet" in body(logged_in_as("operator"))


# ---- asking ---------------------------------------------------------------------------------


def form(action: str = "stop", **changes: Any) -> dict[str, Any]:
    made = {"id": str(uuid.uuid4()), "action": action, "reason": "a drill", "confirm": "on"}
    return {name: value for name, value in (made | changes).items() if value is not None}


def asks_in(gateway: Gateway) -> list[Control]:
    assert isinstance(gateway.bus, MemoryBus)
    topic = gateway.topics.control
    reader = gateway.bus.reader({(topic, 0): 0})
    return [decode_control(message.value) for message in reader.poll(0)]


def answer(ask: JobRequest, outcome: Any, why: str = "") -> None:
    job_answer = JobAnswer(str(ask.pk), ask.action, outcome, why)  # type: ignore[arg-type]
    ingest_progress([QueryReport("kernel", now_ms(), "stopped", 3, answer=job_answer)])


def test_an_admin_stops_a_query_and_is_told_what_became_of_it(gateway: Gateway):
    tell()
    admin = logged_in_as("admin")
    assert admin.post("/job/kernel/ask/", form()).status_code == 302
    ask = JobRequest.objects.get()
    assert asks_in(gateway) == [Control(str(ask.pk), "kernel", "stop", "admin", "a drill")]
    beside, _, below = body(admin).partition('class="asks"')
    assert "sent, waiting for the job" in beside  # where it was asked
    assert "sent, waiting for the job" in below
    answer(ask, "accepted")
    assert "accepted, being carried out" in body(admin)
    answer(ask, "done", "states stand as they are")
    page = body(admin)
    assert '<span class="word">done</span>' in page
    assert "states stand as they are" in page
    assert "<bdi>a drill</bdi>" in page


def test_the_same_form_twice_is_one_ask(gateway: Gateway):
    tell()
    admin, sent = logged_in_as("admin"), form()
    for _ in range(2):
        assert admin.post("/job/kernel/ask/", sent).status_code == 302
    assert len(asks_in(gateway)) == JobRequest.objects.count() == 1


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"reason": ""}, "This field is required."),
        ({"reason": "x" * 501}, "at most 500 characters"),
        ({"confirm": None}, "Tick this to continue."),
        ({"id": "7"}, "Enter a valid UUID."),
    ],
)
def test_a_form_that_is_not_complete_is_shown_again_open(
    gateway: Gateway, changes: dict[str, Any], why: str
):
    tell()
    response = logged_in_as("admin").post("/job/kernel/ask/", form(**changes))
    assert response.status_code == 422
    page = response.content.decode()
    assert why in page
    assert 'data-key="stop" open' in page
    assert asks_in(gateway) == []


@pytest.mark.parametrize(("path", "action"), [("kernel", "dance"), ("other", "stop")])
def test_what_is_not_there_cannot_be_asked(gateway: Gateway, path: str, action: str):
    tell()
    response = logged_in_as("admin").post(f"/job/{path}/ask/", form(action))
    assert response.status_code == 404
    assert asks_in(gateway) == []


def test_a_kafka_that_does_not_answer_is_told(gateway: Gateway, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("dashboard.core.common.kafka.REACH_S", 0.1)
    assert isinstance(gateway.bus, MemoryBus)
    tell()
    gateway.bus.stop()
    admin = logged_in_as("admin")
    assert admin.post("/job/kernel/ask/", form()).status_code == 302
    assert JobRequest.objects.get().status == "unsent"
    assert "not sent" in body(admin)


def test_asks_are_limited(gateway: Gateway):
    tell()
    admin = logged_in_as("admin")
    statuses = [
        admin.post("/job/kernel/ask/", form()).status_code for _ in range(REQUEST_LIMIT.count + 1)
    ]
    assert statuses.count(429) == 1
    assert len(asks_in(gateway)) == REQUEST_LIMIT.count


def test_an_ask_that_nobody_answers_is_told_to_be_over():
    tell()
    admin = logged_in_as("admin")
    admin.post("/job/kernel/ask/", form())
    JobRequest.objects.update(asked_at=now_ms() - EXPIRES_MS - 1)
    assert "unanswered" in body(admin)


@pytest.mark.parametrize(
    ("status", "offered"),
    [("running", {"stop", "reload"}), ("stopped", {"start", "reload"}),
     ("waiting", {"start", "stop", "reload"})],
)  # fmt: skip
def test_what_is_offered_fits_the_state(status: Any, offered: set[str]):
    beat()
    tell(status)
    page = body(logged_in_as("admin"))
    assert {a for a in ("stop", "start", "reload") if f'class="ask" data-key="{a}"' in page} == (
        offered
    )
    assert 'class="ask"' not in body(logged_in_as("operator"))


@text
@pytest.mark.spread(4)
def test_hostile_reasons(text: str):
    tell()
    admin = logged_in_as("admin")
    value = text.encode(errors="replace").decode()
    calm(admin.post("/job/kernel/ask/", form(reason=value)), text)
    calm(admin.get("/job/"), text)


# ---- over time ------------------------------------------------------------------------------


def test_charts_have_one_list_for_each_line():
    now = now_ms()
    reports = [
        QueryReport("kernel", now - age, "running", 3, batch={**BATCH, "batchId": -age})
        for age in range(7_200_000, 0, -60_000)
    ]
    ingest_progress(reports)
    client = logged_in_as("operator")
    for span, batches in (("hour", 60), ("day", 120), ("month", 3)):
        figures = client.get(f"/job/kernel/figures.json?span={span}").json()
        assert {len(line) for line in figures.values()} == {len(figures["at"])}
        assert abs(len(figures["at"]) - batches) <= 1, span
        assert figures["at"] == sorted(figures["at"])
    assert figures["addBatch"][0] == 900
    assert figures["memory"][0] == 2_500_000
    assert client.get("/job/kernel/figures.json?span=year").status_code == 404
    empty = client.get("/job/other/figures.json").json()
    assert json.dumps(empty["at"]) == "[]"


def test_that_it_was_stopped_keeps_the_board_from_being_ready_and_names_nobody():
    tell("stopped", stopped=Stopped("ada", "a drill", 5))
    readiness = Client().get("/readyz").json()
    assert readiness["missing"][0] == "query kernel: was stopped, see the job's page"
    assert "ada" not in str(readiness)
    tell("running")
    assert "stopped" not in str(Client().get("/readyz").json())


# ---- from report to board -----------------------------------------------------------------------


def sample(at: int, **figures: int) -> JobSample:
    """Return how attacks fared in the slot of that time, ms."""
    slot = at // samples.SLOT_MS * samples.SLOT_MS
    return JobSample.objects.create(scenario="attack", slot=slot, **figures)


def test_a_report_is_measured_from_its_append_until_the_database_has_it(world: World):
    world.report("shop", "under-attack", "waf-1")
    world.report("other", "clear", "waf-1")
    begun = now_ms()
    world.write()
    rows = list(JobSample.objects.filter(scenario="attack"))
    assert sum(row.updates for row in rows) == 2
    longest = max(row.longest for row in rows)
    assert 0 <= longest <= now_ms() - begun + 10_000
    assert longest <= sum(row.waited for row in rows) <= 2 * longest
    world.write()
    assert (
        sum(JobSample.objects.values_list("updates", flat=True)) == 2
    )  # nothing new, nothing more


def test_what_a_rebuild_writes_again_took_no_time_from_report_to_board(world: World):
    world.report("shop", "under-attack", "waf-1")
    world.write()
    ends = {place: end for place, (_, end) in world.bus.offsets(["attack.states"]).items()}
    place = max(ends, key=ends.__getitem__)
    messages = world.bus.reader({place: 0}).poll(1, 10)
    assert messages, ends
    for message in messages:
        assert message.value
        value = message.value.replace(b'"version":"1.', b'"version":"2.')
        headers = [(name, old.replace(b"1.", b"2.", 1)) for name, old in message.headers]
        world.bus.producer().send_and_wait(
            place[0], message.key, value, headers=headers, partition=place[1]
        )
    world.write()
    assert AssetState.objects.get(asset="shop").version.startswith("000002.")
    assert sum(JobSample.objects.values_list("updates", flat=True)) == 1


def test_what_was_read_once_more_and_what_time_did_are_no_wait():
    now = now_ms()
    causes = [
        Cause("report", 0, 1, now - 300, agent="waf-1"),
        Cause("command", 0, 2, now - 100, user="olga"),
        Cause("report", 0, 3, now - samples.MOST_MS - 1, agent="waf-1"),
        Cause("hold", 0, 4, now - 5_000),
    ]
    newest = [seen(cause) for cause in causes]
    beats = [heartbeat(now - 4_000), heartbeat(now - 2_000)]
    samples.add_sample({"attack": newest}, beats, [DeadLetter(scenario="attack")], now)
    samples.add_sample({}, [heartbeat(now - 1_000)], [DeadLetter(scenario="attack")], now)
    (row,) = JobSample.objects.all()
    figures = (row.updates, row.waited, row.longest, row.behind, row.letters)
    assert figures == (2, 400, 300, 4_000, 2)


def seen(cause: Cause) -> Any:
    return seen_of(
        StateRecord(
            "a", "clear", version=Version(1, cause.offset, 0), cause=cause, previous=None,
            since=1, unconfirmed=False,
        )
    )  # fmt: skip


def test_charts_and_their_table_tell_the_same():
    tell()
    beat()
    now = now_ms()
    for age in (3_000, 63_000, 64_000 + samples.SLOT_MS):
        sample(now - age, updates=2, waited=500, longest=400, behind=900, letters=1)
    client = logged_in_as("operator")
    figures = client.get("/job/kernel/samples.json").json()
    assert {len(line) for line in figures.values()} == {3}
    assert (figures["mean"], figures["longest"]) == ([250] * 3, [400] * 3)
    assert (figures["behind"], figures["letters"]) == ([900] * 3, [1] * 3)
    page = client.get("/job/").content.decode()
    (table,) = re.findall(r'aria-labelledby="minutes-kernel">(.*?)</table>', page, re.DOTALL)
    assert 2 <= table.count('<th scope="row">') <= 3  # two of them may be in one minute
    assert "250 ms" in table
    assert "400 ms" in table
    assert 'data-charts="/job/kernel/samples.json" data-set="board"' in page
    assert client.get("/job/kernel/samples.json?span=year").status_code == 404
    assert client.get("/job/other/samples.json").json()["at"] == []


def test_samples_are_put_together_and_lose_nothing():
    now, hour, day = now_ms(), 3_600_000, 86_400_000
    for n in range(12):
        for age in (0, hour + 120_000, day + hour, 31 * day):
            at = now - age - n * samples.SLOT_MS
            sample(at, updates=1, waited=10, longest=n, behind=n, letters=1)
    assert thin_samples(now) > 12
    kept = JobSample.objects.all()
    assert sum(row.updates for row in kept) == sum(row.letters for row in kept) == 36
    assert max(row.longest for row in kept) == 11
    assert kept.filter(slot__gte=now - hour).count() == 12
    assert kept.filter(slot__lt=now - hour, slot__gte=now - day).count() <= 3
    assert kept.filter(slot__lt=now - day).count() <= 2
    assert thin_samples(now) == 0
