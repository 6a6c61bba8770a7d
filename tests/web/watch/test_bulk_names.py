"""In whose name a run goes on, when it stops for that, and whose pins it ends."""

from __future__ import annotations

import json
import re
import uuid
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from dashboard.core.audit.models import AuditEntry
from dashboard.watch.bulk import execution, models, views
from dashboard.watch.bulk.models import Run
from support.web.web_fixtures import commands_sent, make_user
from support.web.world import World

pytestmark = pytest.mark.django_db

REASON = "all at once"


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """No turn waits for answers that the test has not let come, and nobody wakes a worker."""
    monkeypatch.setattr(execution, "PATIENCE_S", 0.0)
    monkeypatch.setattr(execution, "QUIET_S", 0.0)
    monkeypatch.setattr(views, "start_task", lambda task: None)


def browser(name: str, role: str = "operator") -> Client:
    user = make_user(role)
    User.objects.filter(pk=user.pk).update(username=name)
    client = Client()
    client.force_login(User.objects.get(pk=user.pk))
    return client


@pytest.fixture
def ada() -> Client:
    return browser("ada")


@pytest.fixture
def grace() -> Client:
    return browser("grace")


def board(world: World, *assets: str) -> None:
    for asset in assets:
        world.report(asset, "under-attack")
    world.write()


def reviewed(client: Client, **more: Any) -> Run:
    form = {
        "id": str(uuid.uuid4()), "scenario": "attack", "by": "all", "kind": "set",
        "to": "suspicious", "end": "1h", "reason": REASON, "unchanged": "on", **more,
    }  # fmt: skip
    response = client.post("/bulk/review/", form)
    assert response.status_code == 302, response.content.decode()
    return Run.objects.get(pk=re.findall(r"/bulk/([^/]+)/", response["Location"])[0])


def start(client: Client, run: Run, **more: str) -> int:
    return client.post(f"/bulk/{run.pk}/start/", more).status_code


def asked(client: Client, run: Run, do: str) -> Run:
    assert client.post(f"/bulk/{run.pk}/ask/", {"do": do}).status_code == 302
    run.refresh_from_db()
    return run


def page(client: Client, run: Run, query: str = "") -> str:
    text = client.get(f"/bulk/{run.pk}/{query}").content.decode()
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", text))


def names(world: World) -> dict[str, str]:
    """In whose name a command of a run reached each asset."""
    sent = commands_sent(world.gateway, "attack")
    return {each.asset: each.user for each in sent if each.reason == REASON}


def facts(action: str) -> list[dict[str, Any]]:
    rows = AuditEntry.objects.filter(action=action).order_by("number")
    return [{"by": row.name, "outcome": row.outcome, **json.loads(row.facts)} for row in rows]


def one_portion(run: Run) -> int:
    return execution.RunTask(Run.objects.get(pk=run.pk))._send()


# ---- whose name -------------------------------------------------------------------------------


def test_commands_carry_the_name_of_who_started_the_run(
    world: World, ada: Client, grace: Client
) -> None:
    board(world, "a")
    run = reviewed(ada)
    assert "Prepared by ada" in page(grace, run)
    assert start(grace, run) == 302
    execution.work()
    assert names(world) == {"a": "grace"}
    world.write()
    execution.work()
    body = page(ada, run)
    assert "Prepared by ada; started by grace" in body
    assert "Commands carry the name of grace." in body
    assert "grace prepared by ada" in page_of_runs(ada)
    (entry,) = facts("bulk.started")
    assert (entry["by"], entry["prepared_by"], entry["sent_as"]) == ("grace", "ada", "grace")
    history = ada.get("/s/attack/a/a/").content.decode()
    assert "<bdi>grace</bdi>" in history
    assert "<bdi>ada</bdi>" not in history.split("<main")[1].split("history")[-1]


def page_of_runs(client: Client) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", client.get("/bulk/").content.decode()))


def test_who_goes_on_with_a_paused_run_has_the_rest_sent_in_the_own_name(
    world: World, ada: Client, grace: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execution, "SEND_PORTION", 1)
    board(world, "a", "b", "c")
    run = reviewed(ada)
    start(ada, run)
    assert one_portion(run) == 1
    asked(ada, run, "pause")
    assert "Resume" in page(ada, run)
    assert "Take over and resume as grace" in page(grace, run)
    asked(grace, run, "resume")
    execution.work()
    assert names(world) == {"a": "ada", "b": "grace", "c": "grace"}
    assert [run.sender_of(number) for number in range(3)] == ["ada", "grace", "grace"]
    taken = facts("bulk.started")[-1]
    assert (taken["taken_over_from"], taken["sent_as"]) == ("ada", "grace")
    assert "taken over by grace" in page(ada, run)


# ---- who may not any more ---------------------------------------------------------------------


def deactivate(user: User) -> None:
    User.objects.filter(pk=user.pk).update(is_active=False)


@pytest.mark.parametrize(
    ("lose", "why"),
    [
        (
            lambda user: User.objects.filter(pk=user.pk).update(is_active=False),
            "ada is deactivated",
        ),
        (lambda user: user.groups.clear(), "ada no longer has a role that may command"),
        (lambda user: user.delete(), "ada is no longer a user"),
    ],
)
def test_a_run_stops_when_its_sender_may_not_command_any_more(
    world: World, ada: Client, grace: Client, monkeypatch: pytest.MonkeyPatch, lose: Any, why: str
) -> None:
    monkeypatch.setattr(execution, "SEND_PORTION", 1)
    board(world, "a", "b", "c")
    run = reviewed(ada)
    start(ada, run)
    assert one_portion(run) == 1
    lose(User.objects.get(username="ada"))
    execution.work()
    execution.work()
    run.refresh_from_db()
    assert (run.status, run.problem) == ("stopped", why)
    assert names(world) == {"a": "ada"}
    assert facts("bulk.stopped") == [
        {**facts("bulk.stopped")[0], "by": "worker", "outcome": f"stopped: {why}"}
    ]
    body = page(grace, run)
    assert f"Stopped: {why}." in body
    assert "Take over and resume as grace" in body
    asked(grace, run, "resume")
    execution.work()
    assert names(world) == {"a": "ada", "b": "grace", "c": "grace"}
    world.write()
    execution.work()
    run.refresh_from_db()
    assert (run.status, run.problem, run.tallies) == ("done", "", {"applied": 3})


def test_a_stopped_run_can_be_cancelled_and_hears_its_answers(
    world: World, ada: Client, grace: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execution, "SEND_PORTION", 1)
    board(world, "a", "b")
    run = reviewed(ada)
    start(ada, run)
    one_portion(run)
    User.objects.filter(username="ada").update(is_active=False)
    execution.work()
    world.write()
    execution.work()
    assert set(run.items.values_list("outcome", flat=True)) == {"applied", "ready"}
    asked(grace, run, "cancel")
    execution.work()
    run.refresh_from_db()
    assert (run.status, run.tallies) == ("cancelled", {"applied": 1, "left": 1})


def test_a_run_of_which_all_is_sent_ends_whoever_started_it(world: World, ada: Client) -> None:
    board(world, "a")
    run = reviewed(ada)
    start(ada, run)
    execution.work()
    User.objects.filter(username="ada").update(is_active=False)
    world.write()
    execution.work()
    run.refresh_from_db()
    assert (run.status, run.tallies) == ("done", {"applied": 1})


# ---- pins of colleagues -----------------------------------------------------------------------


@pytest.fixture
def pinned(world: World) -> World:
    """`a` is free; `b` is pinned by grace, `c` by ada."""
    board(world, "a", "b", "c")
    world.command("set", "b", state="clear", user="grace", reason="<i>a visit</i>")
    world.command("set", "c", state="clear", user="ada", reason="mine")
    world.write()
    return world


def test_a_review_names_the_pins_of_colleagues_and_leaves_them(pinned: World, ada: Client) -> None:
    run = reviewed(ada)
    body = page(ada, run)
    assert "2 of 3 will be pinned; 1 stays because a colleague pinned it." in body
    assert "1 is pinned by a colleague" in body
    assert "grace 1." in body
    assert "b: Clear by grace, no end: “&lt;i&gt;a visit&lt;/i&gt;”" in body
    assert "Replace the 1 pin of colleagues too" in body
    listed = page(ada, run, "?show=pinned")
    assert "pinned Clear by grace, no end" in listed.split("What would happen")[1]
    assert start(ada, run) == 302
    execution.work()
    assert set(names(pinned)) == {"a", "c"}
    assert dict(run.items.values_list("asset", "text"))["b"] == "pinned by grace"
    assert facts("bulk.started")[0]["pins_left"] == 1


def test_pins_are_replaced_where_that_is_asked_for(pinned: World, ada: Client) -> None:
    run = reviewed(ada)
    assert start(ada, run, replace="on") == 302
    execution.work()
    assert set(names(pinned)) == {"a", "b", "c"}
    assert facts("bulk.started")[0]["pins_ended"] == {"grace": 1}


@pytest.mark.parametrize("kind", ["release", "purge"])
def test_a_release_and_a_purge_leave_them_too(pinned: World, ada: Client, kind: str) -> None:
    run = reviewed(ada, kind=kind, by="names", names="b")
    assert "0 of 1" in page(ada, run)
    assert start(ada, run) == 422
    assert "expected the tick" in ada.post(f"/bulk/{run.pk}/start/").content.decode()
    assert start(ada, run, replace="on") == 302
    execution.work()
    assert names(pinned) == {"b": "ada"}


def test_a_vote_ends_no_pin_and_asks_nothing(pinned: World, ada: Client) -> None:
    assert "colleague" not in page(ada, reviewed(ada, kind="vote"))


def test_whose_pin_it_is_goes_by_who_starts_the_run(
    pinned: World, ada: Client, grace: Client
) -> None:
    run = reviewed(ada)
    assert "c: Clear by ada" in page(grace, run)
    start(grace, run)
    execution.work()
    assert names(pinned) == {"a": "grace", "b": "grace"}


def test_what_is_pinned_between_review_and_start_is_left(pinned: World, ada: Client) -> None:
    run = reviewed(ada, unchanged="")
    pinned.later(1_000)
    pinned.command("set", "a", state="clear", user="grace", reason="just now")
    pinned.write()
    start(ada, run, replace="on")
    execution.work()
    assert set(names(pinned)) == {"b", "c"}
    assert dict(run.items.values_list("asset", "text"))["a"] == models.PINNED_SINCE


def test_above_the_bound_the_number_without_or_with_pins_is_typed(
    pinned: World, ada: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views, "ASK_ABOVE", 1)
    run = reviewed(ada)
    assert "Type 2, or with the pins 3, to confirm" in page(ada, run)
    assert start(ada, run, confirm="3") == 422
    assert start(ada, run, confirm="2", replace="on") == 422
    assert start(ada, run, confirm="3", replace="on") == 302
