"""What a timer does to an asset: an expiry, the end of an override, mute or hold, or a task."""

from __future__ import annotations

from typing import NamedTuple

from domain import asset as timer_kinds
from domain import doubts, tasks, transitions, votes
from domain.asset import Asset, Timer, all_timers
from domain.records import Cause, Muted, Task
from domain.scenario import Scenario


def carry_out(scenario: Scenario, asset: Asset, timer: Timer, at: int) -> None:
    """Apply the effect of a timer to an asset, as of `at` ms.

    `recur` handles timers without effect, and the fold the end of an asset's trace.
    """
    match timer.order:
        case timer_kinds.OVERRIDE_END:
            asset.override = None
        case timer_kinds.VOTE_EXPIRY | timer_kinds.DOUBT_END:
            votes.expire(scenario, asset, timer.time, timer.time)
            doubts.end(asset, timer.time)
            transitions.judge(scenario, asset, at)
        case timer_kinds.VOTE_FORGOTTEN:
            votes.forget(scenario, asset, timer.time)
            transitions.judge(scenario, asset, at)
            asset.drop_unknown(at)
        case timer_kinds.MUTE_END:
            votes.unmute(scenario, asset, timer.time)
            transitions.judge(scenario, asset, at, up=True, down=True)
        case timer_kinds.HOLD:
            transitions.end_waits(scenario, asset, at)
        case timer_kinds.SCHEDULE:
            tasks.run(scenario, asset, tasks.due_first(asset), at)
        case timer_kinds.PURGE_AFTER:
            asset.clear(at)


TimerPosition = tuple[int, int, str]
"""A place in the firing order of timers: time (ms), kind, and for a task its id."""


class Recurrence(NamedTuple):
    """A timer without effect that fires once or repeatedly: reminders, or runs of a task.

    time: of the next occurrence, ms; order: the timer's kind; task: its id; every: interval in ms,
    0 if it occurs once; following: how many occurrences may follow the next one.
    """

    time: int
    order: int
    task: str
    every: int
    following: int

    def before(self, place: TimerPosition) -> int:
        """Return how many occurrences come before that place."""
        if (self.time, self.order, self.task) >= place:
            return 0
        if self.every == 0:
            return 1
        spare = 0 if (self.order, self.task) < place[1:] else -1
        return 1 + min((place[0] + spare - self.time) // self.every, self.following)

    def last_before(self, place: TimerPosition) -> TimerPosition:
        """Return the place of the last occurrence before that place; there must be one."""
        return self.time + (self.before(place) - 1) * self.every, self.order, self.task


def recurs(asset: Asset, timer: Timer) -> bool:
    """Return whether a timer has no effect other than the record it emits."""
    if timer.order == timer_kinds.SCHEDULE:
        return not tasks.has_effect(asset, tasks.due_first(asset))
    return timer.order == timer_kinds.REMINDER


def recur(scenario: Scenario, asset: Asset, clock: int, at: int) -> Recurrence:
    """Count all recurrences up to the next one to emit; return that one, with its time.

    Of each recurrence, only the last occurrence is emitted: the last by `clock` ms, before anything
    else happens to the asset. at: the time as of which the timer fires, ms.
    """
    end = _end_of_recurrence(scenario, asset, clock)
    recurring = [each for each in _recurrences(scenario, asset) if each.before(end)]
    first = min(recurring, key=lambda each: each.last_before(end))
    place = first.last_before(end)
    for each in recurring:
        count = each.before(place) + (each is first)
        asset.step += count
        if count:
            _count(asset, each, count, at)
    return first._replace(time=place[0])


def _end_of_recurrence(scenario: Scenario, asset: Asset, clock: int) -> TimerPosition:
    """Return the place of the first timer with an effect, or a place just after `clock` ms."""
    kinds = (timer_kinds.SCHEDULE, timer_kinds.REMINDER)
    places = [
        (timer.time, timer.order, "")
        for timer in all_timers(asset, scenario)
        if timer.order not in kinds
    ]
    places += [
        (task.due, timer_kinds.SCHEDULE, task.id)
        for task in asset.tasks
        if task.due is not None and task.aside is None and tasks.has_effect(asset, task)
    ]
    return min([(clock + 1, 0, ""), *places])


def _recurrences(scenario: Scenario, asset: Asset) -> list[Recurrence]:
    recurrences = [
        Recurrence(task.due, timer_kinds.SCHEDULE, task.id, task.every or 0, tasks.following(task))
        for task in asset.tasks
        if task.due is not None and task.aside is None and not tasks.has_effect(asset, task)
    ]
    if (every := scenario.reminder(asset.shown or "")) is not None:
        due = asset.reminded + every
        recurrences.append(Recurrence(due, timer_kinds.REMINDER, "", every, tasks.ENDLESS))
    return recurrences


def _count(asset: Asset, each: Recurrence, count: int, at: int) -> None:
    if each.order == timer_kinds.REMINDER:
        asset.reminded += count * each.every
        return
    task = next(task for task in asset.tasks if task.id == each.task)
    tasks.record_runs(asset, task, count, tasks.idle_outcome(asset, task), at)


def cause(scenario: Scenario, asset: Asset, timer: Timer, at: int, partition: int) -> Cause:
    """Return a timer's cause as of `at` ms, naming the agent, user, override or task."""
    if timer.order == timer_kinds.SCHEDULE:
        return cause_of_task(asset, tasks.due_first(asset), at, partition)
    pinned = asset.override if timer.order == timer_kinds.OVERRIDE_END else None
    agent = _only(_agents_of(scenario, asset, timer))
    muted = _mark_of(asset, agent) if agent and timer.order == timer_kinds.MUTE_END else None
    ended = pinned or muted
    return Cause(
        type=timer.type,
        partition=partition,
        offset=asset.offset,
        time=at,
        agent=agent,
        user=ended.user if ended else None,
        command=pinned.command if pinned else None,
    )


def _agents_of(scenario: Scenario, asset: Asset, timer: Timer) -> list[str]:
    """Return the agents whose votes or doubts the timer concerns."""
    match timer.order:
        case timer_kinds.VOTE_EXPIRY:
            return votes.expiring(asset, timer.time)
        case timer_kinds.DOUBT_END:
            return doubts.ending(asset, timer.time)
        case timer_kinds.VOTE_FORGOTTEN:
            return votes.forgotten(scenario, asset, timer.time)
        case timer_kinds.MUTE_END:
            return votes.unmuted(asset, timer.time)
    return []


def _mark_of(asset: Asset, agent: str) -> Muted | None:
    return (asset.votes.get(agent) or asset.doubts[agent]).muted


def _only(agents: list[str]) -> str | None:
    return agents[0] if len(agents) == 1 else None


def cause_of_recurrence(asset: Asset, recurrence: Recurrence, at: int, partition: int) -> Cause:
    """Return the cause of a reminder or of a task's run, as of `at` ms."""
    if recurrence.order == timer_kinds.REMINDER:
        return Cause("reminder", partition, asset.offset, at)
    task = next(task for task in asset.tasks if task.id == recurrence.task)
    return cause_of_task(asset, task, at, partition)


def cause_of_task(asset: Asset, task: Task, at: int, partition: int) -> Cause:
    """Return the cause of a task's run, as of `at` ms."""
    return Cause("schedule", partition, asset.offset, at, user=task.user, command=task.id)
