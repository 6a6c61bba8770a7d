"""Scheduled tasks that notify: from a command to a message in the outbox."""

from __future__ import annotations

import re
from html import unescape
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.db import transaction
from django.test import Client

from dashboard.core.common.times import HOUR_MS, MINUTE_MS, now_ms, utc_datetime
from dashboard.core.states.models import AssetState, EventCount, SinkOffset
from dashboard.notify.notifications import task_notices
from dashboard.notify.notifications.decisions import REPLAYED, RULE_OFF, UNKNOWN, WAITED
from dashboard.notify.notifications.ingestion import LATE_MS
from dashboard.notify.notifications.models import (
    NOT_SENT,
    QUEUED,
    WAITING,
    Channel,
    Message,
    Rule,
    TaskNotice,
)
from dashboard.notify.notifications.on_call import NOBODY
from dashboard.notify.notifications.push import page_of
from dashboard.notify.notifications.task_notices import NO_RULE, SENT, Conflict, decide_notices
from dashboard.watch.annotations.models import Label
from dashboard.watch.incidents.models import ALL, Window
from domain.notifications.machine import LIMIT, MAINTENANCE, OUTSIDE, QUIET, REASONS
from domain.records import Schedule
from support.web import world as world_module
from support.web.rotas import make_rota, put_on_call
from support.web.world import World

pytestmark = pytest.mark.django_db

AFTER = 5 * MINUTE_MS


def channel(address: str = "soc@example.org") -> Channel:
    return Channel.objects.create(
        name=address, kind="mail", address=address, changed_at=1, username="olga"
    )


def rule(name: str = "All", **definition: Any) -> Rule:
    """A rule that tells a mail address, unless its stages are given."""
    if "stages" not in definition:
        definition["stages"] = [{"channels": [channel(f"{name}@example.org").pk]}]
    return Rule.objects.create(name=name, definition=definition, changed_at=1, username="olga")


def notified(world: World, *assets: str, reason: str = "watch it") -> None:
    """Sites under attack, each with a task of olga's that has notified."""
    for asset in assets or ("shop",):
        world.report(asset, "under-attack")
    world.write()
    for asset in assets or ("shop",):
        schedule = Schedule(do="notify", after=AFTER, condition="under-attack")
        world.command("schedule", asset, schedule=schedule, reason=reason)
    world.write()
    run_tasks(world)


def run_tasks(world: World) -> None:
    world.later(AFTER)
    world.write()


def decide(ahead: int = 0) -> None:
    """The worker's look at the runs, some time from now."""
    while decide_notices(lambda: now_ms() + ahead):
        pass


def outcomes() -> list[str]:
    return list(TaskNotice.objects.order_by("pk").values_list("outcome", flat=True))


def count_of(decision: str) -> int:
    rows = EventCount.objects.filter(name="notification", topic=decision)
    return sum(rows.values_list("n", flat=True))


def rebuild(world: World) -> None:
    """The database reads the whole log once more, with nothing of what it had of it."""
    AssetState.objects.all().delete()
    SinkOffset.objects.update(next_offset=0)
    world.write()


# ---- from the command to the outbox --------------------------------------------------------------


def test_a_task_that_notifies_tells_whom_a_rule_names(world: World):
    row = rule()
    notified(world)
    [notice] = TaskNotice.objects.all()
    assert (notice.asset, notice.owner, notice.reason) == ("shop", "olga", "watch it")
    assert (notice.state, notice.condition, notice.outcome) == ("under-attack",) * 2 + ("",)
    decide()
    [message] = Message.objects.all()
    assert message.subject == "Task of olga: shop is still under attack"
    assert (message.status, message.kind, message.recipient) == (QUEUED, "task", "All@example.org")
    assert (message.rule, message.stage) == (row, 0)
    assert message.why == "Rule All, stage 1 of 1."
    assert "watch it" in message.text
    assert "/s/attack/a/shop/" in message.text
    assert message.payload["tasks"][0]["task"] == str(notice.task)
    assert page_of(message) == "/s/attack/a/shop/"
    assert (outcomes(), count_of("task")) == ([SENT], 1)


def test_a_run_whose_condition_is_not_met_notifies_nobody(world: World):
    rule()
    world.report("shop", "under-attack")
    world.write()
    schedule = Schedule(do="notify", after=AFTER, condition="suspicious")
    world.command("schedule", "shop", schedule=schedule)
    world.write()
    run_tasks(world)
    assert not TaskNotice.objects.exists()


def test_a_task_of_the_scenario_is_told_without_an_owner(world: World):
    rule()
    world.report("dc-1", "down", scenario="connectivity")
    world.write()
    for _ in range(3):  # the hold, and the task's five minutes
        run_tasks(world)
    decide()
    message = Message.objects.order_by("created_at")[0]
    assert message.subject == "Scheduled task: dc-1 is still down"


def test_a_notice_is_stored_with_its_record_or_not_at_all(world: World):
    with transaction.atomic():
        notified(world)
        assert TaskNotice.objects.count() == 1
        transaction.set_rollback(True)
    assert (TaskNotice.objects.count(), AssetState.objects.count()) == (0, 0)


def test_a_rebuild_sends_nothing_again(world: World):
    rule()
    notified(world)
    decide()
    rebuild(world)
    decide(HOUR_MS)
    assert AssetState.objects.filter(asset="shop").exists()
    assert (Message.objects.count(), outcomes()) == (1, [SENT])


def test_what_comes_late_is_not_sent_and_says_so(world: World, monkeypatch: pytest.MonkeyPatch):
    rule()
    late = 2 * AFTER + LATE_MS
    monkeypatch.setattr(world_module, "now_ms", lambda: now_ms() + late)
    notified(world)
    decide(late)
    assert (outcomes(), count_of(REPLAYED)) == ([REPLAYED], 1)
    assert not Message.objects.exists()


def test_a_key_is_one_message_though_the_worker_lost_its_notes(world: World):
    rule()
    notified(world)
    decide()
    TaskNotice.objects.update(due_at=1, outcome="")
    decide()
    assert Message.objects.count() == 1


def test_a_run_on_which_another_worker_decided_is_left(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    rule()
    notified(world)
    store_message = task_notices.store_message

    def meanwhile(*args: Any) -> str:
        TaskNotice.objects.update(outcome=SENT)
        return store_message(*args)

    monkeypatch.setattr(task_notices, "store_message", meanwhile)
    with pytest.raises(Conflict), transaction.atomic():
        decide()
    assert (Message.objects.count(), outcomes()) == (0, [""])


# ---- which rules, and whom -----------------------------------------------------------------------


def test_without_a_rule_it_says_so(world: World):
    rule("Others", scenarios=["orders"])
    rule("None", tasks=False)
    notified(world)
    decide()
    [message] = Message.objects.all()
    assert (message.status, message.rule) == (NOT_SENT, None)
    assert message.reason == "no rule covers the scheduled tasks of this asset"
    assert (outcomes(), count_of(NO_RULE)) == ([NO_RULE], 1)


def test_rules_with_labels_tell_of_those_assets_alone(world: World):
    Label.objects.create(
        scenario="attack", asset="a", key="customer", value="acme", source="person", name="o", at=1
    )
    rule(labels=["customer=acme"])
    notified(world, "a", "b")
    decide()
    assert sorted(outcomes()) == [NO_RULE, SENT]
    assert Message.objects.get(status=QUEUED).payload["tasks"][0]["asset"] == "a"


def test_who_is_on_call_is_told_and_nobody_is_said(world: World):
    rota = make_rota()
    rule(stages=[{"rotas": [rota.pk]}, {"after_ms": 1, "channels": [channel().pk]}])
    notified(world, "a")
    decide()
    assert outcomes() == [NOBODY]
    assert Message.objects.get().status == NOT_SENT
    nina = put_on_call(rota, "nina")
    notified(world, "b")
    decide()
    message = Message.objects.get(status=QUEUED)
    assert (message.recipient, message.rota, message.user) == ("nina@example.org", rota, nina)
    assert "on call in Night" in message.why


def test_an_unknown_scenario_is_said(world: World):
    rule()
    notified(world)
    TaskNotice.objects.update(scenario="gone")
    decide()
    assert (outcomes(), Message.objects.count()) == ([UNKNOWN], 0)


# ---- held back -----------------------------------------------------------------------------------


def hours_around(at: int, **more: Any) -> dict[str, Any]:
    """Hours of every day from an hour before a time to an hour after."""
    begin, end = (utc_datetime(at + ms).astimezone(ZoneInfo("UTC")) for ms in (-HOUR_MS, HOUR_MS))
    return {"begin": f"{begin:%H:%M}", "end": f"{end:%H:%M}"} | more


def test_quiet_hours_hold_it_until_their_end(world: World):
    rule(quiet=hours_around(now_ms()))
    rule("Awake", quiet=hours_around(now_ms(), exempt="suspicious"))
    notified(world)
    decide()
    decide(MINUTE_MS)
    assert Message.objects.get(status=QUEUED).rule == Rule.objects.get(name="Awake")
    waiting = Message.objects.get(status=WAITING)
    assert waiting.reason.startswith(f"{REASONS[QUIET]}, until 2")
    assert waiting.subject in waiting.text
    notice = TaskNotice.objects.get()
    assert (list(notice.held.values()), count_of(QUIET)) == ([QUIET], 1)
    decide(2 * HOUR_MS)
    assert Message.objects.filter(status=QUEUED).count() == 2
    notice.refresh_from_db()
    assert (notice.outcome, notice.held, notice.due_at) == (SENT, {}, None)
    waiting.refresh_from_db()
    assert (waiting.status, waiting.reason) == (NOT_SENT, WAITED)


def test_what_waits_for_a_rule_that_is_switched_off_is_not_sent(world: World):
    row = rule(quiet=hours_around(now_ms()))
    notified(world)
    decide()
    Rule.objects.filter(pk=row.pk).update(enabled=False)
    decide(2 * HOUR_MS)
    assert outcomes() == [RULE_OFF]
    assert Message.objects.get().reason == RULE_OFF
    assert not Message.objects.filter(status=QUEUED).exists()


def test_a_maintenance_window_suppresses_it(world: World):
    rule()
    now = now_ms()
    Window.objects.create(
        name="work", scenario="attack", covers=ALL, begin=now - HOUR_MS, end=now + HOUR_MS,
        planned_end=now + HOUR_MS, created_at=1, username="olga",
    )  # fmt: skip
    notified(world)
    decide()
    assert (outcomes(), count_of(MAINTENANCE)) == ([MAINTENANCE], 1)
    assert Message.objects.get().reason == REASONS[MAINTENANCE]


def test_outside_the_hours_of_the_rule_it_is_not_told(world: World):
    rule(hours=hours_around(now_ms() + 12 * HOUR_MS))
    notified(world)
    decide()
    decide(12 * HOUR_MS)
    assert outcomes() == [OUTSIDE]
    assert Message.objects.get().reason == REASONS[OUTSIDE]


def test_what_is_over_the_limit_is_told_in_one_message(world: World):
    rule(most=2)
    notified(world, "a", "b", "c", "d")
    decide()
    several, single = Message.objects.filter(status=QUEUED).order_by("subject")
    assert single.subject.startswith("Task of olga: ")
    assert several.subject.startswith("3 scheduled tasks: ")
    assets = [task["asset"] for each in (several, single) for task in each.payload["tasks"]]
    assert sorted(assets) == ["a", "b", "c", "d"]
    assert all(f"- {asset} (Attacks)" in several.text for asset in assets[:3])
    assert page_of(several) == "/schedules/"
    assert len(Rule.objects.get().recent) == 2


def test_a_rule_that_has_sent_enough_waits(world: World):
    rule(most=1)
    notified(world, "a")
    decide()
    notified(world, "b")
    decide()
    assert outcomes() == [SENT, ""]
    assert Message.objects.get(status=WAITING).reason.startswith(REASONS[LIMIT])
    decide(HOUR_MS + 1)
    assert outcomes() == [SENT, SENT]
    assert Message.objects.filter(status=QUEUED).count() == 2


# ---- pages ---------------------------------------------------------------------------------------


def test_a_message_of_a_task_has_its_page_and_its_filter(world: World, client: Client):
    rule()
    notified(world)
    decide()
    message = Message.objects.get()
    assert (
        "A scheduled task notified"
        in client.get(f"/notifications/messages/{message.pk}/").content.decode()
    )
    text = client.get("/schedules/?status=over").content.decode()
    [link] = re.findall(r'href="(/notifications/messages/\?[^"]*)"', text)
    assert message.subject in client.get(unescape(link)).content.decode()
