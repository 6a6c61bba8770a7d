"""Tasks of an asset: scheduled by commands or by the scenario, and run by timers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from domain import commands
from domain.asset import Asset
from domain.names import USER_PREFIX
from domain.records import (
    APPLIED,
    MAX_TASKS,
    NO_CHANGE,
    NOT_MET,
    Command,
    Override,
    Schedule,
    Task,
)
from domain.scenario import UNKNOWN, Scenario, TaskRule

# The owner of tasks that the scenario starts; no user name contains a space.
RULE_OWNER = "the rule"

# More runs than can ever happen.
ENDLESS = 2**62

# ---- commands -------------------------------------------------------------------------------


def refusal(scenario: Scenario, command: Command, asset: Asset, clock: int) -> str | None:
    """Return why a task cannot be scheduled or cancelled at `clock` ms, or None if it can."""
    if command.kind == "cancel" and _find(asset, command.task) is None:
        return "no such task"
    if command.schedule is None or _find(asset, command.id) is not None:
        return None
    if asset.shown is None:
        return "no such asset"
    if not _is_known(scenario, command.state, command.schedule.condition):
        return "unknown state"
    first = _first_run(command.schedule, clock)
    if first <= clock:
        return "the time is in the past"
    if command.until is not None and command.until < first:
        return "the end is before the first run"
    own = sum(task.user != RULE_OWNER for task in asset.tasks)
    return "too many tasks" if own >= MAX_TASKS else None


def schedule(command: Command, asset: Asset, clock: int) -> str:
    """Add the task that a command schedules to the asset, and return the outcome."""
    order = command.schedule
    if order is None or _find(asset, command.id) is not None:
        return NO_CHANGE
    task = Task(
        id=command.id,
        do=order.do,
        user=command.user,
        reason=command.reason,
        due=_first_run(order, clock),
        state=command.state if order.do == "set" else None,
        condition=order.condition,
        every=order.every,
        until=command.until,
        times=order.times,
    )
    _put(asset, task)
    return APPLIED


def cancel(command: Command, asset: Asset) -> str:
    """Remove the task that a command names, and return the outcome."""
    _keep(asset, lambda task: task.id != command.task)
    return APPLIED


def _first_run(order: Schedule, clock: int) -> int:
    if order.at is not None:
        return order.at
    return clock + (order.after or order.every or 0)


def _is_known(scenario: Scenario, state: str | None, condition: str | None) -> bool:
    """Return whether the scenario knows the state to set and the condition."""
    settable = state is None or scenario.knows(state)
    return settable and (condition in (None, UNKNOWN) or scenario.knows(condition or ""))


def _find(asset: Asset, id_: str | None) -> Task | None:
    return next((task for task in asset.tasks if task.id == id_), None)


def _put(asset: Asset, task: Task) -> None:
    others = [each for each in asset.tasks if each.id != task.id]
    asset.tasks = tuple(sorted([*others, task], key=lambda each: each.id))


def _keep(asset: Asset, kept: Callable[[Task], bool]) -> None:
    if asset.tasks:
        asset.tasks = tuple(task for task in asset.tasks if kept(task))


# ---- tasks of the scenario ------------------------------------------------------------------


def enter(scenario: Scenario, asset: Asset, at: int) -> None:
    """End the tasks of the state that the asset has left, and start those of the one it shows."""
    shown = asset.shown
    _keep(asset, lambda task: task.within is None or task.within == shown)
    for rule in scenario.tasks:
        if shown is not None and rule.on == shown:
            _put(asset, _begun(scenario, rule, at))


def reported(scenario: Scenario, asset: Asset, state: str, at: int) -> None:
    """Start the tasks for a report of `state`, unless they are already running."""
    for rule in scenario.tasks:
        if rule.on_report == state and _find(asset, rule.id) is None:
            _put(asset, _begun(scenario, rule, at))


def adopt(rule: Scenario, former: Scenario, asset: Asset, at: int) -> None:
    """Put the tasks under another rule: suspend those it cannot run, and resume those it can.

    Start its new tasks for the state that the asset shows.
    """
    asset.tasks = tuple(replace(task, aside=_aside(rule, task)) for task in asset.tasks)
    if asset.to_show() != asset.shown:
        return
    for each in rule.tasks:
        if each.on == asset.shown and each.id not in former.task_ids and not _find(asset, each.id):
            _put(asset, _begun(rule, each, at))


def _begun(scenario: Scenario, rule: TaskRule, at: int) -> Task:
    return Task(
        id=rule.id,
        do=rule.do,
        user=RULE_OWNER,
        reason="",
        due=at + rule.delay,
        state=rule.state,
        condition=rule.condition,
        every=rule.every,
        times=rule.times,
        within=rule.within,
        aside=scenario.task_fault(rule),
    )


def _aside(rule: Scenario, task: Task) -> str | None:
    """Return why a task does not run under this rule, or None if it does."""
    if task.user == RULE_OWNER and task.id not in rule.task_ids:
        return "the scenario has no such task"
    if not _is_known(rule, task.state, None):
        return f"the scenario has no state {task.state}"
    if not _is_known(rule, None, task.condition):
        return f"the scenario has no state {task.condition}"
    return rule.task_faults.get(task.id) if task.user == RULE_OWNER else None


# ---- runs -----------------------------------------------------------------------------------


def due_first(asset: Asset) -> Task:
    """Return the task that runs first. Raises ValueError if none is to run."""
    return min((task for task in asset.tasks if task.aside is None), key=_order)


def has_effect(asset: Asset, task: Task) -> bool:
    """Return whether a run of the task now would change anything but the record of the run."""
    if not _is_met(asset, task):
        return False
    match task.do:
        case "set":
            return asset.override is None or not asset.override.same_pin(_pin_of(task))
        case "release":
            return asset.override is not None or USER_PREFIX + task.user in asset.votes
        case "purge":
            return True
    return False


def run(scenario: Scenario, asset: Asset, task: Task, at: int) -> None:
    """Carry out a task that has an effect, as of `at` ms."""
    record_runs(asset, task, 1, APPLIED, at)
    match task.do:
        case "set":
            asset.override = replace(_pin_of(task), since=at)
        case "release":
            commands.release(scenario, asset, task.user, at)
        case "purge":
            asset.clear(at)


def idle_outcome(asset: Asset, task: Task) -> str:
    """Return the outcome of a run without effect."""
    if not _is_met(asset, task):
        return NOT_MET
    return NO_CHANGE if task.do in ("set", "release") else APPLIED


def record_runs(asset: Asset, task: Task, runs: int, outcome: str, at: int) -> None:
    """Record that a task has run `runs` times with this outcome, the last time no earlier than `at`
    ms."""
    every = task.every or 0
    last = (task.due or 0) + (runs - 1) * every
    _put(
        asset,
        replace(
            task,
            due=None if runs > following(task) else last + every,
            times=None if task.times is None else task.times - runs,
            outcome=outcome,
            ran=max(at, last),
        ),
    )


def following(task: Task) -> int:
    """Return how many runs may follow the next one."""
    if task.every is None:
        return 0
    by_times = ENDLESS if task.times is None else task.times - 1
    by_end = ENDLESS if task.until is None else (task.until - (task.due or 0)) // task.every
    return min(by_times, by_end)


def drop_finished(asset: Asset) -> None:
    """Remove the tasks that will not run again."""
    _keep(asset, lambda task: task.due is not None)


def _order(task: Task) -> tuple[int, str]:
    return task.due or 0, task.id


def _is_met(asset: Asset, task: Task) -> bool:
    return task.condition is None or task.condition == asset.shown


def _pin_of(task: Task) -> Override:
    return Override(
        state=task.state or "",
        until=None,
        user=task.user,
        reason=task.reason,
        command=task.id,
        since=0,
    )
