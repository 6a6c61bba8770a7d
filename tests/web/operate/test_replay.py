"""The page of replays: what would be read again, what that means, and that it is asked for once."""

from __future__ import annotations

import re
import uuid
from datetime import UTC, datetime
from typing import Any

import pytest
from django.test import Client

from dashboard.core.audit.models import AuditEntry
from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.times import now_ms
from dashboard.core.job.ingestion import ingest_progress
from dashboard.core.job.models import BucketStatus, JobRequest
from dashboard.core.states.models import FoldSnapshot, LogBound, dump_pairs
from dashboard.operate.requests import models, tasks
from dashboard.operate.requests.models import Replay
from support.histories.hostile import calm, text
from support.web.heartbeats import heartbeat, store
from support.web.pages import text_of
from support.web.retention import apply_all
from support.web.web_fixtures import make_user, show
from support.web.world import World
from wire.job import Control, JobAnswer, QueryReport, decode_control

pytestmark = pytest.mark.django_db

HOUR = 3_600_000
SCENARIOS = ("attack", "orders")


@pytest.fixture
def client(world: World) -> Client:
    """An admin, and a job whose kernel carries two scenarios of some records each."""
    for name in SCENARIOS:
        for at in range(scenarios()[name].partitions):
            beat(name, at)
            for _ in range(10):
                topic = f"{name}.reports"
                world.gateway.producer().send_and_wait(topic, b"a", b"{}", partition=at)
    tell()
    client = Client()
    client.force_login(make_user("admin"))
    return client


def beat(scenario: str, at: int, epoch: int = 3, offset: int = 9) -> None:
    store(heartbeat(now_ms(), scenario, at, epoch=epoch, offset=offset))


def tell(**more: Any) -> None:
    ingest_progress([QueryReport("kernel", now_ms(), "running", 3, since=now_ms(), **more)])


def ends(world: World, scenario: str, at: int = 0) -> int:
    topic = f"{scenario}.reports"
    return world.bus.offsets([topic])[topic, at][1]


def snapshot(scenario: str, at: int, offset: int, age: int) -> FoldSnapshot:
    """A daily snapshot up to an offset, of a clock so long ago."""
    clock = now_ms() - age
    return FoldSnapshot.objects.create(
        scenario=scenario, partition=at, next_offset=offset, clock=clock, taken_at=clock,
        file=f"{scenario}-{at}-{offset}.fold", assets=5, digest=f"{offset:064d}",
    )  # fmt: skip


def review(client: Client, status: int = 200, **query: Any) -> str:
    response = client.get("/replay/", {"query": "kernel", "start": "earliest", **query})
    assert response.status_code == status, text_of(response.content.decode())[:800]
    return response.content.decode()


def line(body: str, bucket: str) -> list[str]:
    (row,) = re.findall(rf'<tr data-key="{bucket}".*?</tr>', body, re.DOTALL)
    return [text_of(cell) for cell in re.findall(r"<t[hd].*?</t[hd]>", row, re.DOTALL)]


def confirm(client: Client, body: str, status: int, **changes: str) -> Any:
    """Send the review's form, filled in."""
    form = body[body.index('action="/replay/start/') :]
    fields = dict(re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', form))
    given = {"reason": "a drill", **fields, **changes}
    response = client.post("/replay/start/", given)
    assert response.status_code == status, text_of(response.content.decode())[:800]
    return response


def asked(world: World) -> list[Control]:
    places = world.bus.offsets(["job.control"])
    reader = world.bus.reader({place: begin for place, (begin, _) in places.items()})
    return [decode_control(message.value) for message in reader.poll(0)]


def test_before_anything_is_told_it_says_what_to_do(world: World) -> None:
    client = Client()
    client.force_login(make_user("admin"))
    body = client.get("/replay/").content.decode()
    assert "No heartbeat has come from the job yet" in body
    assert "make status" in body


def test_from_the_beginning_everything_is_read(client: Client, world: World) -> None:
    body = review(client)
    end = ends(world, "attack")
    assert line(body, "attack/0")[1:3] == ["0", "0"]
    wanted = [str(end), str(end), "< 1 s", "its whole log, from an empty state"]
    assert line(body, "attack/0")[4:] == wanted
    assert "Every state comes out as the whole log has it" in body
    assert "that is assumed until" in text_of(body)
    assert "records again, in about 6 s" in text_of(body)


def test_the_rate_is_that_of_the_last_catching_up(client: Client) -> None:
    batch = {"numInputRows": 50_000, "processedRowsPerSecond": 1.5}
    ingest_progress([QueryReport("kernel", now_ms(), "catching-up", 3, batch=batch)])
    tell()
    body = text_of(review(client))
    assert "reads 1.5 records/s, as when it last caught up" in body
    assert "records again, in about" in body


def test_a_time_begins_at_the_snapshot_before_it(client: Client, world: World) -> None:
    for offset, age in ((3, 30 * HOUR), (6, 6 * HOUR), (9, HOUR)):
        snapshot("attack", 0, offset, age)
        snapshot("orders", 0, offset, age)
    at = re.sub(r"\..*", "", _iso(now_ms() - 5 * HOUR))
    body = review(client, start="time", time=at, scenario="attack")
    assert line(body, "attack/0")[2] == "6"
    assert "the snapshot's state, then what came since" in line(body, "attack/0")[7]
    assert line(body, "orders/0")[2] == "9"
    assert "carried along" in line(body, "orders/0")[7]
    assert line(body, "attack/1")[2] == "0"
    confirm(client, body, 302, typed="attack")
    (sent,) = asked(world)
    assert sent.action == "rebuild"
    place = {"offset": 6, "snapshot": "attack-0-6.fold", "digest": f"{6:064d}"}
    assert sent.parameters["buckets"]["attack/0"] == place
    assert set(sent.parameters["buckets"]) == {"attack/0", "orders/0"}


def _iso(ms: int) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def test_where_the_log_s_beginning_is_gone_it_begins_at_a_snapshot(
    client: Client, world: World
) -> None:
    world.bus.truncate("attack.reports", 0, 5)
    snapshot("attack", 0, 3, HOUR)
    snapshot("attack", 0, 7, HOUR)
    snapshot("attack", 0, 9, HOUR)
    cells = line(review(client), "attack/0")
    assert cells[1:3] == ["5 deleted before", "7"]
    cells = line(review(client, start="offsets", **{"offset-attack/0": 6}), "attack/0")
    assert cells[2] == "7"
    assert "it begins after the place that you chose" in cells[7]


def test_without_any_state_it_says_what_is_lost(client: Client, world: World) -> None:
    show("attack", "shop", "under-attack", offset=2)
    world.bus.truncate("attack.reports", 0, 5)
    body = review(client)
    assert "forgets no state" in line(body, "attack/0")[7]
    said = text_of(body)
    assert "States will not be those of the whole log." in said
    assert "1 asset on the board has its last record before." in said
    confirm(client, body, 302, typed="kernel")
    (sent,) = asked(world)
    assert (sent.action, sent.parameters) == ("reset", {"buckets": {"attack/0": {"offset": 5}}})


def test_exactly_at_an_offset_nothing_before_counts(client: Client) -> None:
    show("attack", "shop", "under-attack", offset=2)
    query: dict[str, Any] = {
        "start": "offsets",
        "offset-attack/0": 4,
        "exactly": "on",
        "scenario": "attack",
    }
    body = review(client, **query)
    assert "forgets no state" in line(body, "attack/0")[7]
    assert "1 asset on the board" in text_of(body)
    assert line(body, "orders/0")[7].startswith("its whole log")


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"query": "spark"}, "Expected one of: kernel."),
        ({"scenario": "nowhere"}, "Expected one of: attack, orders."),
        ({"start": "time"}, "Expected a time to begin at."),
        ({"start": "time", "time": "soon"}, "Expected a day and a time"),
        ({"start": "offsets", "offset-attack/0": "99"}, "Expected an offset of its log, 0 to 1"),
        ({"start": "offsets", "offset-attack/0": "x"}, "Expected an offset of its log, 0 to 1"),
        ({"exactly": "on"}, "Expected offsets with it"),
    ],
)
def test_what_cannot_be_is_named_and_kept(client: Client, query: dict[str, str], said: str) -> None:
    body = review(client, 422, **query)
    assert said in body
    assert 'action="/replay/start/' not in body


def test_it_is_asked_for_once_by_the_name_that_was_typed(client: Client, world: World) -> None:
    body = review(client, scenario="attack")
    again = confirm(client, body, 422, typed="atack", reason="a < drill")
    assert "Expected exactly attack." in again.content.decode()
    assert "a &lt; drill" in again.content.decode()
    assert asked(world) == []
    for _ in range(2):
        confirm(client, body, 302, typed="attack")
    (sent,) = asked(world)
    assert (sent.query, sent.user, sent.reason) == ("kernel", "admin", "a drill")
    row = Replay.objects.get()
    assert (str(row.pk), row.epoch, row.whole) == (sent.id, 3, True)
    assert AuditEntry.objects.filter(action="job.rebuild", target="kernel").count() == 1


def test_what_has_changed_since_the_review_is_reviewed_again(client: Client, world: World) -> None:
    body = review(client)
    world.bus.truncate("attack.reports", 0, 5)
    again = confirm(client, body, 409, typed="kernel")
    assert "have changed meanwhile" in again.content.decode()
    assert asked(world) == []


def test_kafka_away_is_said(client: Client, world: World) -> None:
    world.bus.stop()
    assert "Kafka does not answer" in review(client, 503)
    assert client.post("/replay/start/", {"query": "kernel"}).status_code == 503


def test_it_is_followed_to_its_end(client: Client, world: World) -> None:
    confirm(client, review(client), 302, typed="kernel")
    (sent,) = asked(world)
    answer(sent.id, "accepted")
    body = followed(client)
    assert "attack/0 not begun" in body
    for name in SCENARIOS:
        for at in range(scenarios()[name].partitions):
            beat(name, at, 4, 9 if name == "attack" else ends(world, name, at) - 1)
    total = sum(
        ends(world, name, at) for name in SCENARIOS for at in range(scenarios()[name].partitions)
    )
    body = followed(client)
    left = scenarios()["attack"].partitions * (ends(world, "attack") - 10)
    assert f"{left} of {total} records left" in body
    assert "orders/0 100 %, 0 left" in body
    assert Replay.objects.to_compare(now_ms()) == []
    answer(sent.id, "done", "epoch 4: 30 records in 2 s")
    assert "epoch 4: 30 records in 2 s" in followed(client)
    assert "The worker compares it" in followed(client)


def answer(id_: str, outcome: Any, why: str = "") -> None:
    job_answer = JobAnswer(id_, "rebuild", outcome, why)
    ingest_progress([QueryReport("kernel", now_ms(), "running", 4, answer=job_answer)])


def followed(client: Client) -> str:
    response = client.get("/replay/", headers={"HX-Request": "true"})
    assert b"<form" not in response.content
    return text_of(response.content.decode())


def ended(**more: Any) -> Replay:
    """A replay that the job has told the end of."""
    id_ = uuid.uuid4()
    JobRequest.objects.create(
        id=id_, query="kernel", action="rebuild", username="ada", reason="r", asked_at=now_ms(),
        status="done",
    )  # fmt: skip
    return Replay.objects.create(
        id=id_, query="kernel", start="the beginning", reason="r", username="ada",
        asked_at=now_ms(), whole=True, epoch=1, plan="[]", **more,
    )  # fmt: skip


def test_one_that_the_job_does_not_answer_is_over(client: Client) -> None:
    row = ended()
    long_ago = now_ms() - HOUR
    JobRequest.objects.filter(pk=row.pk).update(status="sent", asked_at=long_ago)
    Replay.objects.filter(pk=row.pk).update(asked_at=long_ago)
    said = followed(client)
    assert "unanswered" in said
    assert "records left" not in said
    assert Replay.objects.to_compare(now_ms()) == []


def test_it_is_compared_once(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    row = ended()
    assert Replay.objects.to_compare(now_ms()) == [row]
    assert row.claim_comparison(now_ms())
    assert not row.claim_comparison(now_ms())
    assert Replay.objects.to_compare(now_ms()) == []
    assert Replay.objects.to_compare(now_ms() + models.GIVEN_UP_MS + 1000) == [row]
    comparison = {"reconcile": "done", "records": 1234, "compared": 56, "unjudged": 0}
    monkeypatch.setattr(tasks, "_compare", lambda _row: {**comparison, "differences": 0})
    tasks.compare(row.pk)
    assert "agrees Compared with the log: 1,234 records, 56 assets, 0 differences" in followed(
        client
    )
    judged = {**comparison, "differences": 2, "problem": "attack/<b>: differs"}
    monkeypatch.setattr(tasks, "_compare", lambda _row: judged)
    tasks.compare(row.pk)
    assert "2 differences" in followed(client)
    assert "attack/<b>: differs" in followed(client)


def test_a_comparison_that_fails_says_why(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_row: Replay) -> None:
        raise OSError("no snapshots")

    row = ended()
    monkeypatch.setattr(tasks, "_compare", fail)
    assert tasks.compare(row.pk).reconcile == "failed"
    assert "It could not be compared: OSError: no snapshots" in followed(client)


def test_the_worker_starts_a_comparison_and_forgets_old_replays(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[list[str]] = []
    monkeypatch.setattr(tasks.subprocess, "Popen", started.append)
    row, old = ended(), ended()
    Replay.objects.filter(pk=old.pk).update(asked_at=now_ms() - models.REPLAYS_KEPT_MS - HOUR)
    assert apply_all(models.KEPT, now_ms()) == 1
    assert (tasks.judge_ended(), tasks.judge_ended()) == (1, 0)
    assert [command[2:] for command in started] == [["judge_replay", str(row.pk)]]


@text
@pytest.mark.spread(4)
def test_hostile_choices(client: Client, text: str) -> None:
    for name in ("query", "scenario", "start", "time", "offset-attack/0", "exactly"):
        given = {"query": "kernel", "start": "offsets", name: text.replace("\ud800", "?")}
        if len(text) < 5000:
            calm(client.get("/replay/", given), text)
        calm(client.post("/replay/start/", given), text)


@text
@pytest.mark.spread(4)
def test_hostile_confirmations(client: Client, world: World, text: str) -> None:
    body, text = review(client, scenario="attack"), text.replace("\ud800", "?")
    form = body[body.index('action="/replay/start/') :]
    fields = dict(re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', form))
    for name in ("typed", "id", "seen"):
        given = {"reason": "r", "typed": "attack", **fields, name: text}
        response = client.post("/replay/start/", given)
        calm(response, text)
        assert response.status_code in (409, 422)
    assert asked(world) == []


# ---- a clock that is ahead -----------------------------------------------------------------------


def ahead(bucket: str, by: int = 23 * HOUR) -> int:
    """The clock of a bucket is ahead; since when."""
    now = now_ms()
    BucketStatus.objects.filter(pk=bucket).update(log_time=now + by, at=now, ahead_since=now)
    return now


def stamp(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def test_a_bound_is_offered_where_a_clock_is_ahead(client: Client) -> None:
    assert 'name="bound"' not in client.get("/replay/").content.decode()
    now = ahead("attack/1")
    body = client.get("/replay/").content.decode()
    assert "The clock of attack/1 is ahead of the job" in text_of(body)
    (value,) = re.findall(r'name="bound" value="([^"]+)"', body)
    given = datetime.fromisoformat(value + "+00:00").timestamp() * 1000
    assert now - 2_000 <= given <= now_ms()


def test_a_bound_is_asked_for_the_buckets_that_are_ahead_alone(
    client: Client, world: World
) -> None:
    now = ahead("attack/1")
    fits, beyond = snapshot("attack", 1, 5, HOUR), snapshot("attack", 1, 7, -HOUR)
    other = snapshot("attack", 0, 7, -HOUR)
    assert beyond.clock > now
    for at in (0, 1):
        world.bus.truncate("attack.reports", at, 3)
    body = review(client, bound=stamp(now))
    bound = now // 1_000 * 1_000
    assert "times after" in line(body, "attack/1")[-1]
    assert "do not count" in line(body, "attack/1")[-1]
    assert "do not count" not in line(body, "attack/0")[-1]
    assert line(body, "attack/1")[2] == str(fits.next_offset)
    assert line(body, "attack/0")[2] == str(other.next_offset)
    confirm(client, body, 302, typed="kernel")
    (ask,) = asked(world)
    assert ask.action == "rebuild"
    assert ask.parameters["bounds"] == {"attack/1": bound}
    assert ask.parameters["buckets"]["attack/1"]["snapshot"] == fits.file
    entry = AuditEntry.objects.get(action="job.rebuild")
    assert str(bound) in str(entry.facts)


def test_another_bound_than_was_reviewed_is_reviewed_again(client: Client) -> None:
    now = ahead("attack/1")
    body = review(client, bound=stamp(now))
    confirm(client, body, 409, typed="kernel", bound=stamp(now - 60_000))
    confirm(client, body, 409, typed="kernel", bound="")


@pytest.mark.parametrize(
    ("bound", "ahead_too", "says"),
    [
        ("soon", True, "Expected a day and a time"),
        ("2099-01-01T00:00:00", True, "Expected a past time"),
        ("2026-01-01T00:00:00", False, "no clock of this query's buckets is ahead"),
    ],
)
def test_a_bound_that_is_none(client: Client, bound: str, ahead_too: bool, says: str) -> None:
    if ahead_too:
        ahead("attack/1")
    assert says in text_of(review(client, 422, bound=bound))


def test_a_bound_of_an_earlier_epoch_leaves_snapshots_out_too(client: Client) -> None:
    had, lacks = snapshot("attack", 1, 5, HOUR), snapshot("attack", 1, 7, HOUR)
    pairs = [(had.clock - 1, 4)]
    FoldSnapshot.objects.filter(pk=had.pk).update(bounds=dump_pairs(pairs))
    assert line(review(client, start="time", time=stamp(now_ms())), "attack/1")[2] == str(
        lacks.next_offset
    )
    LogBound.objects.create(bucket="attack/1", epoch=3, pairs=dump_pairs(pairs))
    assert line(review(client, start="time", time=stamp(now_ms())), "attack/1")[2] == str(
        had.next_offset
    )
