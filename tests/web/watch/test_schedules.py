"""Scheduled tasks on pages and over REST: begun, listed, run, set aside, cancelled."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from dashboard.core.audit.models import AuditEntry
from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.text import isolated
from dashboard.core.common.times import MINUTE_MS, now_ms
from dashboard.core.states.models import Transition
from dashboard.core.states.stores import record_of
from dashboard.watch.bulk import execution, views
from dashboard.watch.bulk.models import Run
from dashboard.watch.commands import forms
from dashboard.watch.commands.models import Command as Row
from dashboard.watch.commands.models import ScheduledTask
from domain.records import Schedule
from domain.scenario import Scenario
from domain.scenario_parser import scenario_from_plain
from support.web.web_fixtures import bearer, error_of, logged_in_as
from support.web.world import World
from wire.source import encode_scenario

pytestmark = pytest.mark.django_db

FUTURE = "2031-01-01T10:00"
FIELDS = {"do": "notify", "condition": "under-attack", "after": "5m", "reason": "watch it"}


@pytest.fixture
def attacked(world: World) -> World:
    """A site under attack."""
    world.report("shop", "under-attack")
    world.write()
    return world


def scheduled(world: World, asset: str = "shop", **more: Any) -> str:
    """A task of olga's, written; its id. It notifies in five minutes unless told otherwise."""
    given = {"do": "notify", "after": 5 * MINUTE_MS, **more}
    id_ = world.command("schedule", asset, schedule=Schedule(**given))
    world.write()
    return id_


def task() -> ScheduledTask:
    return ScheduledTask.objects.get()


def test_a_task_is_kept_from_its_command_to_its_last_run(attacked: World):
    id_ = scheduled(attacked, condition="under-attack")
    row = task()
    assert (str(row.task), row.asset, row.do, row.owner) == (id_, "shop", "notify", "olga")
    assert (row.condition, row.outcome, row.ended_at) == ("under-attack", "", None)
    assert row.next_at is not None
    attacked.later(5 * MINUTE_MS)
    attacked.report("shop", "under-attack")
    attacked.write()
    row = task()
    assert (row.outcome, row.next_at, row.ending) == ("applied", None, "done")
    assert Transition.objects.filter(asset="shop", kind="schedule").count() == 1


@pytest.mark.parametrize(
    ("kind", "ending"), [("cancel", "cancelled"), ("purge", "purged"), ("release", "")]
)
def test_how_a_task_ends_is_kept(attacked: World, kind: str, ending: str):
    id_ = scheduled(attacked)
    more = {"task": id_} if kind == "cancel" else {}
    attacked.command(kind, "shop", **more)
    attacked.write()
    assert task().ending == ending


def test_a_task_that_purges_its_asset_is_done(attacked: World):
    scheduled(attacked, do="purge")
    attacked.later(5 * MINUTE_MS)
    attacked.write()
    assert (task().ending, task().next_at) == ("done", None)


def test_the_list_is_filtered_and_says_who_when_and_how(attacked: World, client: Client):
    scheduled(attacked, every=60_000, times=3)
    text = client.get("/schedules/").content.decode()
    for part in ("shop", "Notify", "olga", "every 1 m", "3 more", "none yet", "Waiting"):
        assert part in text, part
    for query, shown in {
        "?q=ho": 1, "?q=none": 0, "?owner=olga": 1, "?owner=ed": 0, "?do=set": 0, "?status=over": 0,
        "?status=waiting&scenario=attack&do=notify": 1, "?status=aside": 0,
    }.items():  # fmt: skip
        assert len(client.get(f"/schedules/{query}").context["entries"]) == shown, query
    assert client.get("/schedules/?status=lost").status_code == 422
    assert "Nothing matches" in client.get("/schedules/?q=none").content.decode()


def test_an_empty_list_says_where_tasks_begin(world: World, client: Client):
    assert "Nothing is scheduled" in client.get("/schedules/").content.decode()


def change(world: World, scenario: Scenario) -> None:
    """Another rule, in every partition."""
    for partition in range(scenario.partitions):
        world.job.command("attack", None, encode_scenario(scenario), partition)


def test_a_task_set_aside_is_counted_with_its_reason(attacked: World, client: Client):
    scheduled(attacked, condition="suspicious")
    plain = scenarios()["attack"].to_plain()
    plain["states"] = [spec for spec in plain["states"] if spec["name"] != "suspicious"]
    plain["rule"] = {"kind": "latest"}
    plain |= {"holds": {}, "reminders": {}, "purge_after": {}}
    change(attacked, scenario_from_plain(plain))
    attacked.write()
    assert task().aside == "the scenario has no state suspicious"
    text = client.get("/schedules/").content.decode()
    assert "One task is set aside" in " ".join(text.split())
    assert "the scenario has no state suspicious" in text
    change(attacked, scenarios()["attack"])
    attacked.write()
    assert task().aside == ""


# ---- by hand ------------------------------------------------------------------------------------


def test_an_assets_page_schedules_lists_and_cancels(attacked: World, client: Client, user: User):
    data = {"id": str(uuid.uuid4()), **FIELDS}
    assert client.post("/s/attack/command/schedule/shop/", data).status_code == 302
    attacked.write()
    attacked.tail()
    row = task()
    assert (row.owner, row.reason, str(row.task)) == (user.username, "watch it", data["id"])
    page = " ".join(client.get("/s/attack/a/shop/").content.decode().split())
    assert "Scheduled" in page
    assert "watch it" in page
    assert f'name="task" value="{row.task}"' in page
    cancel = {"id": str(uuid.uuid4()), "task": str(row.task)}
    answer: Any = client.post("/s/attack/schedules/cancel/shop/", cancel)
    assert answer["Location"].endswith(f"?command={cancel['id']}")
    attacked.write()
    assert task().ending == "cancelled"
    noted = AuditEntry.objects.filter(action__startswith="command.")
    assert sorted(noted.values_list("action", flat=True)) == ["command.cancel", "command.schedule"]


@pytest.mark.parametrize(
    ("more", "field", "says"),
    [
        ({"do": ""}, "do", "Choose what is to be done."),
        ({"do": "set"}, "state", "Choose the state to set."),
        ({"after": ""}, "after", "Expected a time such as 30s, 5m or 2h."),
        ({"after": "soon"}, "after", "Expected a time such as 30s, 5m or 2h, at least 1s."),
        ({"every": "5ms"}, "every", "Expected a time such as 30s, 5m or 2h, at least 1s."),
        ({"times": "3"}, "times", "Expected nothing here for a task that runs once."),
        ({"run_at": FUTURE}, "run_at", "Expected a time here or a span above, not both."),
        ({"run_at": "2020-01-01T10:00"}, "run_at", "This time is past; expected a future one."),
        ({"run_until": FUTURE}, "run_until", "Expected nothing here for a task that runs once."),
        (
            {"after": "", "run_at": "2031-01-02T10:00", "every": "1h", "run_until": FUTURE},
            "run_until",
            "Expected a time after the first run.",
        ),
        ({"condition": "odd"}, "condition", "There is no state “odd”."),
        ({"reason": ""}, "reason", "This field is required."),
    ],
)
def test_what_is_wrong_stands_at_its_field_and_nothing_is_sent(
    attacked: World, client: Client, more: dict[str, str], field: str, says: str
):
    data = {"id": str(uuid.uuid4()), **FIELDS, **more}
    answer = client.post("/s/attack/command/schedule/shop/", data)
    assert answer.status_code == 422
    assert error_of(answer, field) == says
    assert not Row.objects.exists()


def test_a_form_schedules_at_a_time_in_the_users_zone_until_another(
    attacked: World, client: Client
):
    data = {
        "id": str(uuid.uuid4()), **FIELDS, "after": "", "run_at": "2031-01-01T10:00",
        "every": "1h", "run_until": "2031-01-01T12:30", "zone": "Europe/Berlin",
    }  # fmt: skip
    assert client.post("/s/attack/command/schedule/shop/", data).status_code == 302
    attacked.write()
    row = task()
    assert (row.next_at, row.every) == (1_925_024_400_000, 3_600_000)
    assert row.until == 1_925_024_400_000 + 9_000_000


# ---- what time alone may hide -------------------------------------------------------------------

PURGES = "This may hide an attack: time alone will remove the row, whatever its agents say then."


def sets(label: str) -> str:
    return (
        f"This may hide an attack: time alone will pin it to {isolated(label)}, "
        "whatever its agents say then."
    )


def schedule(client: Client, asset: str = "shop", scenario: str = "attack", **more: str) -> Any:
    """Send the form of a task in five minutes."""
    data = {"id": str(uuid.uuid4()), "after": "5m", "reason": "cleaning up", **more}
    return client.post(f"/s/{scenario}/command/schedule/{asset}/", data)


@pytest.mark.parametrize(
    ("task", "says"),
    [
        ({"do": "purge"}, PURGES),
        ({"do": "purge", "condition": "clear"}, PURGES),
        ({"do": "set", "state": "clear"}, sets("Clear")),
        ({"do": "set", "state": "suspicious"}, sets("Suspicious")),
        ({"do": "set", "state": "clear", "condition": "suspicious"}, sets("Clear")),
    ],
)
def test_a_task_that_may_hide_an_attack_is_confirmed(
    attacked: World, client: Client, task: dict[str, str], says: str
):
    asked = schedule(client, **task)
    page = asked.content.decode()
    assert asked.status_code == 200
    assert not Row.objects.exists()
    for part in (f"<strong>{says}</strong>", 'role="alert"', "Schedule anyway", ">Cancel<"):
        assert part in page, part
    assert f'name="confirm" value="{says}"' in page
    assert schedule(client, **task, confirm=says).status_code == 302
    assert Row.objects.count() == 1


@pytest.mark.parametrize(
    "task",
    [
        {"do": "set", "state": "under-attack"},
        {"do": "set", "state": "clear", "condition": "clear"},
        {"do": "set", "state": "suspicious", "condition": "clear"},
        {"do": "release"},
        {"do": "emit"},
    ],
)
def test_a_task_that_hides_nothing_is_sent_at_once(
    attacked: World, client: Client, task: dict[str, str]
):
    assert schedule(client, **task).status_code == 302


def test_what_was_confirmed_of_another_task_does_not_count(attacked: World, client: Client):
    asked = schedule(client, do="purge", confirm=sets("Clear"))
    assert f"<strong>{PURGES}</strong>" in asked.content.decode()
    assert not Row.objects.exists()


def test_a_form_that_came_too_late_is_confirmed_at_once(attacked: World, client: Client):
    late = {"do": "purge", "unchanged": "on", "seen": "0.0.0", "sight": '{"at":1,"state":"clear"}'}
    asked = schedule(client, **late)
    page = asked.content.decode()
    assert (asked.status_code, Row.objects.exists()) == (409, False)
    assert "has changed since you opened this form" in page
    assert f'name="confirm" value="{PURGES}"' in page


def test_a_task_that_the_job_found_too_late_comes_back_as_it_was(attacked: World, client: Client):
    """With its warning: the site is still worse than what is to be pinned."""
    record = record_of("attack", "shop")
    attacked.command("set", "shop", state="suspicious")  # not known here yet
    task = {"do": "set", "state": "clear", "unchanged": "on", **forms.shown(record, now_ms())}
    assert schedule(client, **task, confirm=sets("Clear")).status_code == 302
    attacked.write()
    attacked.tail()
    page = client.get(f"/commands/{Row.objects.get().pk}/").content.decode()
    assert "Schedule anyway" in page
    assert f'name="confirm" value="{sets("Clear")}"' in page
    assert "Yes, purge it" not in page


def test_in_a_life_cycle_nothing_is_hidden(world: World, client: Client):
    world.report("o-1", "shipped", scenario="orders")
    world.write()
    for task in ({"do": "purge"}, {"do": "set", "state": "received"}):
        assert schedule(client, "o-1", "orders", **task).status_code == 302
    world.write()
    world.tail()
    page = client.get("/s/orders/a/o-1/").content.decode()
    assert "Scheduled" in page
    assert "may hide an attack" not in page


@pytest.mark.parametrize(
    ("task", "times"),
    [
        ({"do": "purge"}, 1),
        ({"do": "set", "state": "clear"}, 1),
        ({"do": "set", "state": "under-attack"}, 0),
        ({"do": "set", "state": "clear", "condition": "clear"}, 0),
        ({"do": "notify"}, 0),
    ],
)
def test_an_assets_page_says_beside_a_task_that_it_may_hide_an_attack(
    attacked: World, client: Client, task: dict[str, str], times: int
):
    given: dict[str, Any] = {**task, "after": 5 * MINUTE_MS}
    state = given.pop("state", None)
    attacked.command("schedule", "shop", schedule=Schedule(**given), state=state)
    attacked.write()
    attacked.tail()
    page = client.get("/s/attack/a/shop/").content.decode()
    assert page.count("may hide an attack") == times


def review_of(client: Client, **more: str) -> str:
    """The page of a review of a task in ten minutes for all sites."""
    data = {
        "id": str(uuid.uuid4()), "scenario": "attack", "by": "all", "kind": "schedule",
        "after": "10m", "reason": "a drill", "unchanged": "on", **more,
    }  # fmt: skip
    review: Any = client.post("/bulk/review/", data)
    assert review.status_code == 302, review.content.decode()[:3000]
    return " ".join(client.get(review["Location"]).content.decode().split())


def test_a_review_says_of_how_many_a_task_may_hide_an_attack(attacked: World, client: Client):
    attacked.report("mail", "clear")
    attacked.write()
    purges = review_of(client, do="purge")
    assert "time alone will remove the rows, whatever their agents say then." in purges
    assert "This applies to" not in purges
    clears = f"time alone will pin them to {isolated('Clear')}, whatever their agents say then."
    lowers = review_of(client, do="set", to="clear")
    assert f"This may hide an attack: {clears}" in lowers
    assert "This applies to 1 of them." in lowers
    for task in (
        {"do": "set", "to": "under-attack"},
        {"do": "set", "to": "clear", "condition": "clear"},
        {"do": "notify"},
    ):
        assert "may hide" not in review_of(client, **task), task


def test_a_manager_looks_on(attacked: World):
    scheduled(attacked)
    manager = logged_in_as("manager")
    text = manager.get("/schedules/").content.decode()
    assert 'name="task"' not in text
    cancel = {"id": str(uuid.uuid4()), "task": str(task().task)}
    assert manager.post("/s/attack/schedules/cancel/shop/", cancel).status_code == 403


def test_a_run_schedules_for_many(attacked: World, client: Client, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(execution, "PATIENCE_S", 0.0)
    monkeypatch.setattr(execution, "QUIET_S", 0.0)
    monkeypatch.setattr(views, "start_task", lambda task: None)
    attacked.report("mail", "suspicious")
    attacked.write()
    data = {
        "id": str(uuid.uuid4()), "scenario": "attack", "by": "all", "kind": "schedule",
        "do": "set", "to": "suspicious", "after": "10m", "reason": "a drill", "unchanged": "on",
    }  # fmt: skip
    review: Any = client.post("/bulk/review/", data)
    assert review.status_code == 302, review.content.decode()[:3000]
    run = Run.objects.get()
    assert "set a state in 10 m" in client.get(review["Location"]).content.decode()
    timed = {
        **data, "id": str(uuid.uuid4()), "after": "", "run_at": "2031-01-01T09:00", "every": "1h",
        "run_until": "2031-01-01T12:00", "zone": "UTC",
    }  # fmt: skip
    review = client.post("/bulk/review/", timed)
    words = "at 2031-01-01 09:00:00 UTC, then every 1 h, until 2031-01-01 12:00:00 UTC"
    assert words in " ".join(client.get(review["Location"]).content.decode().split())
    client.post(f"/bulk/{run.pk}/start/")
    for _ in range(3):
        execution.work()
        attacked.write()
    rows = ScheduledTask.objects.order_by("asset")
    assert [(row.asset, row.do, row.state) for row in rows] == [
        ("mail", "set", "suspicious"),
        ("shop", "set", "suspicious"),
    ]


def test_programs_schedule_list_and_cancel(attacked: World, user: User):
    api, headers = Client(), bearer(user)
    key = str(uuid.uuid4())
    body = {"do": "notify", "if": "under-attack", "every": 60_000, "reason": "a drill"}
    answer: Any = api.post(
        "/api/v1/scenarios/attack/schedule/shop",
        json.dumps(body),
        content_type="application/json",
        headers=headers | {"Idempotency-Key": key},
    )
    assert answer.status_code == 202, answer.content
    attacked.write()
    [item] = api.get("/api/v1/schedules?do=notify", headers=headers).json()["items"]
    assert (item["id"], item["if"], item["every"], item["next"] > now_ms()) == (
        key,
        "under-attack",
        60_000,
        True,
    )
    [asset_task] = api.get("/api/v1/scenarios/attack/assets/shop", headers=headers).json()["tasks"]
    assert (asset_task["id"], asset_task["next"]) == (key, item["next"])
    api.post(
        "/api/v1/scenarios/attack/cancel/shop",
        json.dumps({"task": key}),
        content_type="application/json",
        headers=headers,
    )
    attacked.write()
    [item] = api.get("/api/v1/schedules?status=over", headers=headers).json()["items"]
    assert item["ending"] == "cancelled"


def test_a_body_that_makes_no_sense_names_its_field(attacked: World, user: User):
    answer: Any = Client().post(
        "/api/v1/scenarios/attack/schedule/shop",
        json.dumps({"do": "emit", "reason": "a drill"}),
        content_type="application/json",
        headers=bearer(user),
    )
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == "after"
