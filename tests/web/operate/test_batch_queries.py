"""The pages of batch queries: what if, and the state store beside the database."""

from __future__ import annotations

import json
import re
import uuid
from typing import Any

import pytest
from django.test import Client
from msgspec.structs import replace

from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.times import DAY_MS, exact_span, now_ms
from dashboard.core.job.models import JobRequest
from dashboard.core.states.models import FoldSnapshot
from dashboard.operate.requests import models
from dashboard.operate.requests.models import Reading, StoredRow, Trial, TrialResult
from dashboard.operate.requests.what_if import begun_at
from domain.asset import all_timers
from domain.overlay import overlaid
from streaming.queries.comparison import History, HistoryTally, compare
from support.spark.query_results import asked, bring, heard_of, tell
from support.web.pages import text_of
from support.web.web_fixtures import make_user
from support.web.world import World
from wire.batch_query import (
    Began,
    Stored,
    StoredAsset,
    StoredBucket,
    WhatIf,
    WhatIfResult,
    parameters_of,
)
from wire.job import AskStep, JobAnswer

pytestmark = [pytest.mark.django_db, pytest.mark.role("admin")]


def read(client: Client, **fields: Any) -> Any:
    return client.post("/state-store/", {"scenario": "attack", **fields})


def names(answer: Any) -> list[str]:
    """The assets that a page lists, from the top."""
    return re.findall(r'class="asset-name" href="[^"]+"[^>]*><bdi>(\w+)', answer.content.decode())


def stored(world: World, ask: Any, scenario: str = "attack") -> Stored:
    """What the state store has, as the fold has it."""
    rows, buckets = [], []
    for (name, partition), bucket in world.job.buckets.items():
        if name != scenario:
            continue
        for asset, has in bucket.assets.items():
            rule = bucket.scenario
            timers = [(timer.time, timer.type, "") for timer in sorted(all_timers(has, rule))]
            rows.append(
                StoredAsset(
                    partition, asset, has.state, has.shown, has.previous, has.since,
                    has.unconfirmed is not None, has.offset, has.step, has.changed,
                    has.emitted_at, list(has.votes.values()), has.pending(rule), has.override,
                    timers, len(has.answers), has.forget_at, has.unconfirmed, has.disputed,
                    sorted(has.waits.items()), has.purged_at,
                )
            )  # fmt: skip
        plain = bucket.scenario.to_plain()
        buckets.append(StoredBucket(partition, bucket.clock, bucket.offset, bucket.live, plain))
    return Stored(str(ask), 0, rows, True, "kernel", 1, 7, now_ms(), cut=False, buckets=buckets)


# ---- the state store ----------------------------------------------------------------------------


def test_a_reading_is_asked_for_followed_and_shown(world: World, client: Client) -> None:
    heard_of(world)
    world.report("shop", "under-attack")
    world.report("bank", "clear")
    world.command("set", "pinned", state="clear")
    world.command("purge", "gone")
    world.report("late", "under-attack")
    world.write()
    answer = read(client)
    assert answer.status_code == 302
    [ask] = asked(world.gateway)
    assert (ask.action, ask.query, ask.parameters["scenario"]) == ("read-state", "python", "attack")
    page = client.get(answer.url).content.decode()
    assert "waiting" in page
    assert "Cancel the run" in page
    tell(world, JobAnswer(ask.id, "read-state", "accepted", step=AskStep(10, 40, "assets")))
    page = client.get(answer.url).content.decode()
    assert 'aria-valuenow="25"' in page
    assert "10 of 40 assets" in page

    taken = stored(world, ask.id)
    world.report("late", "clear")  # the board goes on meanwhile
    world.write()
    bring(world, taken)
    tell(world, JobAnswer(ask.id, "read-state", "done", "5 assets"))
    verdicts = dict(StoredRow.objects.values_list("asset", "verdict"))
    assert verdicts.pop("late") == "behind"
    assert set(verdicts.values()) == {"equal"}
    assert {"shop", "bank", "pinned"} <= set(verdicts)
    page = client.get(answer.url).content.decode()
    assert "5 assets" in page
    assert "Cancel the run" not in page
    assert re.search(r"batch 7 of the query kernel", page)
    assert names(client.get(answer.url + "?verdict=behind")) == ["late"]
    assert names(client.get(answer.url + "?q=an&sort=-asset")) == ["bank"]


def test_what_differs_is_found_and_said_field_by_field(world: World, client: Client) -> None:
    heard_of(world)
    for name in ("same", "other", "extra"):
        world.report(name, "under-attack")
    world.write()
    url = read(client).url
    ask = asked(world.gateway)[0].id
    taken = stored(world, ask)
    rows = [row for row in taken.rows if row.asset != "extra"]
    wrong = next(row for row in rows if row.asset == "other")
    rows[rows.index(wrong)] = StoredAsset(
        **{name: getattr(wrong, name) for name in StoredAsset.__struct_fields__}
        | {"state": "clear", "votes": wrong.votes[:1]}
    )
    fields = {name: getattr(taken, name) for name in Stored.__struct_fields__}
    bring(world, Stored(**fields | {"rows": rows}))
    verdicts = {row.asset: (row.verdict, row.fields) for row in StoredRow.objects.all()}
    assert verdicts == {
        "same": ("equal", ""),
        "other": ("differs", "state, votes"),
        "extra": ("differs", "state"),
    }
    page = client.get(url).content.decode()
    assert names(client.get(url)) == ["extra", "other", "same"]
    assert "not in the store" in page
    lines = client.get(url + "rows.ndjson?verdict=differs").getvalue().splitlines()
    objects = [json.loads(line) for line in lines]
    assert [(one["asset"], one["store"] is None) for one in objects] == [
        ("extra", True),
        ("other", False),
    ]


def test_a_results_second_telling_and_a_strangers_change_nothing(
    world: World, client: Client
) -> None:
    heard_of(world)
    world.report("shop", "under-attack")
    world.write()
    read(client)
    ask = asked(world.gateway)[0].id
    bring(world, stored(world, ask), stored(world, ask), stored(world, uuid.uuid4()))
    bring(world, Stored("no uuid", 0, last=True))
    assert StoredRow.objects.count() == 1


def test_hostile_and_wrong_readings_are_refused_and_kept_as_typed(
    world: World, client: Client
) -> None:
    answer = read(client, asset="no\nname")
    assert answer.status_code == 422
    answer = read(client, asset="shop", partition="99")
    page = answer.content.decode()
    assert answer.status_code == 422
    assert "Expected 0 to" in page
    assert 'value="shop"' in page
    assert read(client, asset="shop").status_code == 409  # the job has told of nothing
    assert read(client, scenario="none").status_code == 422
    assert not Reading.objects.exists()
    assert not asked(world.gateway)
    assert client.get(f"/state-store/{uuid.uuid4()}/").status_code == 404


def test_old_readings_go(world: World, client: Client) -> None:
    kept, most = models.READINGS_KEPT, models.READINGS_KEPT.at_most or 0
    for at in range(most + 2):
        Reading.objects.create(
            id=uuid.uuid4(), scenario="attack", query="kernel", asked_at=now_ms() - at
        )
    assert kept.apply(now_ms()) == 2
    assert kept.apply(now_ms() + 3 * DAY_MS + 1000) == most


# ---- cancelled, lost ----------------------------------------------------------------------------


def test_a_batch_query_is_cancelled_by_a_request(world: World, client: Client) -> None:
    heard_of(world)
    url = read(client).url
    ask = asked(world.gateway)[0].id
    answer = client.post(f"/batch-queries/{ask}/cancel/", {"back": url})
    assert answer.url == url  # type: ignore[attr-defined]
    assert asked(world.gateway)[1].parameters == {"ask": ask}
    tell(world, JobAnswer(ask, "read-state", "failed", "cancelled by admin: "))
    assert "Failed: cancelled by admin" in client.get(url).content.decode()
    client.post(f"/batch-queries/{ask}/cancel/", {"back": "https://elsewhere.example/"})
    assert len(asked(world.gateway)) == 2, "a query that has ended is cancelled again"
    assert client.post(f"/batch-queries/{uuid.uuid4()}/cancel/").status_code == 404


def test_a_result_that_does_not_arrive_is_told(world: World, client: Client) -> None:
    heard_of(world)
    url = read(client).url
    ask = asked(world.gateway)[0].id
    tell(world, JobAnswer(ask, "read-state", "done", "5 assets"))
    assert "on its way" in client.get(url).content.decode()
    JobRequest.objects.filter(pk=ask).update(answered_at=now_ms() - 120_000)
    assert "is the materialiser running?" in client.get(url).content.decode()


# ---- what if ------------------------------------------------------------------------------------

TRY = {"scenario": "attack", "back": "6"}


def what_if_result(world: World, ask: str) -> WhatIfResult:
    """What a batch query would tell of three assets."""
    rule = scenarios()["attack"]
    other = overlaid(rule, {"min_voters": 1})
    now = now_ms()
    tally = HistoryTally(now - 1_000_000, now, other)
    early, late = now - 900_000, now - 500_000
    compare(
        tally,
        [
            History("same", [(early, "clear")], [(early, "clear")]),
            History("moved", [(early, "under-attack")], [(late, "under-attack")]),
            History("gained", [(early, "clear")], [(early, "clear"), (late, "under-attack")]),
        ],
    )
    offsets = {0: (10, 110)}
    plain = (rule.to_plain(), other.to_plain())
    began = {
        0: Began("snapshot", now - 2_000_000),
        1: Began("snapshot", now - 2_100_000),
        2: Began("empty", now - 1_500_000, "digest: expected that of attack-2-9.fold"),
        3: Began("log", now - 2_000_000),
    }
    totals = tally.totals(began, offsets, ("kernel", "kernel"), plain, 1234)
    return WhatIfResult(ask, 0, tally.different(), last=True, totals=totals)


def test_a_rule_is_tried_and_what_it_makes_is_shown(world: World, client: Client) -> None:
    heard_of(world)
    answer = client.post("/what-if/run/", {**TRY, "min_voters": "1", "hold-0": "10s"})
    assert answer.status_code == 302, answer.content.decode()
    [ask] = asked(world.gateway)
    assert (ask.action, ask.query) == ("what-if", "python")
    assert ask.parameters["changes"]["holds"]["under-attack"] == 10_000
    assert abs(now_ms() - 6 * 3_600_000 - ask.parameters["since"]) < 60_000
    url = answer.url  # type: ignore[attr-defined]
    bring(world, what_if_result(world, ask.id))
    tell(world, JobAnswer(ask.id, "what-if", "done", "100 records"))
    page = client.get(url).content.decode()
    assert names(client.get(url)) == ["gained", "moved"]
    assert "100 records under each rule" in page
    link = re.search(r'href="([^"]+)">Propose this change', page)
    assert link
    assert client.get(link[1].replace("&amp;", "&")).status_code == 200
    assert "min_voters = 1" in page
    again = client.get(f"/what-if/?scenario=attack&rule={Trial.objects.get().keys}")
    assert "min_voters = 1" in again.content.decode()
    assert names(client.get(f"{url}?q=gain")) == ["gained"]
    operator = Client()
    operator.force_login(make_user("operator"))
    page = operator.get(url).content.decode()
    assert "gained" in page
    assert "Propose this change" not in page
    assert "Admins can try" in operator.get("/what-if/").content.decode()


def test_a_result_begins_no_earlier_than_the_log(world: World) -> None:
    totals = what_if_result(world, str(uuid.uuid4())).totals
    assert totals is not None
    since = totals.since
    for began, begin in [
        ({}, since),
        ({0: Began("snapshot", since - 5), 1: Began("empty", since - 9)}, since),
        ({0: Began("log", since + 5), 1: Began("log", since + 9)}, since + 5),
        ({0: Began("log", since + 5), 1: Began("snapshot", since - 9)}, since),
    ]:
        assert begun_at(replace(totals, began=began)) == begin


def test_the_form_says_how_much_earlier_an_empty_state_starts(world: World, client: Client) -> None:
    heard_of(world)
    words = " ".join(client.get("/what-if/?scenario=attack").content.decode().split())
    rule = scenarios()["attack"]
    assert rule.lifetime is not None
    assert rule.forget_delay is not None
    span = exact_span(rule.lifetime + rule.forget_delay + max((rule.holds or {"": 0}).values()))
    assert f"by the present rule start {span} earlier" in words


def test_the_newest_snapshots_that_fit_are_offered(world: World, client: Client) -> None:
    heard_of(world)
    hour, now = 3_600_000, now_ms()
    for at, n, age in [(0, 5, 30), (0, 9, 7), (0, 20, 3), (1, 8, 5), (2, 7, 31), (4, 6, 31)]:
        FoldSnapshot.objects.create(
            scenario="attack", partition=at, next_offset=n, clock=now - age * hour, taken_at=now,
            file=f"attack-{at}-{n}.fold", assets=5, digest=f"{n:064d}",
        )  # fmt: skip
    client.post("/what-if/run/", {**TRY, "min_voters": "1"})
    [ask] = asked(world.gateway)
    assert ask.parameters["buckets"] == {
        f"attack/{at}": {"offset": n, "snapshot": f"attack-{at}-{n}.fold", "digest": f"{n:064d}"}
        for at, n in [(0, 9), (2, 7)]
    }
    assert isinstance(parameters_of(ask), WhatIf)
    # a hold of seven hours has to have passed when the window begins
    client.post("/what-if/run/", {**TRY, "hold-0": "7h"})
    assert asked(world.gateway)[1].parameters["buckets"]["attack/0"]["offset"] == 5
    # votes that had expired by then would live for a month: no snapshot has them
    client.post("/what-if/run/", {**TRY, "vote_lifetime": "30d"})
    assert asked(world.gateway)[2].parameters["buckets"] == {}


def test_a_result_says_what_was_begun_with(world: World, client: Client) -> None:
    heard_of(world)
    url = client.post("/what-if/run/", {**TRY, "min_voters": "1"}).url  # type: ignore[attr-defined]
    ask = asked(world.gateway)[0].id
    part = what_if_result(world, ask)
    bring(world, part)
    page = client.get(url).content.decode()
    lines = re.findall(r'<li data-means="(\w+)">(.*?)</li>', page, re.DOTALL)
    plain = [(means, text_of(text)) for means, text in lines]
    assert [means for means, _ in plain] == ["snapshot", "log", "empty"]
    assert "The states as they were" in plain[0][1]
    assert "Partitions 0, 1" in plain[0][1]
    assert plain[2][1].endswith("Partition 2; digest: expected that of attack-2-9.fold")
    # of a trial of long ago it was not told
    Trial.objects.update(totals=re.sub(r',"began":\{.*\}\}$', "}", Trial.objects.get().totals))
    page = client.get(url).content.decode()
    assert "after a warm-up from" in page
    assert "data-means" not in page


def test_voters_and_memory_are_tried_in_their_fields(world: World, client: Client) -> None:
    heard_of(world)
    client.post("/what-if/run/", {**TRY, "raise_voters": "2", "forget_after": "0s"})
    [ask] = asked(world.gateway)
    voters = {"lower": scenarios()["attack"].min_voters, "raise": 2}
    assert ask.parameters["changes"] == {"min_voters": voters, "forget_after": 0}
    form = client.get("/what-if/?scenario=orders").context["form"]
    assert not {"raise_voters", "forget_after"} & form.fields.keys()


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({"rule": "holds = {"}, "expected TOML"),
        ({"forget_after": "long"}, "attack.forget_after"),
        ({"raise_voters": "0"}, "greater than or equal to 1"),
        ({"rule": 'holds = { nowhere = "5s" }'}, "attack.holds.nowhere"),
        ({"rule": "states = []"}, "attack.states"),
        ({"rule": "min_voters = 2", "min_voters": "3"}, "not in both"),
        ({"hold-0": "five"}, "attack.holds.under-attack"),
        ({"vote_lifetime": "-1s"}, "attack.vote_lifetime"),
        ({"rule": 'vote_lifetime = "none"'}, "with severity a vote without an end"),
        ({"min_voters": "0"}, "greater than or equal to 1"),
        ({}, "Nothing is changed"),
        ({"min_voters": "1", "back": "since"}, "Expected a time"),
        ({"min_voters": "1", "back": "since", "since": "1999-01-01T00:00"}, "last seven days"),
        ({"min_voters": "1", "back": "6", "since": "2026-11-22T08:00"}, "Leave this empty"),
        ({"min_voters": "1", "back": "forever"}, "not one of the available choices"),
        ({"rule": "x = " + "[" * 3000}, "expected TOML"),
        ({"rule": "x" + ".x" * 200}, "expected TOML with keys of at most 128 parts"),
    ],
)
def test_a_wrong_rule_is_named_and_kept(
    world: World, client: Client, fields: dict[str, str], wrong: str
) -> None:
    heard_of(world)
    typed = {"reason": "so typed", **fields}
    answer = client.post("/what-if/run/", {**TRY, **typed})
    assert answer.status_code == 422
    page = answer.content.decode()
    assert wrong in page
    assert "so typed" in page
    assert not asked(world.gateway)
    assert not Trial.objects.exists()


def test_what_if_without_a_job_or_a_scenario(world: World, client: Client) -> None:
    assert client.post("/what-if/run/", {**TRY, "min_voters": "1"}).status_code == 409
    assert client.post("/what-if/run/", {**TRY, "scenario": "none"}).status_code == 404
    assert client.get("/what-if/?scenario=none").status_code == 404
    assert client.get("/what-if/?rule=%00").status_code == 200
    assert "Nothing yet." in client.get("/what-if/").content.decode()


def test_results_are_bounded_and_old_trials_go(world: World, client: Client) -> None:
    heard_of(world)
    client.post("/what-if/run/", {**TRY, "min_voters": "1"})
    ask = asked(world.gateway)[0].id
    part = what_if_result(world, ask)
    bring(world, part, part, WhatIfResult(str(uuid.uuid4()), 0, part.rows))
    assert TrialResult.objects.count() == 2
    assert models.TRIALS_KEPT.apply(now_ms() + 14 * DAY_MS + 1000) == 1
    assert not TrialResult.objects.exists()


def test_more_asks_than_the_limit_leave_no_row(
    world: World, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dashboard.core.job import requests

    heard_of(world)
    monkeypatch.setattr(requests, "REQUEST_LIMIT", requests.Limit("requests-test", 1))
    assert read(client).status_code == 302
    assert read(client).status_code == 429
    assert client.post("/what-if/run/", {**TRY, "min_voters": "1"}).status_code == 429
    assert (Reading.objects.count(), Trial.objects.count()) == (1, 0)
