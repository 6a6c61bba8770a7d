"""What would change an asset: reports, silence and time, tried on it through the fold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, NamedTuple

from domain.asset import Asset, next_timer
from domain.fold import Bucket
from domain.names import USER_PREFIX
from domain.records import MAX_AHEAD, Doubt, Report, StateRecord, Task, Tick, Tombstone, Vote
from domain.scenario import UNKNOWN, Action, Latest, Quorum, Scenario
from domain.tally import Voices, lowering, newest
from domain.timer_index import TimerHeap
from domain.votes import is_live

# ---- freeing -------------------------------------------------------------------------------------
# When time lets live votes lower a state that they cannot lower yet.
#
# Silent votes are forgotten, and doubts end. Nothing here reads a clock, a database or Kafka.


@dataclass(frozen=True, slots=True)
class Freed:
    """From `at` (ms) on live votes for `state` can lower it.

    agents: whose last words are forgotten by then; trusted: about whom doubt has ended. Of both
    only those that it takes.
    """

    agents: tuple[str, ...]
    at: int
    state: str
    trusted: tuple[str, ...] = ()


class _End(NamedTuple):
    """An agent's silent vote is forgotten, or the doubt about it ends."""

    at: int
    agent: str
    doubt: bool


def freed(scenario: Scenario, record: StateRecord, current: str | None) -> Freed | None:
    """Return the first time at which the state may be lowered by votes that cannot now, or None.

    current: what the votes have made.
    """
    if scenario.life_cycle or current is None or not scenario.knows(current):
        return None
    without = _Without(scenario, record, current)
    ends = sorted(_ends(scenario, record))
    for count in range(1, len(ends) + 1):
        state = without.freed(ends[:count])
        if state is not None:
            needed = _needed(without, ends[:count], state)
            gone = tuple(end.agent for end in needed if not end.doubt)
            trusted = tuple(end.agent for end in needed if end.doubt)
            return Freed(gone, needed[-1].at, state, trusted)
    return None


def _ends(scenario: Scenario, record: StateRecord) -> list[_End]:
    delay = scenario.forget_delay
    silent = ((vote.silent, vote.agent) for vote in record.votes if vote.counts)
    ends = [_End(since + delay, agent, False) for since, agent in silent
            if since is not None and delay is not None]  # fmt: skip
    return ends + [_End(doubt.until, doubt.agent, True) for doubt in record.doubts if doubt.counts]


def _needed(without: _Without, ends: Sequence[_End], state: str) -> list[_End]:
    """Return the necessary ends, the last one among them."""
    needed = list(ends)
    for end in ends[:-1]:
        fewer = [each for each in needed if each != end]
        if without.freed(fewer) == state:
            needed = fewer
    return needed


class _Without:
    """An asset as its record describes it, and as it is once something of it has ended."""

    def __init__(self, scenario: Scenario, record: StateRecord, current: str) -> None:
        self.scenario, self.record, self.current = scenario, record, current
        self.low, self.voters = self._after(())

    def _after(self, ends: Sequence[_End]) -> tuple[str | None, bool]:
        """Return the state that may follow after these ends, and whether voters are enough."""
        forgotten = {end.agent for end in ends if not end.doubt}
        trusted = {end.agent for end in ends if end.doubt}
        votes = [vote for vote in self.record.votes if vote.agent not in forgotten]
        doubts = {each.agent for each in self.record.doubts} - trusted
        enough = len(Voices.of(self.scenario, votes, doubts).sure) >= self.scenario.min_voters
        return lowering(self.scenario, votes, self.current, doubts), enough

    def freed(self, ends: Sequence[_End]) -> str | None:
        """Return the milder state that may follow after these ends and not without, or None."""
        low, voters = self._after(ends)
        if low is None or self.low is None or not self._is_milder(low, self.current):
            return None
        more = self._is_milder(low, self.low) or (voters and not self.voters)
        return low if more else None

    def _is_milder(self, state: str, than: str) -> bool:
        return self.scenario.severity(state) > self.scenario.severity(than)


# ---- forecast ------------------------------------------------------------------------------------
# What would change an asset: reports, silence and time, tried on it through the domain's own fold.
#
# Nothing here reads a clock, a database or Kafka. A record names only the wait that ends first:
# where it names one, what is tried is tried without further waits and with every one that there may
# be, and only what comes of both is said.

CHANGING = ("set", "release", "purge")
"""What tasks do that changes their asset."""
IDLE = ("vote-expiry", "doubt-end", "vote-forgotten", "reminder")
# Most further votes that are tried for one state.
MOST_MORE = 20
# Most states that are tried.
MOST_STATES = 12
MOST_TIMERS = 50
# So many timers are fired to find what silence changes first.


@dataclass(frozen=True, slots=True)
class Flip:
    """What would lead to `state`; each alternative is enough by itself.

    more: so many further votes of weight 1, and no fewer; changed: agents any one of which is
    enough if it says `state`; again: those that need only say again what they say; together: agents
    that are enough if all of them say `state`; hold: how long it must then last, ms; back: it is
    the state already, and another one waits to follow it.
    """

    state: str
    more: int | None
    changed: tuple[str, ...]
    again: tuple[str, ...]
    together: tuple[str, ...]
    hold: int
    back: bool

    @property
    def effort(self) -> int:
        """Return the least number of agents that bring it about."""
        ways = (self.more, 1 if self.changed or self.again else None, len(self.together) or None)
        return min((way for way in ways if way is not None), default=0)


@dataclass(frozen=True, slots=True)
class Lapse:
    """What silence changes first, if nobody reports: agents whose votes end `at` (ms).

    reason: why it is unconfirmed then, None where it is not; stops: the state that waits no more;
    state: what it is, or waits for, from then on, where a vote's end alone leads to another.
    """

    agents: tuple[str, ...]
    at: int
    reason: str | None
    stops: str | None
    state: str | None


@dataclass(frozen=True, slots=True)
class TaskRun:
    """The first run of a scheduled task that changes what is shown, if nobody reports before.

    do: what it does; user: its owner; at: when, ms; state: what is shown then, None after a purge.
    """

    do: Action
    user: str
    at: int
    state: str | None


# ---- the asset --------------------------------------------------------------------------------


def current_of(scenario: Scenario, record: StateRecord) -> str | None:
    """Return the state that the votes have made, beneath an override; None where they made none."""
    if record.override is not None:
        return record.override.underlying
    return None if is_unreported(scenario, record) else record.state


def is_unreported(scenario: Scenario, record: StateRecord) -> bool:
    """Return whether the record shows only that the asset exists, and no vote has made a state."""
    named = any(spec.name == UNKNOWN for spec in scenario.states)
    return record.state == UNKNOWN and not named and not any(vote.live for vote in record.votes)


def aim_of(scenario: Scenario, state: str | None, waits: Iterable[str]) -> str | None:
    """Return what an asset comes to once its waits are over: of worse states the worst, else the
    mildest of the others, else what it is."""
    rank = scenario.severity
    waited = sorted(waits, key=rank)
    if state is None or not waited:
        return state
    return waited[0] if rank(waited[0]) < rank(state) else waited[-1]


class AssetTrial:
    """An asset as its record describes it, alone in a bucket, at its log's time.

    unsure: agents whose further reports are in doubt as their last one is.
    """

    def __init__(
        self,
        scenario: Scenario,
        record: StateRecord,
        clock: int,
        waits: dict[str, int],
        tasks: tuple[Task, ...],
        unsure: frozenset[str] = frozenset(),
    ) -> None:
        self.name, self.unsure = record.asset, unsure
        asset = Asset(
            state=current_of(scenario, record),
            shown=record.state,
            previous=record.previous,
            since=record.since,
            unconfirmed=record.unconfirmed_reason,
            disputed=record.disputed,
            votes={vote.agent: vote for vote in record.votes},
            waits=waits,
            override=record.override,
            offset=record.version.offset,
            step=record.version.step,
            reminded=max(record.since, clock),
            tasks=tasks,
            doubts={doubt.agent: doubt for doubt in record.doubts},
        )
        asset.settle(scenario, record.since)
        timer = next_timer(asset, scenario)
        self.bucket = Bucket(
            scenario,
            record.cause.partition,
            record.version.epoch,
            {self.name: asset},
            TimerHeap([(self.name, timer.time)] if timer else ()),
            clock=clock,
            offset=max([record.version.offset, *(each.offset for each in said_in(record))]),
            live=1,
        )

    def report(self, agent: str, state: str) -> None:
        """Report `state` from an agent, now."""
        ahead = MAX_AHEAD + 1 if agent in self.unsure else 0
        report = Report(self.name, agent, state, ahead=ahead)
        self.bucket.apply(report, self.bucket.offset + 1, self.bucket.clock)

    def aim(self) -> str | None:
        """Return the state that follows if the votes stay as they are."""
        asset = self.bucket.assets[self.name]
        return aim_of(self.bucket.scenario, asset.state, asset.waits)

    def passing(self) -> Iterator[StateRecord | Tombstone]:
        """Yield the records that time alone brings, in order, to a purge at the latest."""
        while (time := self.bucket.timer_index.earliest()) is not None:  # type: ignore[attr-defined]
            for one in self.bucket.apply(Tick(), self.bucket.offset + 1, time):
                if isinstance(one, StateRecord | Tombstone):
                    yield one
                if not isinstance(one, StateRecord):
                    return


def said_in(record: StateRecord) -> tuple[Vote | Doubt, ...]:
    """Return all that a record knows of agents: their votes, and the doubts about them."""
    return (*record.votes, *record.doubts)


class Trials:
    """What may be tried on the asset of a record, at the newest time in the record."""

    def __init__(self, scenario: Scenario, record: StateRecord) -> None:
        self.scenario, self.record = scenario, record
        self.clock = max([record.cause.time, *(each.time for each in said_in(record))])
        self.doubts = {doubt.agent: doubt for doubt in record.doubts}
        self.unsure = frozenset(vote.agent for vote in record.votes if vote.doubt is not None)
        self.current = current_of(scenario, record)
        waits = [record.pending.state] if record.pending else []
        self.aim = aim_of(scenario, self.current, waits)

    def begin(self, *, in_time: bool = False) -> list[AssetTrial]:
        """Return the asset with the wait its record names and, if more are possible, with all;
        each as if the reports that come are without doubt, and as if they are in doubt as before.

        in_time: with its tasks, and no report comes; else only votes can change it.
        """
        unsure = [frozenset[str]()] if in_time or not self.unsure else [frozenset(), self.unsure]
        return [self._trial(waits, in_time, agents) for waits in self._waits() for agents in unsure]

    def _waits(self) -> list[dict[str, int]]:
        """Return the waits that there may be: the one that the record names, or with all others."""
        pending = self.record.pending
        if pending is None:
            return [{}]
        more = dict.fromkeys(self._may_wait(pending.state), pending.since)
        return [{pending.state: pending.since}, *([more] if len(more) > 1 else [])]

    def _trial(self, waits: dict[str, int], in_time: bool, unsure: frozenset[str]) -> AssetTrial:
        scenario = self.scenario if in_time else replace(self.scenario, tasks=())
        tasks = self.record.tasks if in_time else ()
        return AssetTrial(scenario, self.record, self.clock, dict(waits), tasks, unsure)

    def _may_wait(self, named: str) -> Iterator[str]:
        """Yield the named state, then others that may wait: all on the same side of the state."""
        yield named
        if self.scenario.life_cycle or self.current is None:
            return
        rank, here = self.scenario.severity, self.scenario.severity(self.current)
        for spec in self.scenario.states:
            beside = rank(spec.name) != here and (rank(spec.name) < here) == (rank(named) < here)
            if beside and spec.name != named:
                yield spec.name

    def leads_to(self, trials: list[AssetTrial], state: str) -> bool:
        """Return whether all of them lead to `state`."""
        return all(trial.aim() == state for trial in trials)

    # ---- reports ----

    def flips(self) -> Iterator[Flip]:
        """Yield what would lead to each of the other states, the most severe first."""
        for state in self._candidates():
            if state == self.aim:
                continue
            flip = Flip(
                state=state,
                more=self._more(state),
                changed=self._changed(state),
                again=self._again(state),
                together=(),
                hold=self._hold(state),
                back=state == self.current,
            )
            if flip.effort != 1:
                flip = replace(flip, together=self._together(state))
            if flip.effort:
                yield flip

    def _hold(self, state: str) -> int:
        """Return how long it must last, ms; a first report makes the state at once."""
        return 0 if self.current in (None, state) else self.scenario.hold(state)

    def _candidates(self) -> list[str]:
        """Return the states that are worth trying, the most severe first."""
        named = [spec.name for spec in self.scenario.states]
        if isinstance(self.scenario.rule, Quorum):
            named += [threshold.state for threshold in self.scenario.rule.ladder]
        named += sorted({vote.state for vote in self.record.votes if vote.counts})
        known = [name for name in named if self.scenario.knows(name)]
        return list(islice(dict.fromkeys(known), MOST_STATES))

    def _more(self, state: str) -> int | None:
        """Return the least number of further votes of weight 1 that lead to `state`, or None."""
        trials = self.begin()
        for count in range(1, MOST_MORE + 1):
            for trial in trials:
                # No user of this product has a colon in the name, and no agent begins so.
                trial.report(f"{USER_PREFIX}:{count}", state)
            if self.leads_to(trials, state):
                return count
        return None

    def _changed(self, state: str) -> tuple[str, ...]:
        """Return the agents any one of which leads to `state` by reporting it."""
        if isinstance(self.scenario.rule, Latest):
            return ()  # anybody's next report decides
        others = (v for v in self._counting() if v.state != state or v.silent is not None)
        return tuple(sorted(self._any_of(others, state)))

    def _again(self, state: str) -> tuple[str, ...]:
        """Return the agents any one of which leads to `state` by repeating its report."""
        live = [vote for vote in self._counting() if is_live(self.scenario, vote)]
        if isinstance(self.scenario.rule, Latest) and live:
            live = [newest(live)]  # anybody else's report would be the latest then
        agents: list[str] = []
        for said in dict.fromkeys(vote.state for vote in live):
            agents += self._any_of((vote for vote in live if vote.state == said), state, said)
        return tuple(sorted(agents))

    def _any_of(self, votes: Iterable[Vote], state: str, said: str = "") -> list[str]:
        """Return the votes' agents any one of which leads to `state` by reporting it, or `said`."""
        alike: dict[tuple[Any, ...], list[str]] = {}
        for vote in votes:
            reason = self.doubts[vote.agent].reason if vote.agent in self.doubts else None
            kind = (vote.state, vote.weight, vote.silent is None, vote.doubt, reason)
            alike.setdefault(kind, []).append(vote.agent)
        leading_agents: list[str] = []
        for agents in alike.values():
            trials = self.begin()
            for trial in trials:
                trial.report(agents[0], said or state)
            if self.leads_to(trials, state):
                # To a ladder votes of one kind are alike; another rule may look at more.
                leading_agents += agents if isinstance(self.scenario.rule, Quorum) else agents[:1]
        return leading_agents

    def _together(self, state: str) -> tuple[str, ...]:
        """Return the fewest of the heaviest agents that together lead to `state`, or ()."""
        others = [v for v in self._counting() if v.state != state or v.silent is not None]
        agents = [v.agent for v in sorted(others, key=lambda v: (-v.weight, v.agent))]
        trials = self.begin()
        for count, agent in enumerate(agents[:MOST_MORE], 1):
            for trial in trials:
                trial.report(agent, state)
            if self.leads_to(trials, state):
                return tuple(agents[:count])
        return ()

    def _counting(self) -> list[Vote]:
        return [vote for vote in self.record.votes if vote.counts]

    # ---- tasks ----

    def task_run(self) -> TaskRun | None:
        """Return the first run of a task that changes what is shown, or None."""
        if not any(task.do in CHANGING for task in self.record.tasks):
            return None
        runs = {self._task_run(trial) for trial in self.begin(in_time=True)}
        return runs.pop() if len(runs) == 1 else None

    def _task_run(self, trial: AssetTrial) -> TaskRun | None:
        before = self.record
        for now in islice(trial.passing(), MOST_TIMERS):
            task = next((t for t in before.tasks if t.id == now.cause.command), None)
            if isinstance(now, Tombstone):
                return TaskRun(task.do, task.user, now.cause.time, None) if task else None
            if task and now.cause.type == "schedule" and not _same(before, now):
                return TaskRun(task.do, task.user, now.cause.time, now.state)
            before = now
        return None

    # ---- silence ----

    def lapse(self) -> Lapse | None:
        """Return what the end of votes changes first; None if something else changes it before."""
        before = self.record
        for now in islice(self.begin(in_time=True)[0].passing(), MOST_TIMERS):
            if isinstance(now, Tombstone) or not _is_idle(before, now):
                return None
            if now.cause.type == "vote-expiry" and (lapse := self._lapsed(before, now)):
                return lapse
            before = now
        return None

    def _lapsed(self, before: StateRecord, now: StateRecord) -> Lapse | None:
        was, waits = (one.pending.state if one.pending else None for one in (before, now))
        moved = current_of(self.scenario, before) != current_of(self.scenario, now)
        came = waits if waits != was else None
        state = current_of(self.scenario, now) if moved else came
        reason = now.unconfirmed_reason if not before.unconfirmed else None
        stops = was if waits is None and not moved else None
        if not (state or reason or stops):
            return None
        ended = (v.agent for v in before.votes if v.silent is None and v.expires == now.cause.time)
        return Lapse(tuple(sorted(ended)), now.cause.time, reason, stops, state)


def _is_idle(before: StateRecord, now: StateRecord) -> bool:
    """Return whether what came was silence, a reminder, or a run of a task without effect."""
    return now.cause.type in IDLE or (now.cause.type == "schedule" and _same(before, now))


def _same(before: StateRecord, now: StateRecord) -> bool:
    """Return whether two records show the same, of the same votes."""
    return all(
        getattr(before, name) == getattr(now, name) for name in ("state", "override", "votes")
    )
