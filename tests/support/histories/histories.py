"""Generated histories of one bucket: whole logs with rules, reports, commands, ticks and time.

One generator serves hypothesis (`histories()`, which shrinks) and plain seeds (`seeded(n)`, which
are fast and the same everywhere, so that two engines can be held against each other). Names,
durations and steps of time are few and small, so that timers meet at one time.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from domain.asset import next_timer
from domain.fold import Bucket
from domain.records import (
    DEAD_LETTER_REASONS,
    MAX_MUTED,
    MAX_VOTERS,
    Command,
    Emission,
    Leave,
    Mute,
    Record,
    Refusal,
    RefusedReport,
    Report,
    ScenarioChange,
    Schedule,
    Tick,
    Unmute,
    Unreadable,
)
from domain.scenario import ACTIONS, DOUBT_FOLD, FOLD, UNKNOWN, Scenario
from domain.scenario_parser import scenario_from_plain
from domain.timer_index import TimerHeap
from domain.version import Version
from support.run.selection import examples
from wire.asset import dump_asset, dump_bucket, load_asset, load_bucket

T = TypeVar("T")
Integer = Callable[[int, int], int]

SECOND = 1000
START = 10_000_000
"""Append time of the first record, ms."""
SPACING = 10
"""Between the offsets of a history, so that a test can put ticks in between."""

STATES = ("bad", "meh", "good")
WORDS = (*STATES, "odd")
ASSETS = ("a", "b", "ü/10.0.0.0%2F8")
AGENTS = ("w1", "w2", "s1", "s22")
USERS = ("olga", "ed")
STEPS = (1, 1, 0, 0, 2, 3, 5, 8, 31, 3601)
"""Seconds from one record to the next: often none, at times past the memory of answers."""
BUSY = (0, 0, 0, 1, 1, 1, 1, 2, 3, 6)
"""The same in a history of one asset on which much happens."""
AGES = (None, None, 0, 0, 1, -1, 2, 4, 7, 13, 45, 900, -7, -300, -301, -250)
"""Seconds by which an agent's clock lies behind the broker's: in a spool, or as it is wrong."""
VOTERS = (1, 1, 1, 1, 2, 3, {"lower": 3, "raise": 2}, {"lower": 2}, {"raise": 2})
"""The live voters that lowering, and raising, a state takes."""
WEIGHTS: tuple[dict[str, int], ...] = (
    {},
    {"s*": 2},
    {"w1": 3, "w*": 0},
    {"s*": 2, "s2*": 5},
    {"w2": 0},
)
FOLDS = (FOLD, FOLD, FOLD, FOLD, FOLD - 1, DOUBT_FOLD - 1, 1)
"""Versions of the fold that a scenario is written for."""
CHANGING = (
    *("holds", "holds", "vote_lifetime", "forget_after", "min_voters", "weights", "tasks", "fold"),
)
"""Keys of a rule that change alone."""
DETAIL_FAULTS = ("too-large", "bad-field")
"""Why a report's detail is left out."""
REFUSED_REPORTS = (
    (True, "bad-time"),
    (True, "bad-time"),
    (False, "bad-field"),
    (False, "unknown-state"),
    (True, "not-json"),
    (False, "not-json"),
)
"""Whether it can be read what a refused report says, and why it is refused."""
LEAPS = (7, 60, 400, 86_400)
"""Seconds by which one append time lies ahead of those around it."""


class Entry(NamedTuple):
    """A record of a log: its offset, and the broker's append time, ms."""

    offset: int
    time: int
    record: Record


@dataclass(frozen=True)
class History:
    """A bucket's log, and the rule that holds before its first scenario record."""

    scenario: Scenario
    entries: tuple[Entry, ...]
    partition: int = 2

    def bucket(self, epoch: int = 1) -> Bucket:
        """The bucket before the first record."""
        return Bucket(self.scenario, self.partition, epoch)


def stamped(record: Record, time: int) -> Record:
    """Return a record as it is read that was appended at `time` ms: how far is its agent ahead?"""
    if not isinstance(record, Report | Leave) or record.reported_at is None:
        return record
    return replace(record, ahead=max(0, record.reported_at - time))


def words_of(task: dict[str, Any]) -> set[str]:
    """The states that a scenario's task names."""
    return {task[key] for key in ("on", "on_report", "if", "state") if key in task}


# ---- running a history ---------------------------------------------------------------------


def play(bucket: Bucket, entries: Iterable[Entry]) -> list[Emission]:
    """Everything that the bucket emits for these records, in order."""
    return [out for e in entries for out in bucket.apply(e.record, e.offset, e.time)]


def restored_whole(bucket: Bucket) -> Bucket:
    """The bucket after its snapshot was written and read."""
    return load_bucket(dump_bucket(bucket), bucket.epoch)


def restored_by_asset(bucket: Bucket) -> Bucket:
    """The bucket after each asset was written and read for itself, as a state store does."""
    return Bucket(
        scenario_from_plain(bucket.scenario.to_plain()),
        bucket.partition,
        bucket.epoch,
        {name: load_asset(dump_asset(asset)) for name, asset in bucket.assets.items()},
        TimerHeap(timer_times(bucket).items()),
        clock=bucket.clock,
        offset=bucket.offset,
        live=bucket.live,
        mutes=list(bucket.mutes.values()),
    )


def timer_times(bucket: Bucket) -> dict[str, int]:
    """Return when the next timer of every asset fires, computed from scratch."""
    timers = ((name, next_timer(asset, bucket.scenario)) for name, asset in bucket.assets.items())
    return {name: timer.time for name, timer in timers if timer is not None}


# ---- testing with them ---------------------------------------------------------------------

PROFILE = settings(
    max_examples=examples(20),
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def every_history(
    test: Callable[[History, random.Random], None], *, seeds: int = 100, profile: settings = PROFILE
) -> Callable[[], None]:
    """Run a test with generated histories.

    profile: how many hypothesis finds; seeds: how many come from plain seeds, longer and the same
    ones in every run, of which a plain run takes the first few.
    """

    @profile
    @given(histories(), st.integers(0, 2**32))
    def by_hypothesis(history: History, number: int) -> None:
        test(history, random.Random(number))

    def run() -> None:
        for seed in range(examples(seeds)):
            test(seeded(seed), random.Random(seed))
        by_hypothesis()

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


# ---- making them ---------------------------------------------------------------------------


@st.composite
def histories(draw: st.DrawFn, most: int = 24) -> History:
    """A whole history of up to `most` records."""
    return generate(lambda low, high: draw(st.integers(low, high)), most)


@lru_cache(maxsize=500)
def seeded(seed: int, most: int = 40) -> History:
    """The history of this seed, the same on every machine."""
    return generate(random.Random(seed).randint, most)


def scenarios() -> st.SearchStrategy[Scenario]:
    """A scenario of any form."""

    @st.composite
    def make(draw: st.DrawFn) -> Scenario:
        return _Maker(lambda low, high: draw(st.integers(low, high))).scenario()

    return make()


def generate(integer: Integer, most: int) -> History:
    """A history out of a source of integers: `integer(low, high)`, both included."""
    maker = _Maker(integer)
    scenario = maker.first_rule()
    return History(scenario, tuple(maker.entries(integer(1, most))))


class _Maker:
    """Draws the parts of one history."""

    def __init__(self, integer: Integer) -> None:
        self._integer = integer
        self._time = START
        self._offset = -SPACING
        self._ids: list[str] = []
        self._tasks: list[str] = []
        self._made = 0
        self._muted = AGENTS[0]
        self._busy = False
        self._rule_now: Scenario | None = None
        self._makers: tuple[tuple[int, Callable[[], Record]], ...] = (
            (20, self._report),
            (3, self._refused_report),
            (2, self._clone),
            (4, self._tick),
            (2, self._leave),
            (8, self._command),
            (2, self._change),
            (5, self._mute),
            (2, self._refusal),
            (1, self._unreadable),
        )

    def pick(self, options: Sequence[T]) -> T:
        return options[self._integer(0, len(options) - 1)]

    def chance(self, of: int) -> bool:
        """True once in `of` times."""
        return self._integer(0, of - 1) == of - 1

    # ---- the log ----

    def first_rule(self) -> Scenario:
        """The rule that holds before the first scenario record."""
        self._rule_now = self.scenario()
        return self._rule_now

    def entries(self, length: int) -> Iterator[Entry]:
        self._busy = self.chance(2)
        if self.chance(40):
            yield from self._crowd()
        if self.chance(100):
            yield from self._silenced()
        leap = self._integer(0, length) if self.chance(12) else None
        for number in range(length):
            self._pass_time()
            ahead = self.pick(LEAPS) * SECOND if number == leap else 0
            yield self._entry(self._record(), ahead)

    def _entry(self, record: Record, ahead: int = 0) -> Entry:
        self._offset += SPACING
        return Entry(self._offset, self._time + ahead, stamped(record, self._time + ahead))

    def _pass_time(self) -> None:
        step = self.pick(BUSY if self._busy else STEPS)
        self._time += -2 * SECOND if self.chance(40) else step * SECOND

    def _record(self) -> Record:
        at = self._integer(0, sum(share for share, _ in self._makers) - 1)
        for share, make in self._makers:
            at -= share
            if at < 0:
                return make()
        raise AssertionError

    def _crowd(self) -> Iterator[Entry]:
        """As many agents as one asset takes, or nearly so, at one time; then an operator."""
        words = self.pick((STATES, STATES[:1], STATES[1:2]))
        for number in range(MAX_VOTERS - self.pick((0, 0, 1, 3))):
            yield self._entry(Report("a", f"crowd-{number}", self.pick(words)))
        yield self._entry(Command("vote", "a", self._id(), "olga", state=self.pick(STATES)))

    def _silenced(self) -> Iterator[Entry]:
        """As many muted agents as a bucket takes, and one more."""
        until = self._time + 5 * SECOND
        for number in range(MAX_MUTED + 1):
            yield self._entry(Mute(f"crowd-{number}", until, "olga", "", self._new_id()))

    # ---- records ----

    def _report(self) -> Report:
        detail = f'{{ "n": {self._integer(0, 9)},"é":[null, 1.50]}}' if self.chance(6) else None
        fault = self.pick(DETAIL_FAULTS) if detail is not None and self.chance(3) else None
        return Report(
            asset=self._asset(),
            agent=self.pick(AGENTS),
            state=self._word(),
            reported_at=self._reported_at(),
            detail=detail if fault is None else None,
            detail_fault=fault,
            sunk="not-json" if self.chance(12) else None,
        )

    def _refused_report(self) -> RefusedReport:
        said, reason = self.pick(REFUSED_REPORTS)
        word = self._word() if said else None
        fault = self.pick(DETAIL_FAULTS) if self.chance(6) else None
        sunk = "not-json" if reason == "not-json" else None
        return RefusedReport(self._asset(), self.pick(AGENTS), word, reason, fault, sunk=sunk)

    def _clone(self) -> Report:
        """A second process under an agent's name, whose clock is a little behind."""
        at = self._time - self.pick((1, 2, 3)) * SECOND
        return Report(self._asset(), AGENTS[0], STATES[0], at)

    def _leave(self) -> Leave:
        return Leave(self._asset(), self.pick(AGENTS), self._reported_at())

    def _reported_at(self) -> int | None:
        age = self.pick(AGES)
        return None if age is None else self._time - age * SECOND

    def _tick(self) -> Tick:
        return Tick()

    def _change(self) -> ScenarioChange:
        """Another rule; often the one in force, with another value in one of its keys."""
        drawn = self.scenario()
        if self._rule_now is not None and self.chance(2):
            now, key = self._rule_now.to_plain(), self.pick(CHANGING)
            value = drawn.to_plain()[key]
            known = [spec["name"] for spec in now["states"]]
            if key == "holds":
                value = {word: hold for word, hold in value.items() if word in known}
            if key == "tasks":
                value = [task for task in value if words_of(task) <= {*known}]
            drawn = scenario_from_plain({**now, key: value})
        self._rule_now = drawn
        return ScenarioChange(drawn)

    def _mute(self) -> Mute | Unmute:
        agent, user = self.pick((*AGENTS, *AGENTS, self._muted)), self.pick(USERS)
        if self.chance(2):
            agent = self.pick((self._muted, self._muted, agent))
            return Unmute(agent, user, self.pick(("", "seen")), self._new_id())
        self._muted = agent
        until = None if self.chance(2) else self._until()
        return Mute(agent, until, user, self.pick(("", "wild")), self._new_id())

    def _unreadable(self) -> Unreadable:
        return Unreadable(self.pick(DEAD_LETTER_REASONS))

    def _refusal(self) -> Refusal:
        """At times of a command that was read once and now comes again, damaged."""
        repeated = bool(self._ids) and self.chance(2)
        id_ = self.pick(self._ids) if repeated else self._id()
        user = self.pick((*USERS, ""))
        return Refusal(self._asset(), id_, user, "reason: expected a text")

    def _command(self) -> Command:
        if self.chance(3):
            return self._schedule() if not self.chance(4) else self._cancel()
        kind = self.pick(("set", "vote", "release", "purge", "set", "release"))
        return Command(
            kind=kind,  # type: ignore[arg-type]
            asset=self._asset(),
            id=self._id(),
            user=self.pick(USERS),
            reason=self.pick(("", "seen")),
            state=self._word() if kind in ("set", "vote") else None,
            until=self._until() if kind == "set" else None,
            if_version=self._if_version(),
        )

    def _schedule(self) -> Command:
        """A task: at times one that cannot be."""
        do, every = self.pick((*ACTIONS[:4], *ACTIONS)), self.pick((None, None, 1, 2, 3, 7))
        at = self._time + self.pick((1, 2, 3, 8, 0, -1)) * SECOND if self.chance(4) else None
        after = None if at is not None or (every and self.chance(2)) else self.pick((1, 2, 5, 10))
        id_ = self._id()
        self._tasks.append(id_)
        return Command(
            kind="schedule",
            asset=self._asset(),
            id=id_,
            user=self.pick(USERS),
            reason=self.pick(("", "seen")),
            state=self._word() if do == "set" else None,
            until=self._until() if every and self.chance(3) else None,
            if_version=self._if_version(),
            schedule=Schedule(
                do=do,
                condition=self.pick((None, self._word(), self._word(), UNKNOWN)),
                after=after and after * SECOND,
                at=at,
                every=every and every * SECOND,
                times=self.pick((None, None, 1, 2, 4)) if every else None,
            ),
        )

    def _cancel(self) -> Command:
        started = [task.id for task in self._rule_now.tasks] if self._rule_now else []
        task = self.pick((*self._tasks[-3:], *started[:1], "00000000-0000-4000-8000-00000000ffff"))
        return Command("cancel", self._asset(), self._id(), self.pick(USERS), task=task)

    def _asset(self) -> str:
        if self._busy:
            return ASSETS[0]
        return self.pick((ASSETS[0], ASSETS[0], ASSETS[0], ASSETS[1], ASSETS[2]))

    def _word(self) -> str:
        return "odd" if self.chance(12) else self.pick(STATES)

    def _until(self) -> int | None:
        seconds = self.pick((None, None, 1, 2, 3, 5, 10, 0, -1))
        return None if seconds is None else self._time + seconds * SECOND

    def _if_version(self) -> Version | None:
        """None mostly; else that of an earlier record, or of the one just before this."""
        if not self.chance(4):
            return None
        back = self._integer(0, 5) * SPACING
        return Version(self._integer(0, 2), max(0, self._offset - back), self._integer(0, 1))

    def _id(self) -> str:
        if self._ids and self.chance(5):
            return self.pick(self._ids)
        self._ids.append(self._new_id())
        return self._ids[-1]

    def _new_id(self) -> str:
        self._made += 1
        return f"00000000-0000-4000-8000-{self._made - 1:012d}"

    # ---- rules ----

    def scenario(self) -> Scenario:
        open_words = self.chance(5)
        words = STATES[: 2 if self.chance(6) else 3]
        return scenario_from_plain(
            {
                "name": "watch",
                "fold": self.pick(FOLDS),
                "vocabulary": "open" if open_words else "closed",
                "severity": "none" if open_words or self.chance(5) else "order",
                "states": [{"name": word} for word in words],
                "rule": self._rule(words),
                "min_voters": self.pick(VOTERS),
                "forget_after": self._seconds((None, None, 0, 4, 9, 20, 60)),
                "vote_lifetime": self._seconds((None, 3, 5, 8, 40)),
                "max_report_age": self._seconds((None, None, 3, 6, 50)),
                "electorate": self.pick((None, None, None, 3, 5)),
                "holds": self._durations(words, (0, 1, 2, 3, 5, 5, 10, 20), 4),
                "reminders": self._durations(words, (1, 2, 3, 7)),
                "purge_after": self._durations(words[-1:], (2, 5, 9)),
                "weights": self.pick(WEIGHTS),
                "tasks": self._rule_tasks(words) if self.chance(3) else [],
                "details": ["n"],
            }
        )

    def _rule_tasks(self, words: Sequence[str]) -> list[dict[str, Any]]:
        tasks = [self._rule_task(words) for _ in range(self._integer(1, 3))]
        return [task for at, task in enumerate(tasks) if task not in tasks[:at]]

    def _rule_task(self, words: Sequence[str]) -> dict[str, Any]:
        do, on = self.pick((*ACTIONS[:4], *ACTIONS)), self.pick(words)
        condition = self.pick((None, on, self.pick(words)))
        every = self.pick((None, None, 1, 2, 5))
        begins = "on_report" if self.chance(4) else "on"
        outlives = begins == "on_report" or condition not in (None, on)
        given = {
            begins: on,
            "if": condition,
            "do": do,
            "state": self.pick(words) if do == "set" else None,
            "after": self.pick((1, 2, 5, 10)) * SECOND if every is None or self.chance(2) else None,
            "every": every and every * SECOND,
            "times": self.pick((1, 3, 9)) if every and (outlives or self.chance(2)) else None,
        }
        return {key: value for key, value in given.items() if value is not None}

    def _seconds(self, options: Sequence[int | None]) -> int | None:
        seconds = self.pick(options)
        return None if seconds is None else seconds * SECOND

    def _durations(
        self, words: Sequence[str], seconds: Sequence[int], of: int = 2
    ) -> dict[str, int]:
        """For each state but one in `of`."""
        return {word: self.pick(seconds) * SECOND for word in words if not self.chance(of)}

    def _rule(self, words: Sequence[str]) -> dict[str, Any]:
        if self.chance(3):
            return {"kind": "latest"}
        default = self.pick(("keep", *words))
        # No threshold is milder than the default, but that of the mildest state.
        least = words.index(default) if default in words else len(words)
        on_ladder = [*words[: least + 1], *words[least + 1 :][-1:]]
        thresholds = [{"state": word, **self._need()} for word in on_ladder if not self.chance(5)]
        return {
            "kind": "quorum",
            "ladder": thresholds or [{"state": words[0], "at_least": 1}],
            "default": default,
        }

    def _need(self) -> dict[str, Any]:
        return self.pick(
            (
                {"at_least": 1},
                {"more_than": "1/2"},
                {"at_least": 2},
                {"at_least": "1/2"},
                {"at_least": "2/3"},
                {"more_than": "0/1"},
                {"at_least": 4},
                {"at_least": "1/1"},
            )
        )
