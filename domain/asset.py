"""What the fold remembers about one asset, and the asset's timers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from domain.records import (
    Answer,
    Cause,
    Doubt,
    Override,
    Pending,
    StateRecord,
    Task,
    Tombstone,
    Vote,
)
from domain.scenario import UNKNOWN, Scenario
from domain.version import Version

# A command repeated within this many commands on its asset gets its first answer again.
ANSWERS_KEPT = 16

# The trace of a purged asset is kept for at least this long, ms.
LEAST_TRACE = 3_600_000


class AnsweredCommand(NamedTuple):
    """A command that was answered: the outcome, the cause and the user."""

    command: str
    outcome: str
    cause: str
    user: str

    @property
    def answer(self) -> Answer:
        """Return the answer that the asset's record carries."""
        return Answer(self.command, self.outcome)


@dataclass(slots=True)
class Asset:
    """State of one asset in the fold. Times are in ms of the bucket's clock.

    state: the tallied state; shown: what readers see, which is the override's state if there is one
    (None: the asset does not exist and only its trace is kept, until forget_at); unconfirmed: the
    reason in words, or None; disputed: a worse state that somebody reports; waits: start time of
    each wait, by the state waited for; offset and step: position of the last event applied;
    changed: (offset, step) of the last change of what is shown; reminded: when the last reminder
    was due, or when the state began; emitted_at: time of the last record emitted; purged_at: time
    of the last purge; tasks: ordered by id, without finished ones; doubts: by agent; settled: since
    when the tallied state is the mildest and nothing speaks against it (no dispute, doubt or
    override), or None.
    """

    state: str | None = None
    shown: str | None = None
    previous: str | None = None
    since: int = 0
    unconfirmed: str | None = None
    disputed: str | None = None
    votes: dict[str, Vote] = field(default_factory=dict)
    waits: dict[str, int] = field(default_factory=dict)
    override: Override | None = None
    offset: int = -1
    step: int = 0
    changed: tuple[int, int] = (-1, 0)
    reminded: int = 0
    emitted_at: int = 0
    answers: list[AnsweredCommand] = field(default_factory=list)
    forget_at: int | None = None
    purged_at: int | None = None
    tasks: tuple[Task, ...] = ()
    doubts: dict[str, Doubt] = field(default_factory=dict)
    settled: int | None = None

    def answered(self, command: str) -> AnsweredCommand | None:
        """Return the first answer to this command, or None if it is no longer remembered."""
        return next((a for a in self.answers if a.command == command), None)

    def remember(self, answered: AnsweredCommand) -> None:
        """Remember the answer, keeping only the newest ANSWERS_KEPT."""
        if self.answered(answered.command) is None:
            self.answers = [*self.answers, answered][-ANSWERS_KEPT:]

    def pending(self, scenario: Scenario) -> Pending | None:
        """Return the wait that ends first, or None.

        If several end together, return the worst of the worse states, else the mildest.
        """
        if not self.waits:
            return None
        here = scenario.severity(self.state or "")

        def end(state: str) -> tuple[int, int]:
            rank = scenario.severity(state)
            return self.waits[state] + scenario.hold(state), rank if rank < here else -rank

        first = min(self.waits, key=end)
        return Pending(first, self.waits[first], end(first)[0])

    def falling(self, scenario: Scenario) -> bool:
        """Return whether there is a wait for a milder state."""
        here = scenario.severity(self.state or "")
        return any(scenario.severity(state) > here for state in self.waits)

    def clear(self, at: int) -> None:
        """Forget the asset's state. Reports older than `at` ms do not bring it back."""
        self.state = self.shown = self.override = self.unconfirmed = self.disputed = None
        self.votes, self.waits, self.doubts, self.tasks = {}, {}, {}, ()
        self.settled, self.purged_at = None, at

    def drop_unknown(self, at: int) -> None:
        """Purge an asset that was never tallied, once nothing said about it is left."""
        doubted = any(doubt.counts for doubt in self.doubts.values())
        if self.state is None and self.override is None and not (self.votes or doubted):
            self.clear(at)

    def voices(self) -> list[Vote | Doubt]:
        """List the votes and the doubts."""
        return [*self.votes.values(), *self.doubts.values()]

    def settle(self, scenario: Scenario, at: int) -> None:
        """Record since when nothing speaks against the mildest state, as of `at` ms."""
        mild = self.state == scenario.mildest and self.override is None and self.disputed is None
        if not (scenario.doubting and mild) or self.is_in_doubt():
            self.settled = None
        elif self.settled is None:
            self.settled = at

    def is_in_doubt(self) -> bool:
        """Return whether a vote that counts is in doubt, or a doubt that counts exists."""
        return any(vote.doubt is not None and vote.counts for vote in self.votes.values()) or any(
            doubt.counts for doubt in self.doubts.values()
        )

    def to_show(self) -> str | None:
        """Return the state to show: the override, else the tallied state, else UNKNOWN.

        Return None if the asset does not exist.
        """
        if self.override is not None:
            return self.override.state
        if self.state is not None:
            return self.state
        return UNKNOWN if self.shown is not None or self.votes else None

    def trace(self, at: int, scenario: Scenario) -> Asset:
        """Return what is kept of an asset purged at `at` ms: answers, position and purge time."""
        return Asset(
            offset=self.offset,
            step=self.step,
            changed=(self.offset, self.step),
            answers=self.answers,
            forget_at=at + max(LEAST_TRACE, scenario.purge_memory),
            purged_at=self.purged_at,
        )

    def record(
        self, name: str, scenario: Scenario, epoch: int, cause: Cause, answer: Answer | None
    ) -> StateRecord | Tombstone:
        """Return the asset's record as of its last event: a tombstone if the asset is not shown."""
        version = Version(epoch, self.offset, self.step)
        if self.shown is None:
            return Tombstone(name, version, cause, answer)
        return StateRecord(
            asset=name,
            state=self.shown,
            previous=self.previous,
            since=self.since,
            unconfirmed=self.unconfirmed is not None,
            version=version,
            cause=cause,
            votes=tuple(self.votes[agent] for agent in sorted(self.votes)),
            pending=self.pending(scenario),
            override=self.override,
            answer=answer,
            unconfirmed_reason=self.unconfirmed,
            disputed=self.disputed,
            tasks=self.tasks,
            doubts=tuple(self.doubts[agent] for agent in sorted(self.doubts)),
        )


class Timer(NamedTuple):
    """A timer of an asset, ordered by the time at which it fires (ms), then by kind."""

    time: int
    order: int

    @property
    def type(self) -> str:
        """Return the type of the timer's cause."""
        return TIMER_TYPES[self.order]


TIMER_TYPES = (
    "override-end",
    "vote-expiry",
    "doubt-end",
    "vote-forgotten",
    "mute-end",
    "hold",
    "schedule",
    "reminder",
    "purge-after",
    "forget",
)
OVERRIDE_END, VOTE_EXPIRY, DOUBT_END, VOTE_FORGOTTEN, MUTE_END, HOLD = range(6)
SCHEDULE, REMINDER, PURGE_AFTER, FORGET = range(6, 10)
# Timers due at the same time fire in this order. All timers of one kind fire together, whichever
# agents they belong to, except tasks, which run one by one in the order of their ids. Doubts end
# together with the votes that expire.


def next_timer(asset: Asset, scenario: Scenario) -> Timer | None:
    """Return the asset's timer that fires first, or None."""
    return min(all_timers(asset, scenario), default=None)


def all_timers(asset: Asset, scenario: Scenario) -> list[Timer]:
    """Return the asset's timers: one per vote, mark and task, and one of each other kind."""
    if asset.shown is None:
        return [] if asset.forget_at is None else [Timer(asset.forget_at, FORGET)]
    timers = _timers_of_votes(asset, scenario)
    if asset.override is not None and asset.override.until is not None:
        timers.append(Timer(asset.override.until, OVERRIDE_END))
    if (pending := asset.pending(scenario)) is not None:
        timers.append(Timer(pending.due, HOLD))
    for task in asset.tasks:
        if task.due is not None and task.aside is None:
            timers.append(Timer(task.due, SCHEDULE))
    if (every := scenario.reminder(asset.shown)) is not None:
        timers.append(Timer(asset.reminded + every, REMINDER))
    if (purge := _purge_time(asset, asset.shown, scenario)) is not None:
        timers.append(Timer(purge, PURGE_AFTER))
    return timers


def _purge_time(asset: Asset, shown: str, scenario: Scenario) -> int | None:
    """Return when the asset purges itself, ms, or None if it does not."""
    delay = scenario.purge_delay(shown)
    if delay is None:
        return None
    due = asset.since + delay
    if scenario.doubting:
        return None if asset.settled is None else max(due, asset.settled)
    if scenario.lenient:
        return due
    # A dispute that delayed the purge ended at the latest with the last record emitted.
    return None if asset.disputed is not None else max(due, asset.emitted_at)


def _timers_of_votes(asset: Asset, scenario: Scenario) -> list[Timer]:
    timers = []
    delay = scenario.forget_delay
    for vote in asset.votes.values():
        if vote.silent is not None:
            timers.append(Timer(vote.silent + (delay or 0), VOTE_FORGOTTEN))
        elif vote.expires is not None:
            timers.append(Timer(vote.expires, VOTE_EXPIRY))
        if vote.flapping is not None:
            timers.append(Timer(vote.flapping.until, DOUBT_END))
    timers += [Timer(doubt.until, DOUBT_END) for doubt in asset.doubts.values()]
    for voice in asset.voices():
        if voice.muted is not None and voice.muted.until is not None:
            timers.append(Timer(voice.muted.until, MUTE_END))
    return timers


@dataclass(frozen=True, slots=True)
class View:
    """What readers see of an asset, kept for comparison."""

    shown: str | None
    pending: Pending | None
    override: Override | None
    unconfirmed: str | None
    disputed: str | None
    votes: dict[str, Vote]
    tasks: tuple[Task, ...]
    doubts: dict[str, Doubt]

    @classmethod
    def of(cls, asset: Asset, scenario: Scenario) -> View:
        """Return what is visible of the asset now."""
        return cls(
            asset.shown,
            asset.pending(scenario),
            asset.override,
            asset.unconfirmed,
            asset.disputed,
            dict(asset.votes),
            asset.tasks,
            dict(asset.doubts),
        )

    def differs(self, asset: Asset, scenario: Scenario) -> bool:
        """Return whether anything visible of the asset has changed."""
        return (
            self.shown != asset.shown
            or self.unconfirmed != asset.unconfirmed
            or self.disputed != asset.disputed
            or self.override != asset.override
            or self.pending != asset.pending(scenario)
            or self.tasks != asset.tasks
            or _differ(self.votes, asset.votes)
            or _differ(self.doubts, asset.doubts)
        )

    def looked_at(self, asset: Asset, scenario: Scenario) -> bool:
        """Return whether the sender of a command still sees the same asset.

        Compares the state shown and the override or, without an override, the state waited for.
        """
        if self.shown != asset.shown:
            return False
        if self.override is not None and asset.override is not None:
            return replace(self.override, underlying=asset.override.underlying) == asset.override
        pending = asset.pending(scenario)
        same_wait = (self.pending and self.pending.state) == (pending and pending.state)
        return self.override is asset.override and same_wait


def _differ(before: Mapping[str, Vote | Doubt], after: Mapping[str, Vote | Doubt]) -> bool:
    return before.keys() != after.keys() or any(
        each is not after[agent] and each.shown() != after[agent].shown()
        for agent, each in before.items()
    )
