"""What happens to an asset when a timer fires: expiry, end of a pin, a mute or a hold, a task."""

from __future__ import annotations

from typing import NamedTuple

from domain import asset as timer_kinds
from domain import doubts, tasks, transitions, votes
from domain.asset import Asset, Timer, all_timers
from domain.records import Cause, Muted, Task
from domain.scenario import Scenario


def carry_out(scenario: Scenario, asset: Asset, timer: Timer, at: int) -> None:
    """Do to an asset what its timer is for, as of `at` ms.

    What comes again without an effect is `recur`'s matter, the end of an asset's trace the fold's.
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
"""A place in the order in which timers fire: time, ms; kind; of a task its id."""


class Recurrence(NamedTuple):
    """What comes without an effect, once or again: reminders, or runs of a task.

    time: of the next one, ms; order: the timer's kind; task: its id; every: ms, 0 for once;
    following: how many may come after the next one.
    """

    time: int
    order: int
    task: str
    every: int
    following: int

    def before(self, place: TimerPosition) -> int:
        """Return how often it comes before that place."""
        if (self.time, self.order, self.task) >= place:
            return 0
        if self.every == 0:
            return 1
        spare = 0 if (self.order, self.task) < place[1:] else -1
        return 1 + min((place[0] + spare - self.time) // self.every, self.following)

    def last_before(self, place: TimerPosition) -> TimerPosition:
        """Return where it comes for the last time before that place, where it does."""
        return self.time + (self.before(place) - 1) * self.every, self.order, self.task


def recurs(asset: Asset, timer: Timer) -> bool:
    """Return whether a timer has no effect but that readers hear of it."""
    if timer.order == timer_kinds.SCHEDULE:
        return not tasks.has_effect(asset, tasks.due_first(asset))
    return timer.order == timer_kinds.REMINDER


def recur(scenario: Scenario, asset: Asset, clock: int, at: int) -> Recurrence:
    """Count all that recurs up to what is to be heard of; returns that, with its time.

    Of all that comes again by `clock` ms, before anything else happens to the asset, only the last
    is heard of each. at: as of when the timer fires, ms.
    """
    end = _end_of_recurrence(scenario, asset, clock)
    recurring = [each for each in _recurrences(scenario, asset) if each.before(end)]
    heard = min(recurring, key=lambda each: each.last_before(end))
    place = heard.last_before(end)
    for each in recurring:
        count = each.before(place) + (each is heard)
        asset.step += count
        if count:
            _count(asset, each, count, at)
    return heard._replace(time=place[0])


def _end_of_recurrence(scenario: Scenario, asset: Asset, clock: int) -> TimerPosition:
    """Return where the first timer is that has an effect, at the latest after `clock` ms."""
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
    """Return the cause that a timer is, as of `at` ms: whose vote, pin, mute or task it is of."""
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
    """Return the agents whose votes the timer is of."""
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


def cause_of_recurrence(asset: Asset, heard: Recurrence, at: int, partition: int) -> Cause:
    """Return the cause that a reminder or the run of a task is, as of `at` ms."""
    if heard.order == timer_kinds.REMINDER:
        return Cause("reminder", partition, asset.offset, at)
    task = next(task for task in asset.tasks if task.id == heard.task)
    return cause_of_task(asset, task, at, partition)


def cause_of_task(asset: Asset, task: Task, at: int, partition: int) -> Cause:
    """Return the cause that the run of a task is, as of `at` ms."""
    return Cause("schedule", partition, asset.offset, at, user=task.user, command=task.id)
