"""One command for many assets: chosen, reviewed, started, carried out, answered, counted."""

from __future__ import annotations

import csv
import re
import uuid
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from bus.base import TooLarge, Unavailable
from bus.memory import MemoryProducer
from dashboard.core.audit.models import AuditEntry
from dashboard.core.common import kafka, resumable
from dashboard.core.common.times import now_ms
from dashboard.watch.bulk import execution, forms, models, review, views
from dashboard.watch.bulk.models import READY, RETURNS, SKIPPED, STAYS, Item, Run
from dashboard.watch.bulk.review import command_id
from domain.records import MAX_VOTERS, Command
from support.web.retention import apply_all
from support.web.web_fixtures import commands_sent, make_user
from support.web.world import World

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """No turn waits for answers that the test has not let come, and nobody wakes a worker."""
    monkeypatch.setattr(execution, "PATIENCE_S", 0.0)
    monkeypatch.setattr(execution, "QUIET_S", 0.0)
    monkeypatch.setattr(views, "start_task", lambda task: None)


def board(world: World, *assets: str, scenario: str = "attack") -> None:
    for asset in assets:
        world.report(asset, "under-attack", scenario=scenario)
    world.write()


def form(**more: Any) -> dict[str, Any]:
    """A form that is complete."""
    by = "filter" if more.keys() & {"q", "state"} else "all"
    return {
        "id": str(uuid.uuid4()), "scenario": "attack", "by": by, "kind": "purge",
        "reason": "a drill", "unchanged": "on", **more,
    }  # fmt: skip


def reviewed(client: Client, **more: Any) -> Run:
    """The review that a form leads to."""
    response = client.post("/bulk/review/", form(**more))
    assert response.status_code == 302, response.content.decode()
    return Run.objects.get(pk=re.findall(r"/bulk/([^/]+)/", response["Location"])[0])


def started(client: Client, **more: Any) -> Run:
    run = reviewed(client, **more)
    assert client.post(f"/bulk/{run.pk}/start/").status_code == 302
    return run


def outcomes(run: Run) -> dict[str, str]:
    return dict(run.items.values_list("asset", "outcome"))


def page(client: Client, run: Run, query: str = "") -> str:
    return client.get(f"/bulk/{run.pk}/{query}").content.decode()


def test_a_purge_from_its_review_to_its_answers(world: World, client: Client) -> None:
    board(world, "one", "two", "stays")
    run = reviewed(client, by="names", names="one\r\ntwo\r\nnobody\r\n\r\none")
    assert (run.matched, run.repeated) == (3, 1)
    body = page(client, run)
    assert "<strong>2</strong> of 3 will be purged" in body
    assert "1 not on the board" in body
    assert "2 will be back" in body
    assert commands_sent(world.gateway, "attack") == []
    client.post(f"/bulk/{run.pk}/start/")
    execution.work()
    sent = commands_sent(world.gateway, "attack")
    assert {(c.kind, c.asset, c.user, c.reason) for c in sent} == {
        ("purge", "one", "operator", "a drill"), ("purge", "two", "operator", "a drill"),
    }  # fmt: skip
    assert {c.id for c in sent} == {command_id(run.pk, name) for name in ("one", "two")}
    assert outcomes(run) == {"one": "sent", "two": "sent", "nobody": "skipped"}
    world.write()
    execution.work()
    run.refresh_from_db()
    assert run.status == "done"
    assert outcomes(run) == {"one": "applied", "two": "applied", "nobody": "skipped"}
    assert sum(n for _, _, n in run.lines) == run.matched == 3
    assert run.tallies == {"applied": 2, "skipped": 1}
    listed = client.get("/bulk/").content.decode()
    assert str(run.pk) in listed


def test_a_filter_as_on_the_board(world: World, client: Client) -> None:
    board(world, "shop-1", "shop-2", "blog")
    world.report("shop-3", "clear")
    world.write()
    run = reviewed(client, q="shop", state="under-attack")
    assert set(outcomes(run)) == {"shop-1", "shop-2"}
    assert run.chosen == "in Under attack; shop"


def test_what_was_typed_stays_and_each_fault_is_named(world: World, client: Client) -> None:
    for more, fault in (
        ({"reason": ""}, "This field is required"),
        ({"kind": "set", "to": "odd"}, "There is no state “odd”"),
        ({"q": "stat:clear"}, "there is no key stat"),
        ({"q": " "}, "Expected a filter, or states below. For all: All of them."),
        ({"by": "filter"}, "Expected a filter"),
        ({"by": ""}, "This field is required"),
        ({"by": "names", "names": " \n"}, "Expected names"),
        ({"by": "stale", "n": "-1"}, "n: "),
        ({"kind": "set", "to": "clear", "end": "at", "until_at": "soon"}, "Expected a date"),
    ):
        response = client.post("/bulk/review/", form(**{"names": "kept-1\nkept-2", **more}))
        body = response.content.decode()
        assert response.status_code == 422, more
        assert fault in body, more
        assert "kept-1\nkept-2" in body or more.get("names")
    assert not Run.objects.exists()


def test_a_list_as_a_file(world: World, client: Client) -> None:
    board(world, "a", " spaced ", "Zürich")
    upload = SimpleUploadedFile("list.txt", "\ufeffa\r\n spaced \n  Zürich\n".encode())
    run = reviewed(client, by="names", file=upload)
    assert outcomes(run) == {"a": "ready", " spaced ": "ready", "Zürich": "ready"}
    bad = SimpleUploadedFile("list.txt", b"a\n\xff")
    body = client.post("/bulk/review/", form(by="names", file=bad)).content.decode()
    assert "byte 2 is not" in body


def test_set_and_release_say_what_is_so_already(world: World, client: Client) -> None:
    board(world, "a", "b")
    run = started(client, by="names", names="a", kind="set", to="clear")
    execution.work()
    world.write()
    execution.work()
    assert outcomes(run) == {"a": "applied"}
    again = reviewed(client, kind="set", to="clear")
    assert dict(again.items.values_list("asset", "text")) == {
        "a": "already pinned to this state",
        "b": "",
    }
    release = started(client, kind="release")
    assert outcomes(release) == {"a": "ready", "b": "skipped"}
    execution.work()
    world.write()
    execution.work()
    assert outcomes(release) == {"a": "applied", "b": "skipped"}


def test_the_job_refuses_what_has_changed_since(world: World, client: Client) -> None:
    board(world, "a", "b")
    run = reviewed(client)
    world.command("set", "a", state="clear")
    world.write()
    assert "1 has changed since this review" in page(client, run)
    client.post(f"/bulk/{run.pk}/start/")
    execution.work()
    world.write()
    execution.work()
    assert outcomes(run) == {"a": "refused", "b": "applied"}
    assert "Refused: 1 as the state has moved on." in page(client, run)


def refused_in_a_wave(world: World, client: Client, **more: Any) -> Run:
    """A run of which `b` was applied, and `a` and `c` were refused, as they went on."""
    board(world, "a", "b", "c")
    run = started(client, kind="set", to="clear", reason="cleaned up", **more)
    for asset in ("a", "c"):
        world.command("set", asset, state="suspicious")
    execution.work()
    world.write()
    execution.work()
    assert outcomes(run) == {"a": "refused", "b": "applied", "c": "refused"}
    return run


@pytest.mark.parametrize("unchanged", [True, False])
def test_what_a_wave_refused_is_reviewed_and_sent_again(
    world: World, client: Client, unchanged: bool
) -> None:
    run = refused_in_a_wave(world, client, end="1h")
    run.refresh_from_db()
    assert "Review and send again: 2</button>" in page(client, run)
    sent = len(commands_sent(world.gateway, "attack"))
    response = client.post(f"/bulk/{run.pk}/again/", {"unchanged": "on"} if unchanged else {})
    renewal = Run.objects.exclude(pk=run.pk).get()
    assert response["Location"] == f"/bulk/{renewal.pk}/"
    same = ("kind", "state", "reason", "until", "scenario")
    assert [getattr(renewal, name) for name in same] == [getattr(run, name) for name in same]
    assert outcomes(renewal) == {"a": "ready", "c": "ready"}
    assert (renewal.status, renewal.unchanged) == ("review", unchanged)
    assert len(commands_sent(world.gateway, "attack")) == sent
    client.post(f"/bulk/{renewal.pk}/start/", {"replace": "on"})
    world.command("set", "a", state="under-attack")  # the wave goes on
    execution.work()
    world.write()
    execution.work()
    assert outcomes(renewal) == {"a": "refused" if unchanged else "applied", "c": "applied"}


def test_other_refusals_are_not_sent_again(world: World, client: Client) -> None:
    run = refused_in_a_wave(world, client)
    run.items.filter(asset="a").update(text="too many agents")
    assert "send again: 1</button>" in page(client, run)
    run.items.filter(asset="c").update(text="no such asset any more")
    assert "send again" not in page(client, run)
    answer = client.post(f"/bulk/{run.pk}/again/")
    assert answer.status_code == 422
    assert "None was refused because its state had changed." in answer.content.decode()
    assert Run.objects.count() == 1


def test_a_pin_whose_end_has_passed_is_not_reviewed_again(world: World, client: Client) -> None:
    run = refused_in_a_wave(world, client, end="1h")
    Run.objects.update(until=now_ms() - 1)
    answer = client.post(f"/bulk/{run.pk}/again/")
    assert answer.status_code == 422
    assert "has passed" in answer.content.decode()
    assert Run.objects.count() == 1


def test_above_a_thousand_the_number_must_be_typed(
    world: World, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views, "ASK_ABOVE", 1)
    board(world, "a", "b")
    run = reviewed(client)
    wrong = client.post(f"/bulk/{run.pk}/start/", {"confirm": "3"})
    assert wrong.status_code == 422
    assert "confirm: expected 2" in wrong.content.decode()
    assert client.post(f"/bulk/{run.pk}/start/", {"confirm": "2"}).status_code == 302
    run.refresh_from_db()
    assert run.status == "running"


def test_paused_resumed_cancelled(
    world: World, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execution, "SEND_PORTION", 1)
    monkeypatch.setattr(resumable, "TURN_S", 0.0)
    board(world, "a", "b", "c")
    run = started(client)
    assert execution.RunTask(Run.objects.get())._send() == 1
    for do, status in (("pause", "paused"), ("resume", "running"), ("cancel", "cancelled")):
        client.post(f"/bulk/{run.pk}/ask/", {"do": do})
        run.refresh_from_db()
        assert run.status == status
    monkeypatch.setattr(resumable, "TURN_S", 10.0)
    world.write()
    execution.work()
    run.refresh_from_db()
    assert run.ended_at
    assert run.tallies == {"applied": 1, "left": 2}
    assert len(commands_sent(world.gateway, "attack")) == 1
    actions = list(AuditEntry.objects.values_list("action", "outcome"))
    assert ("bulk.started", "started") in actions
    assert ("bulk.stopped", "cancel") in actions


def test_a_paused_run_sends_nothing(world: World, client: Client) -> None:
    board(world, "a")
    run = started(client)
    client.post(f"/bulk/{run.pk}/ask/", {"do": "pause"})
    assert not execution.work()
    assert outcomes(run) == {"a": "ready"}


def test_a_worker_killed_after_sending_sends_under_the_same_id(
    world: World, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    board(world, "a", "b")
    run = started(client)

    def killed(*_results: object) -> int:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(execution, "record_deliveries", killed)
        with pytest.raises(KeyboardInterrupt):
            execution.work()
    assert set(outcomes(run).values()) == {"sending"}
    execution.work()
    sent = commands_sent(world.gateway, "attack")
    assert len(sent) == 4
    assert len({command.id for command in sent}) == 2
    world.write()
    execution.work()
    run.refresh_from_db()
    assert run.tallies == {"applied": 2}


def test_one_worker_has_a_run_until_its_lease_ends(world: World, client: Client) -> None:
    board(world, "a")
    run = started(client)
    assert execution.RunTask(run).claim()
    assert not execution.work()
    assert outcomes(run) == {"a": "ready"}
    later = now_ms() + execution.LEASE_MS + 1
    execution.work(lambda: later)
    assert outcomes(run) == {"a": "sent"}


def test_where_kafka_does_not_answer_it_waits_and_says_so(
    world: World, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka, "REACH_S", 0.0)
    board(world, "a")
    run = started(client)
    world.bus.stop()
    execution.work()
    assert "Kafka does not answer" in page(client, run)
    world.bus.start()
    execution.work()
    assert outcomes(run) == {"a": "sent"}
    assert "Kafka does not answer" not in page(client, run)


def test_what_another_page_chose_fills_the_form(world: World, client: Client) -> None:
    chosen = {"scenario": "orders", "asset": ["a", "b c"]}
    body = client.post("/bulk/review/", chosen, follow=True).content.decode()
    assert "a\nb c</textarea>" in body
    assert 'value="names" id="id_by_1" checked' in body or re.search(
        r'<input[^>]*value="names"[^>]*checked', body
    )
    board_link = client.get("/bulk/?scenario=attack&state=clear&q=shop").content.decode()
    assert 'value="shop"' in board_link
    assert 'value="clear" checked' in board_link


def test_a_manager_looks_on(world: World, client: Client) -> None:
    board(world, "a")
    run = reviewed(client)
    manager = Client()
    manager.force_login(make_user("manager"))
    assert "Type" not in page(manager, run)
    assert '<form class="card bulk-form"' not in manager.get("/bulk/").content.decode()
    assert manager.post(f"/bulk/{run.pk}/start/").status_code == 403


def test_more_than_the_bound_are_counted_and_left(
    world: World, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(review, "MOST", 2)
    monkeypatch.setattr("dashboard.watch.bulk.review.MOST", 2)
    board(world, "a", "b", "c")
    run = reviewed(client)
    assert (run.matched, run.beyond) == (2, 1)
    assert "1 more match" in page(client, run)


def test_outcomes_as_a_file(world: World, client: Client) -> None:
    board(world, "=a")
    run = started(client)
    execution.work()
    world.write()
    execution.work()
    response: Any = client.get(f"/bulk/{run.pk}/outcomes.csv")
    (line,) = csv.DictReader(b"".join(response.streaming_content).decode().splitlines())
    assert (line["asset"], line["outcome"], line["was"]) == ("'=a", "Applied", "under-attack")
    assert line["command"] == command_id(run.pk, "=a")


def test_a_review_sent_twice_is_one(world: World, client: Client) -> None:
    board(world, "a")
    one = form()
    first, second = (client.post("/bulk/review/", one)["Location"] for _ in range(2))
    assert first == second
    assert Run.objects.count() == 1


def test_old_runs_and_reviews_are_deleted(world: World, client: Client) -> None:
    board(world, "a")
    run = started(client)
    reviewed(client)
    assert apply_all(models.KEPT, now_ms() + models.REVIEW_KEPT_MS + 60_000) == 1
    assert set(Run.objects.all()) == {run}
    assert apply_all(models.KEPT, now_ms() + models.KEPT_MS + 60_000) == 1
    assert not Item.objects.exists()


def test_reviews_of_one_user_are_bounded(
    world: World, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models, "MOST_REVIEWS", 1)
    board(world, "a")
    reviewed(client)
    last = reviewed(client)
    assert list(Run.objects.all()) == [last]


def test_what_kafka_refuses_for_good_is_not_tried_again(
    world: World, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def send(*_args: Any, **_more: Any) -> None:
        raise TooLarge("too large")

    board(world, "a")
    run = started(client)
    monkeypatch.setattr(MemoryProducer, "send", send)
    execution.work()
    run.refresh_from_db()
    assert run.tallies == {"unsent": 1}


def test_what_kafka_does_not_confirm_stays_claimed(
    world: World, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def send(*_args: Any, on_delivery: Any, **_more: Any) -> None:
        on_delivery(Unavailable("timed out"))

    board(world, "a")
    run = started(client)
    monkeypatch.setattr(MemoryProducer, "send", send)
    execution.work()
    assert outcomes(run) == {"a": "sending"}
    assert "Kafka does not confirm" in page(client, run)


def test_the_history_of_an_asset_says_who_why_and_in_which_run(
    world: World, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    board(world, "a")
    run = started(client, reason="customer left")
    with monkeypatch.context() as patch:
        patch.setattr(
            execution, "record_deliveries", lambda _results: 0
        )  # the worker dies before it has noted
        execution.work()
    execution.work()
    world.write()
    execution.work()
    assert len(commands_sent(world.gateway, "attack")) == 2
    body = client.get("/s/attack/a/a/").content.decode()
    assert body.count("Applied, in bulk") == 1
    assert f'href="/bulk/{run.pk}/"' in body
    assert "customer left" in body
    assert "purged by" in body


def test_a_run_that_fails_holds_up_no_other(
    world: World, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    board(world, "a", "b")
    bad = started(client, by="names", names="a")
    good = started(client, by="names", names="b")
    sending = execution.send

    def send(scenario: str, commands: list[Command]) -> Any:
        if commands[0].asset == "a":
            raise ValueError("odd")
        return sending(scenario, commands)

    with monkeypatch.context() as patch:
        patch.setattr(execution, "send", send)
        execution.work()
    assert outcomes(good) == {"b": "sent"}
    assert "The worker failed: odd" in page(client, bad)
    execution.work()
    assert outcomes(bad) == {"a": "sent"}
    assert "The worker failed" not in page(client, bad)


def test_a_run_of_a_scenario_that_is_gone_stays_as_it_is(world: World, client: Client) -> None:
    board(world, "a")
    run = started(client)
    Run.objects.update(scenario="gone")
    assert not execution.work()
    assert "The scenario gone is not configured here any more" in page(client, run)
    assert client.get("/bulk/").status_code == 200


# ---- votes that are silent, and votes that give way ----------------------------------------------


def test_an_agent_that_has_fallen_silent_brings_nothing_back(world: World, client: Client) -> None:
    board(world, "left")
    world.later(120_000)
    board(world, "kept")
    run = reviewed(client, by="names", names="left\nkept")
    returns = dict(run.items.values_list("asset", "returns"))
    assert returns == {"left": STAYS, "kept": RETURNS}


def test_a_vote_is_left_out_only_where_no_other_gives_way(world: World, client: Client) -> None:
    agents = [f"waf-{n:03}" for n in range(MAX_VOTERS)]
    world.report("full", "under-attack", *agents)
    world.report("room", "under-attack", *agents[1:])
    world.report("room", "clear", agents[0])
    world.write()
    run = reviewed(client, by="names", names="full\nroom", kind="vote", to="clear")
    assert outcomes(run) == {"full": SKIPPED, "room": READY}
    again = reviewed(client, by="names", names="full", kind="vote", to="under-attack")
    assert outcomes(again) == {"full": READY}


# ---- from a selection on the board -----------------------------------------------------------


def test_all_that_a_filter_finds_is_named_as_far_as_a_form_can(
    world: World, client: Client, monkeypatch: pytest.MonkeyPatch
):
    board(world, "a.example", "b.example", "other")
    world.report("c.example", "clear", scenario="attack")
    world.write()

    def named(**query: Any) -> Any:
        return client.get("/bulk/names/", {"scenario": "attack", **query}).json()

    everything = ["a.example", "b.example", "c.example", "other"]
    assert named() == {"names": everything, "more": False}
    assert named(q="example", state="under-attack")["names"] == ["a.example", "b.example"]
    monkeypatch.setattr(forms, "MOST_NAMED", 2)
    assert named() == {"names": everything[:2], "more": True}
    refused = client.get("/bulk/names/", {"scenario": "attack", "q": "state:"})
    assert refused.status_code == 422
    assert "expected a value" in refused.json()["problem"]


def test_the_pages_have_the_parts_that_the_boards_dialog_shows(world: World, client: Client):
    board(world, "a.example")
    chosen = {"scenario": "attack", "begin": "1", "kind": "set", "asset": ["a.example"]}
    whole = {"HX-Request": "true", "HX-Boosted": "true"}
    page = client.post("/bulk/review/", chosen, headers=whole, follow=True).content.decode()
    assert re.search(r'<div class="console-head">\s*<div><h1>Bulk', page)
    assert (
        '<form class="card bulk-form" id="bulk-form" method="post" action="/bulk/review/"' in page
    )
    assert ">\na.example</textarea>" in page
    sent = form(by="names", names="a.example", kind="set", to="clear", end="1h")
    answer = client.post("/bulk/review/", sent, headers=whole, follow=True).content.decode()
    assert re.search(r'<div id="run" data-refresh="/bulk/[^"]*"\s+data-every="20"', answer)
    wrong = client.post("/bulk/review/", sent | {"reason": ""}, headers=whole)
    assert wrong.status_code == 422
    assert 'id="bulk-form"' in wrong.content.decode()
    window = client.get("/maintenance/new/?scenario=attack", headers=whole).content.decode()
    assert 'class="card user-form"' in window
    assert 'name="covers" value="assets"' in window
    board_page = client.get("/?scenario=attack").content.decode()
    assert 'data-window="/maintenance/new/"' in board_page
    assert 'data-names="/bulk/names/"' in board_page
