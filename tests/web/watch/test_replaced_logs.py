"""A source topic that was deleted and created again, as the web side sees it."""

from __future__ import annotations

import pytest
from django.test import Client

from dashboard.core.common.scenarios import topics
from dashboard.core.common.times import MINUTE_MS, now_ms
from dashboard.core.job.models import BucketStatus
from dashboard.core.states.models import FoldSnapshot, LogBound, SinkOffset
from dashboard.operate.dead_letters.models import DeadLetter
from dashboard.operate.requests.replays import ReplayChoice, plan
from dashboard.watch.agents.models import LateHour
from support.web.heartbeats import heartbeat, materialise
from support.web.pages import text_of
from support.web.web_fixtures import make_user
from support.web.world import World
from wire.job import Heartbeat, LatenessReport, QueryReport, encode
from wire.sink import DeadRecord, encode_dead_letter

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("stopped_clock")]

NAMES = ("attack", "connectivity")
WHY = (
    "a topic was deleted and created again: have the job read the new log, or reset the pipeline, "
    "on the job's page (LogReplaced: attack.reports: deleted and created again)"
)


def waits(world: World, *replaced: str) -> None:
    """The job reports that it waits."""
    report = QueryReport("kernel", now_ms(), "waiting", 1, WHY, since=now_ms(), replaced=replaced)
    world.job.producer.send_and_wait(topics().progress, b"kernel", encode(report))
    world.materialise()


def late(*counts: int, log: str, epoch: int) -> list[Heartbeat]:
    """Heartbeats of a bucket that reads a log from its beginning, with late reports in each."""
    return [
        heartbeat(
            now_ms(), offset=at, log=log, epoch=epoch, agents=(LatenessReport("w", late=count),)
        )
        for at, count in enumerate(counts)
    ]


def test_the_board_says_what_the_job_waits_for_and_an_admin_is_led_to_the_new_log(
    world: World, client: Client
) -> None:
    materialise(world, *(heartbeat(now_ms() - MINUTE_MS, "attack", at) for at in range(4)))
    waits(world, "attack")
    page = text_of(client.get("/s/attack/").content.decode())
    assert "The job waits: a topic was deleted and created again" in page
    assert "No report that came since is on the board." in page
    client.force_login(make_user("admin"))
    link = "/replay/?query=kernel&amp;scenario=attack&amp;start=earliest"
    for address in ("/s/attack/", "/job/"):
        assert link in client.get(address).content.decode()


def test_a_job_that_runs_again_waits_no_more(world: World, client: Client) -> None:
    waits(world, "attack")
    report = QueryReport("kernel", now_ms(), "running", 2, since=now_ms())
    world.job.producer.send_and_wait(topics().progress, b"kernel", encode(report))
    world.materialise()
    assert "The job waits" not in text_of(client.get("/s/attack/").content.decode())


def test_no_snapshot_of_another_log_is_planned_with(world: World) -> None:
    materialise(world, *(heartbeat(now_ms(), name, at) for name in NAMES for at in range(4)))
    for name in NAMES:
        FoldSnapshot.objects.create(
            scenario=name, partition=0, next_offset=2, clock=1, taken_at=1, assets=1
        )
    waits(world, *NAMES)
    edges = {(name, at): (0, 9) for name in NAMES for at in range(4)}
    buckets = plan(ReplayChoice("kernel", "attack", "earliest"), edges).buckets
    assert [bucket.name for bucket in buckets if bucket.snapshot] == []


def test_late_reports_of_the_new_log_count_from_its_beginning(world: World) -> None:
    materialise(world, *late(1, 1, 1, 1, log="old", epoch=1))
    materialise(world, *late(2, log="new", epoch=2))
    assert LateHour.objects.get().late == 4 + 2


def test_a_log_that_is_read_again_counts_nothing_twice(world: World) -> None:
    materialise(world, *late(1, 1, 1, 1, log="old", epoch=1))
    materialise(world, *late(2, log="old", epoch=2))
    assert LateHour.objects.get().late == 4


def test_snapshots_and_bounds_of_the_old_log_are_forgotten(world: World) -> None:
    for partition in (0, 1):
        materialise(world, heartbeat(now_ms(), "attack", partition, log="old"))
        FoldSnapshot.objects.create(
            scenario="attack", partition=partition, next_offset=9, clock=1, taken_at=1, assets=1
        )
        LogBound.objects.create(bucket=f"attack/{partition}", epoch=1, pairs="[[1, 9]]")
    materialise(world, heartbeat(now_ms(), "attack", 0, log="new", epoch=2, offset=1))
    assert [row.partition for row in FoldSnapshot.objects.all()] == [1]
    assert [row.bucket for row in LogBound.objects.all()] == ["attack/1"]
    assert BucketStatus.objects.get(bucket="attack/0").log == "new"


def test_a_letter_of_the_new_log_is_no_repeat_of_one_at_the_same_place(world: World) -> None:
    for appended_at in (1_000, 1_000, 2_000):
        dead = DeadRecord("not-json", "attack.reports", 0, 7, appended_at, b"shop", b"{")
        key, value, headers = encode_dead_letter(dead)
        world.job.producer.send_and_wait(topics().dead_letters, key, value, headers=headers)
    world.materialise()
    repeats = DeadLetter.objects.order_by("appended_at").values_list("appended_at", "repeats")
    assert list(repeats) == [(1_000, 1), (2_000, 0)]


def test_a_sink_topic_that_was_created_again_is_read_from_its_beginning(world: World) -> None:
    materialise(world, *(heartbeat(now_ms(), offset=at) for at in range(5)))
    world.bus.delete(topics().buckets)
    world.materialise()  # creates it
    materialise(world, *(heartbeat(now_ms() + 1, offset=at, epoch=2) for at in range(9)))
    row = SinkOffset.objects.get(topic=topics().buckets)
    assert (row.next_offset, row.log) == (9, world.bus.topic_ids([row.topic])[row.topic])
    assert BucketStatus.objects.get(bucket="attack/0").epoch == 2
