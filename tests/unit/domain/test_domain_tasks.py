"""Scheduled tasks: what a command or the scenario starts, when it runs, and what comes of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from domain.asset import ANSWERS_KEPT
from domain.fold import Bucket
from domain.records import (
    MAX_TASKS,
    NOT_MET,
    Report,
    ScenarioChange,
    Schedule,
    StateRecord,
    Task,
    Tick,
    Tombstone,
)
from domain.scenario import Action, ScenarioError
from domain.scenario_parser import load_scenarios, scenario_from_plain
from domain.tasks import RULE_OWNER
from support.histories.foldlog import ANY, SHOP, Log, causes, copy_of, only, scenario
from wire.asset import dump_asset, load_asset

FIVE = 5 * 60_000
ROOT = Path(__file__).parents[3]


def down(**rule: Any) -> Log:
    """A log whose asset is down since 100 ms."""
    log = Log(**rule)
    log.report("w1", "down", 100)
    return log


def schedule(log: Log, do: Action, *, state: str | None = None, **more: Any) -> str:
    """Schedule a task; returns the outcome. Its id is that of the command."""
    until = more.pop("until", None)
    condition = more.pop("condition", None)
    given = Schedule(do, condition, **more)
    return log.outcome("schedule", state=state, until=until, schedule=given)


def tasks(log: Log) -> tuple[Task, ...]:
    return log.bucket.assets[SHOP].tasks


# ---- those of the demo ----------------------------------------------------------------------


def states(bucket: Bucket, first: int, last: int) -> list[StateRecord]:
    """What a bucket emits while time passes, two ticks a second."""
    ticks = enumerate(range(first, last, 500), first)
    emitted = [each for offset, at in ticks for each in bucket.apply(Tick(), offset, at)]
    return [each for each in emitted if isinstance(each, StateRecord)]


def test_the_demo_looks_at_each_degraded_network_every_five_seconds():
    shipped = load_scenarios(ROOT / "scenarios.toml", demo=True)["connectivity"]
    bucket, net = Bucket(shipped, partition=0, epoch=1), "192.0.2.0/24"
    bucket.apply(Report(net, "probe-a", "up"), 0, 0)
    bucket.apply(Report(net, "probe-a", "degraded"), 1, 1_000)
    emitted = states(bucket, 1_000, 60_000)
    degraded = next(each for each in emitted if each.state == "degraded")
    runs = [each.cause.time for each in emitted if each.cause.type == "schedule"]
    assert runs[:3] == [degraded.since + n * 5_000 for n in (1, 2, 3)]
    bucket.apply(Report(net, "probe-a", "up"), 60_000, 60_000)
    ended = next(each for each in states(bucket, 60_001, 90_000) if each.state == "up")
    later = states(bucket, 90_000, 120_000)
    assert ended.since < 90_000
    assert not [each for each in later if each.cause.type == "schedule"]


# ---- one run --------------------------------------------------------------------------------


def test_a_task_runs_at_its_time_and_is_then_over():
    log = down()
    assert schedule(log, "notify", condition="down", after=FIVE) == "applied"
    assert [task.due for task in log.now().tasks] == [100 + FIVE]
    assert log.tick(99 + FIVE) == []
    ran = only(log.tick(FIVE + 500))
    assert (ran.cause.type, ran.cause.time, ran.cause.user) == ("schedule", 100 + FIVE, "olga")
    assert (ran.cause.command, ran.notify) == ("id-1", True)
    [task] = ran.tasks
    assert (task.outcome, task.ran, task.due) == ("applied", 100 + FIVE, None)
    assert tasks(log) == ()
    assert log.tick(10 * FIVE) == []


def test_a_task_whose_condition_is_not_met_does_nothing_and_says_so():
    log = down()
    schedule(log, "set", state="slow", condition="down", after=FIVE)
    log.report("w1", "up", 200)
    ran = only(log.tick(FIVE + 500))
    assert (ran.state, ran.override, ran.tasks[0].outcome) == ("up", None, NOT_MET)
    assert not ran.notify


@pytest.mark.parametrize(("do", "notify"), [("emit", False), ("notify", True)])
def test_only_a_notification_asks_for_one(do: Action, notify: bool):
    log = down()
    schedule(log, do, after=1000)
    assert only(log.tick(2000)).notify is notify


def test_a_task_sets_a_state_in_its_owners_name():
    log = down()
    log.outcome("schedule", state="slow", reason="tired", schedule=Schedule("set", after=1000))
    ran = only(log.tick(1100))
    assert ran.state == "slow"
    assert ran.override is not None
    pin = ran.override
    assert (pin.user, pin.reason, pin.command, pin.since) == ("olga", "tired", "id-1", 1100)


def test_a_task_releases_what_is_pinned():
    log = down()
    log.outcome("set", state="up", user="ed")
    schedule(log, "release", after=1000)
    ran = only(log.tick(1100))
    assert (ran.state, ran.override, ran.tasks[0].outcome) == ("down", None, "applied")


def test_a_release_of_nothing_is_no_change():
    log = down()
    schedule(log, "release", after=1000)
    assert only(log.tick(1100)).tasks[0].outcome == "no-change"


def test_a_task_purges_its_asset_and_all_its_tasks():
    log = down()
    schedule(log, "purge", after=1000)
    schedule(log, "emit", after=5000)
    [gone] = log.tick(10_000)
    assert isinstance(gone, Tombstone)
    assert (gone.cause.type, gone.cause.command) == ("schedule", "id-1")
    log.report("w1", "down", 11_000)
    assert tasks(log) == ()


def test_a_purge_by_hand_drops_the_tasks():
    log = down()
    schedule(log, "emit", after=1000)
    log.command("purge")
    assert log.tick(5000) == []


# ---- many runs ------------------------------------------------------------------------------


def test_a_periodic_task_runs_until_it_is_cancelled():
    log = down()
    schedule(log, "emit", every=1000)
    assert causes(log.tick(1100)) == [("schedule", 1100)]
    assert causes(log.tick(2100)) == [("schedule", 2100)]
    answer = log.command("cancel", task="id-1")
    assert (answer.cause.type, answer.cause.command) == ("cancelled", "id-2")
    assert log.tick(9000) == []


def test_runs_that_were_missed_are_counted_and_told_once():
    log = down()
    schedule(log, "emit", every=1000)
    ran = only(log.tick(3_600_100))
    assert (ran.cause.time, ran.version.step) == (3_600_100, 3600)
    assert (ran.tasks[0].ran, ran.tasks[0].due) == (3_600_100, 3_601_100)


def test_many_tasks_and_a_reminder_after_an_hour_are_told_once_each():
    log = down(reminders={"down": "1s"})
    for _ in range(MAX_TASKS):
        schedule(log, "emit", every=1000)
    ran = log.tick(3_600_100)
    assert len(ran) == MAX_TASKS + 1
    assert [out.version.step for out in ran if isinstance(out, StateRecord)] == list(
        range(3600 * 33 - 32, 3600 * 33 + 1)
    )


def test_the_runs_of_a_task_may_be_limited_in_number():
    log = down()
    schedule(log, "emit", every=1000, times=3)
    log.tick(1500)
    ran = only(log.tick(60_000))
    assert (ran.cause.time, ran.tasks[0].due, ran.tasks[0].times) == (3100, None, 0)
    assert tasks(log) == ()


def test_the_runs_of_a_task_may_be_limited_in_time():
    log = down()
    schedule(log, "emit", every=1000, until=2500)
    ran = only(log.tick(60_000))
    assert (ran.cause.time, ran.tasks[0].due) == (2100, None)


def test_runs_at_one_time_come_in_the_order_of_their_ids():
    log = down(reminders={"down": "1s"})
    schedule(log, "notify", every=1000)
    schedule(log, "emit", after=1000)
    emissions = log.tick(1100)
    assert [out.cause.command for out in emissions if isinstance(out, StateRecord)] == [
        "id-1",
        "id-2",
        None,
    ]


# ---- commands -------------------------------------------------------------------------------


def test_a_task_is_for_an_asset_that_is_there():
    log = Log()
    assert schedule(log, "emit", after=1000) == "refused: no such asset"


@pytest.mark.parametrize(
    ("more", "refused"),
    [
        ({"do": "set", "state": "odd", "after": 1000}, "unknown state"),
        ({"do": "emit", "condition": "odd", "after": 1000}, "unknown state"),
        ({"do": "emit", "at": 100}, "the time is in the past"),
        ({"do": "emit", "every": 1000, "until": 1000}, "the end is before the first run"),
    ],
)
def test_what_cannot_be_scheduled_is_refused(more: dict[str, Any], refused: str):
    assert schedule(down(), **more) == f"refused: {refused}"


def test_an_asset_has_room_for_so_many_tasks_of_commands():
    log = down(tasks=[{"on": "down", "every": 1000, "do": "emit"}])
    for _ in range(MAX_TASKS):
        assert schedule(log, "emit", after=1000) == "applied"
    assert schedule(log, "emit", after=1000) == "refused: too many tasks"


def test_only_a_task_that_is_there_is_cancelled():
    assert down().outcome("cancel", task="id-9") == "refused: no such task"


def test_a_task_may_wait_for_what_nothing_has_tallied_yet():
    assert schedule(down(), "emit", condition="unknown", after=1000) == "applied"


def test_a_command_that_comes_again_schedules_once():
    log = down()
    order = Schedule("emit", after=1000)
    log.outcome("schedule", id="same", schedule=order)
    for _ in range(ANSWERS_KEPT):
        log.outcome("release")
    assert log.outcome("schedule", id="same", schedule=order) == "no-change"


# ---- tasks of the scenario ------------------------------------------------------------------

REMIND = {"on": "down", "after": "5m", "if": "down", "do": "notify"}


def test_a_task_begins_with_a_state_and_ends_with_it():
    log = down(tasks=[REMIND])
    assert [(task.user, task.due) for task in tasks(log)] == [(RULE_OWNER, 100 + FIVE)]
    log.report("w1", "up", 200)
    assert tasks(log) == ()
    log.report("w1", "down", 300)
    ran = only(log.tick(FIVE + 300))
    assert ran.notify
    assert log.tick(10 * FIVE) == []


def test_a_task_for_another_state_outlives_the_one_it_began_with():
    log = down(tasks=[{**REMIND, "if": "up"}])
    assert only(log.report("w1", "up", 200)).tasks
    assert only(log.tick(FIVE + 100)).notify


def test_a_task_begins_with_a_report_and_not_again_while_it_waits():
    log = Log(rule=ANY, tasks=[{"on_report": "up", "after": "5s", "do": "emit"}])
    log.report("w1", "down", 100)
    assert tasks(log) == ()
    log.report("w2", "up", 200)
    log.report("w2", "up", 300)
    assert [task.due for task in tasks(log)] == [5200]


def test_a_task_of_the_scenario_is_cancelled_for_this_stay():
    log = down(tasks=[REMIND])
    assert log.outcome("cancel", task=tasks(log)[0].id) == "applied"
    log.report("w1", "down", 200)
    assert tasks(log) == ()


# ---- a change of rule -----------------------------------------------------------------------


def without_slow(log: Log, at: int) -> list:
    plain = scenario().to_plain()
    plain["states"] = [spec for spec in plain["states"] if spec["name"] != "slow"]

    return log.add(ScenarioChange(scenario_from_plain(plain)), at)


def test_a_task_whose_state_is_gone_is_set_aside_and_resumes_with_it():
    log = down()
    schedule(log, "set", state="slow", after=1000)
    schedule(log, "emit", after=5000)
    aside, other = only(without_slow(log, 200)).tasks
    assert (aside.aside, other.aside) == ("the scenario has no state slow", None)
    assert causes(log.tick(6000)) == [("schedule", 5100)]
    resumed, ran = log.switch(7000)
    assert isinstance(resumed, StateRecord)
    assert isinstance(ran, StateRecord)
    assert resumed.tasks[0].aside is None
    assert (ran.state, ran.cause.type, ran.cause.time, ran.tasks[0].ran) == (
        "slow",
        "schedule",
        7000,
        7000,
    )


def test_a_task_that_the_scenario_has_no_more_is_set_aside_and_resumes_with_it():
    log = down(tasks=[REMIND])
    assert only(log.switch(200)).tasks[0].aside == "the scenario has no such task"
    assert only(log.switch(300, tasks=[REMIND])).tasks[0].due == 100 + FIVE


def test_a_new_task_begins_in_the_state_that_an_asset_is_in():
    log = down()
    assert only(log.switch(200, tasks=[REMIND])).tasks[0].due == 200 + FIVE


# ---- the scenario's file, and kept states ---------------------------------------------------


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        ({"do": "emit", "after": "5s"}, "either on or on_report"),
        ({"on": "down", "do": "emit"}, "after, every or both"),
        ({"on": "down", "do": "set", "after": "5s"}, "a state where do is set"),
        ({"on": "down", "do": "emit", "state": "up", "after": "5s"}, "a state where do is set"),
        ({"on": "down", "do": "emit", "after": "5s", "times": 2}, "none without every"),
        ({"on": "down", "if": "up", "do": "emit", "every": "5s"}, "the most runs"),
        ({"on": "odd", "do": "emit", "every": "5s"}, "one of the scenario's states"),
        ({"on": "down", "do": "emit", "every": "5ms"}, 'at least "1s"'),
        ({"on": "down", "do": "dance", "every": "5s"}, "one of emit, notify, set"),
    ],
)
def test_a_task_that_makes_no_sense_is_no_part_of_a_scenario(task: dict[str, Any], expected: str):
    with pytest.raises(ScenarioError, match=expected):
        scenario(tasks=[task])


def test_a_scenario_reads_its_own_tasks_back():
    rule = scenario(tasks=[REMIND, {"on_report": "up", "every": "5s", "times": 3, "do": "emit"}])
    assert scenario_from_plain(rule.to_plain()) == rule
    assert rule.to_plain()["tasks"][0] == {**REMIND, "after": FIVE}


def test_a_state_keeps_its_tasks():
    log = down(tasks=[REMIND])
    schedule(log, "set", state="up", condition="down", every=5000, times=4, until=900_000)
    log.tick(5200)
    asset = log.bucket.assets[SHOP]
    assert load_asset(dump_asset(asset)) == asset
    assert copy_of(log).tick(400_000) == log.tick(400_000)
