"""Why an asset is in its state, and what would change that, in words.

Nothing here reads a clock, a database or Kafka. What is said to change an asset was tried through
the domain's own fold (`forecast.py`); so it does, by the rule as this process has it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from dashboard.board.assets.forecast import Flip, Freed, Lapse, TaskRun, Trials, current_of, freed
from dashboard.core.common.text import isolated
from dashboard.core.common.times import exact_span
from dashboard.core.states.caveats import InDoubt, in_doubt
from domain.names import USER_PREFIX
from domain.records import UNREADABLE, Doubt, Override, StateRecord, Vote
from domain.scenario import KEEP, Latest, PythonRule, Quorum, Scenario, Threshold
from domain.tally import (
    Voices,
    disputed,
    lowering,
    newest,
    raising,
    tally,
    threshold_weight,
    unconfirmed_reason,
)

# Most agents that a sentence names.
MOST_NAMED = 4


@dataclass(frozen=True, slots=True)
class LadderStep:
    """One threshold of a ladder, held against the live votes.

    weight and votes: of those for `state` or worse (`exact`: for it alone); need: the least weight
    that is enough, of `whole`; decides: it is the first that is met; weighted: whether some votes
    weigh other than 1.
    """

    state: str
    terms: str
    weight: int
    votes: int
    need: int
    whole: int
    met: bool
    decides: bool
    exact: bool
    weighted: bool

    @property
    def percent(self) -> int:
        """The votes' share of the whole weight."""
        return min(100, 100 * self.weight // self.whole) if self.whole else 0


@dataclass(frozen=True, slots=True)
class Silence:
    """Agents that fell silent saying `state`.

    since: when the last of them did; until: when the last of these votes is forgotten, ms; bars:
    whether they keep the state from being lowered.
    """

    state: str
    agents: tuple[str, ...]
    since: int
    until: int
    bars: bool


@dataclass(frozen=True, slots=True)
class Dispute:
    """Who says a worse state than the one shown: live agents, silent ones, as last heard, those
    that go to and fro, and those in doubt, whose vote says something else."""

    state: str
    live: tuple[str, ...]
    silent: tuple[str, ...]
    flapping: tuple[str, ...] = ()
    doubted: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Why:
    """A state in words.

    then: what waits behind the wait that is shown; freed: from when on votes can lower it that
    cannot yet; task_run: of a scheduled task, the first that changes it; mismatch: that the record
    is of another rule than this one, empty where it is not; doubted: agents in doubt; muted: the
    votes that count nothing.
    """

    headline: str
    steps: tuple[LadderStep, ...]
    rest: str
    flips: tuple[Flip, ...]
    silences: tuple[Silence, ...]
    dispute: Dispute | None
    then: str | None
    lapse: Lapse | None
    freed: Freed | None
    task_run: TaskRun | None
    mismatch: str
    doubted: tuple[InDoubt, ...] = ()
    muted: tuple[Vote, ...] = ()


def explain(scenario: Scenario, record: StateRecord) -> Why:
    """Return why the record's asset is in its state, by the rule of `scenario`."""
    trials = Trials(scenario, record)
    flips = tuple(trials.flips())
    words = _Words(scenario, record)
    return Why(
        headline=f"{words.reason()}{_tail(scenario, record, flips)}.",
        steps=words.steps,
        rest=words.rest(),
        flips=flips,
        silences=tuple(words.silences()),
        dispute=words.dispute(),
        then=words.then(),
        lapse=trials.lapse(),
        freed=freed(scenario, record, trials.current),
        task_run=trials.task_run(),
        mismatch=words.mismatch(),
        doubted=words.doubted,
        muted=tuple(vote for vote in record.votes if vote.muted is not None),
    )


def dissenters(record: StateRecord) -> frozenset[str]:
    """Return the agents whose vote is for another state than the one shown."""
    return frozenset(vote.agent for vote in record.votes if vote.state != record.state)


# ---- the ladder ---------------------------------------------------------------------------


def steps_of(scenario: Scenario, votes: Sequence[Vote]) -> Iterator[LadderStep]:
    """Yield the thresholds of a ladder compared with these live votes; nothing for another rule."""
    if not isinstance(scenario.rule, Quorum):
        return
    weights: Counter[str] = Counter()
    for vote in votes:
        weights[vote.state] += vote.weight
    whole = weights.total() if scenario.electorate is None else scenario.electorate
    decided = scenario.life_cycle and len(votes) < scenario.min_voters  # so few are not tallied
    for threshold in scenario.rule.ladder:
        weight = threshold_weight(scenario, weights, threshold.state)
        met = bool(votes) and threshold.met(weight, whole)
        yield LadderStep(
            state=threshold.state,
            terms=_terms(threshold, scenario.electorate),
            weight=weight,
            votes=len(_for(scenario, votes, threshold.state)),
            need=need(threshold, whole),
            whole=whole,
            met=met,
            decides=met and not decided,
            exact=_is_exact(scenario, threshold.state),
            weighted=any(vote.weight != 1 for vote in votes),
        )
        decided = decided or met


def _is_exact(scenario: Scenario, state: str) -> bool:
    """Return whether a threshold counts only votes for its state, not those for a worse one."""
    return scenario.life_cycle or state == scenario.mildest or scenario.severity(state) <= 0


def _for(scenario: Scenario, votes: Iterable[Vote], state: str) -> list[Vote]:
    """Return the votes that a threshold for `state` counts."""
    if _is_exact(scenario, state):
        return [vote for vote in votes if vote.state == state]
    rank = scenario.severity
    return [vote for vote in votes if rank(vote.state) <= rank(state)]


def need(threshold: Threshold, whole: int) -> int:
    """Return the least weight that meets it, where all votes (or the electorate) weigh `whole`."""
    if threshold.q == 0:
        return threshold.p
    if threshold.strict:
        return threshold.p * whole // threshold.q + 1
    return max(1, -(-threshold.p * whole // threshold.q))


def _terms(threshold: Threshold, electorate: int | None) -> str:
    how = "more than" if threshold.strict else "at least"
    if threshold.q == 0:
        return f"at least {threshold.p}"
    of = "the live votes" if electorate is None else f"an electorate of {electorate}"
    return f"{how} {threshold.p}/{threshold.q} of {of}"


def rest_text(scenario: Scenario) -> str:
    """Return what holds where no threshold is met; for other rules how they decide."""
    rule = scenario.rule
    if isinstance(rule, Latest):
        return "The latest report decides."
    if isinstance(rule, PythonRule):
        return f"The function {rule.function} decides, in Python."
    if rule.default == KEEP:
        return "Read from the top; where none is met it stays as it is."
    return f"Read from the top; where none is met it is {_label(scenario, rule.default)}."


# ---- in words -----------------------------------------------------------------------------


class _Words:
    """The sentences about one record: its live votes, their tally, and what may lower it."""

    def __init__(self, scenario: Scenario, record: StateRecord) -> None:
        self.scenario, self.record = scenario, record
        self.current = current_of(scenario, record)
        self.doubts = {doubt.agent: doubt for doubt in record.doubts}
        self.doubted = tuple(in_doubt(scenario, record.votes, record.doubts))
        self.live, self.sure, _ = Voices.of(scenario, record.votes, self.doubts)
        self.silent = [v for v in record.votes if v.counts and v.silent is not None]
        self.raised = raising(scenario, record.votes, self.current, self.doubts)
        self.deciding = self._deciding()
        self.steps = tuple(steps_of(scenario, self.deciding))
        self.low = self._lowered(record.votes, self.doubts)

    def _deciding(self) -> list[Vote]:
        """Return the votes that make what raises: the live ones without doubt, where they make
        worse than all live ones do."""
        if not self.live or tally(self.scenario, self.live, self.current) == self.raised:
            return self.live
        return self.sure

    def _lowered(self, votes: Sequence[Vote], doubts: Mapping[str, Doubt]) -> str | None:
        """Return what may lower the state; None where nothing does."""
        ordered = self.current is not None and self.scenario.knows(self.current)
        if self.scenario.life_cycle or not ordered or self.current is None:
            return None
        return lowering(self.scenario, votes, self.current, doubts)

    def _rank(self, state: str | None) -> int:
        return self.scenario.severity(state or "")

    # ---- the first sentence ----

    def reason(self) -> str:
        """Return the state, and what it rests on, in words."""
        label, pending = self._label(self.record.state), self.record.pending
        if self.record.override is not None:
            user = isolated(self.record.override.user)
            return f"{label}: pinned by {user}; {self._beneath(self.record.override)}"
        if self.current is None:
            nothing = "no report of it counts" if self.doubts else "no report yet"
            return f"{label}: {nothing}; its first report makes its state"
        if not self.live:
            return f"{label}: {self._voteless()}"
        if pending is not None:
            return f"{label}, and {self._label(pending.state)} waits {self._backing(pending.state)}"
        if self._is_settled():
            return f"{label}: {self._grounds()}"
        made = self._label(self.raised or "")
        votes = f"the live votes{self._without(self.deciding)}"
        return f"{label}: {votes} give {made}, but {self._bars()}"

    def _beneath(self, override: Override) -> str:
        if override.underlying is None:
            return "under it no vote has counted yet"
        return f"under it the votes give {self._label(override.underlying)}"

    def _voteless(self) -> str:
        """Return why the state stays though no live vote counts."""
        some = any(vote.silent is None for vote in self.record.votes)
        none = "no vote that is live counts" if some else "no vote is live"
        barring = [
            one for one in self.silences() if self._rank(one.state) <= self._rank(self.current)
        ]
        words = "".join(f"; {_fell(one, self.scenario)}" for one in barring[:1])
        return f"{none}, so it keeps its last state{words}"

    def _is_settled(self) -> bool:
        """Return whether the live votes make the state, or too few are tallied at all."""
        few = self.scenario.life_cycle and len(self.live) < self.scenario.min_voters
        return few or self.raised == self.current

    def _backing(self, waits: str) -> str:
        """Return how many live votes stand behind what waits: for a milder state, of those without
        doubt."""
        rank, votes = self._rank, self.deciding
        if self.scenario.life_cycle:
            said = [vote for vote in votes if vote.state == waits]
        elif rank(waits) < rank(self.current):
            said = [vote for vote in votes if rank(vote.state) <= rank(waits)]
        else:
            votes = self.sure
            said = [vote for vote in votes if rank(vote.state) >= rank(waits)]
        return f"with {_share(said, votes)}{self._without(votes)}"

    def _without(self, votes: Sequence[Vote]) -> str:
        """Return that these votes are those without doubt, where there are others."""
        return " without doubt" if len(votes) < len(self.live) else ""

    def _grounds(self) -> str:
        if self.scenario.life_cycle and len(self.live) < self.scenario.min_voters:
            have = f"{len(self.live)} of the {self.scenario.min_voters} votes that it takes"
            return f"{have} {_are(len(self.live))} live, so it keeps its last state"
        without = self._without(self.deciding)
        if isinstance(self.scenario.rule, Latest):
            last, count = newest(self.deciding), len(self.deciding)
            among = "the only live vote" if count == 1 else f"of {count} votes"
            return f"{_name(last.agent)} said so last, {among}{without}"
        if isinstance(self.scenario.rule, PythonRule):
            made_of = f"{_count(len(self.deciding), 'live vote')}{without}"
            return f"that is what the function {self.scenario.rule.function} makes of {made_of}"
        decides = next((step for step in self.steps if step.decides), None)
        if decides is None:
            default = self.scenario.rule.default
            return "no threshold is met, so it stays" if default == KEEP else "no threshold is met"
        said = _for(self.scenario, self.deciding, decides.state)
        worse = any(vote.state != decides.state for vote in said)
        share = _share(said, self.deciding, self.scenario.electorate) + without
        return f"{share}, for it or worse" if worse else share

    def _bars(self) -> str:
        """Return why the state is not what the live votes make."""
        if self._rank(self.raised) < self._rank(self.current):
            few = self._too_few(self.scenario.raise_voters, "raise", self.live)
            return few or self._no_evidence()
        reasons = [self._too_few(self.scenario.min_voters, "lower", self.sure)]
        reasons += [_fell(one, self.scenario) for one in self.silences() if one.bars]
        reasons.append(self._doubted_bars())
        if not any(reasons):
            reasons.append(self._no_witness() or self._no_evidence())
        return ", and ".join(filter(None, reasons))

    def _too_few(self, voters: int, verb: str, votes: Sequence[Vote]) -> str:
        if len(votes) >= voters:
            return ""
        needed = f"{_count(voters, 'voter')} {_are(voters)} needed to {verb} it"
        return f"{needed}, {len(votes)} {_are(len(votes))} live{self._without(votes)}"

    def _doubted_bars(self) -> str:
        """Return that doubt keeps the state from being lowered; empty where it does not."""
        trusted = [replace(vote, doubt=None) for vote in self.record.votes]
        free = self._lowered(trusted, {})
        if self.low is None or self._rank(free) <= self._rank(self.low):
            return ""
        sure = {vote.agent for vote in self.sure}
        agents = [vote.agent for vote in self.live if vote.agent not in sure]
        return f"{names(agents, 'and')} {_are(len(agents))} in doubt"

    def _no_witness(self) -> str:
        """Return why no milder state may follow, or ''.

        The live votes make a milder state, but nobody says it, or a newer report says worse.
        """
        rank = self._rank
        if self.low is not None and rank(self.low) > rank(self.current):
            return ""
        if all(rank(vote.state) < rank(self.raised) for vote in self.sure):
            without = self._without(self.sure)
            return f"no live vote{without} says {self._label(self.raised or '')}"
        if isinstance(self.scenario.rule, Latest):
            last = max(self.sure, key=lambda vote: (vote.order, vote.offset))
            if rank(last.state) < rank(self.raised):
                return f"{_name(last.agent)} said {self._label(last.state)} later, by its own time"
        others = "silent ones" if len(self.sure) == len(self.live) else "silent and doubted ones"
        return f"together with the {others} they do not"

    def _no_evidence(self) -> str:
        return "silence alone changes no state: the next report that says so counts"

    # ---- beside it ----

    def silences(self) -> list[Silence]:
        """Return the silent agents by state, the worst first."""
        delay = self.scenario.forget_delay or 0
        free = self._lowered(self.live, self.doubts)
        barred = self.low is not None and self._rank(free) > self._rank(self.low)
        silences = []
        for state in sorted({v.state for v in self.silent}, key=lambda s: (self._rank(s), s)):
            said = [vote for vote in self.silent if vote.state == state]
            since = max(vote.silent or 0 for vote in said)
            bars = barred and self._rank(state) < self._rank(free)
            agents = tuple(vote.agent for vote in said)
            silences.append(Silence(state, agents, since, since + delay, bars))
        return silences

    def dispute(self) -> Dispute | None:
        """Return who disputes the state that is shown."""
        state = self.record.disputed
        if state is None:
            return None
        live = tuple(vote.agent for vote in self.live if vote.state == state)
        silent = tuple(vote.agent for vote in self.silent if vote.state == state)
        voting = {*live, *silent}
        flapping = tuple(
            vote.agent
            for vote in (*self.live, *self.silent)
            if vote.flapping is not None
            and vote.flapping.state == state
            and vote.agent not in voting
        )
        doubted = tuple(
            doubt.agent
            for doubt in self.record.doubts
            if doubt.counts
            and (doubt.said or UNREADABLE) == state
            and doubt.agent not in {*voting, *flapping}
        )
        return Dispute(state, live, silent, flapping, doubted)

    def rest(self) -> str:
        """Return what holds where no threshold is met, and whether votes in doubt are left out."""
        text = rest_text(self.scenario)
        if len(self.deciding) == len(self.live):
            return text
        return f"{text} Votes in doubt are left out: those without make worse."

    def then(self) -> str | None:
        """Return the state that may follow the pending one if live votes go on, or None."""
        pending = self.record.pending
        if pending is None or self.scenario.life_cycle:
            return None
        rank = self._rank
        if rank(pending.state) < rank(self.current):
            worse = self.raised is not None and rank(self.raised) < rank(pending.state)
            return self.raised if worse else None
        milder = self.low is not None and rank(self.low) > rank(pending.state)
        return self.low if milder else None

    def mismatch(self) -> str:
        """Return a warning if the record does not follow from this process's rule; else empty."""
        if self._follows():
            return ""
        return (
            "Under the rule that the job last reported, these votes give another state: "
            "it has a newer rule by now, or this one is not in force yet."
        )

    def _follows(self) -> bool:
        pending = self.record.pending
        if self.scenario.life_cycle:
            return self._follows_in_life()
        falling = pending is not None and self._rank(pending.state) > self._rank(self.current)
        votes, doubts = self.record.votes, self.record.doubts
        why = unconfirmed_reason(
            self.scenario, votes, self.current, falling=falling, doubts=self.doubts
        )
        if why != self.record.unconfirmed_reason:
            return False
        if disputed(self.scenario, votes, self.record.state, doubts) != self.record.disputed:
            return False
        if pending is None or not falling or isinstance(self.scenario.rule, PythonRule):
            return True
        if not self.scenario.knows(self.current or ""):
            return True  # any state that the rule knows is milder than one of a rule before
        return self.low is not None and self._rank(self.low) >= self._rank(pending.state)

    def _follows_in_life(self) -> bool:
        """Return whether enough live votes of a life cycle make its state, or what waits.

        Where too few are live, or the rule is in Python, it is taken to follow.
        """
        if isinstance(self.scenario.rule, PythonRule) or len(self.live) < self.scenario.min_voters:
            return True
        pending = self.record.pending
        return self.raised == (pending.state if pending else self.current)

    def _label(self, state: str) -> str:
        return _label(self.scenario, state)


def _fell(one: Silence, scenario: Scenario) -> str:
    return f"{names(one.agents, 'and')} fell silent saying {_label(scenario, one.state)}"


def _share(said: Sequence[Vote], votes: Sequence[Vote], electorate: int | None = None) -> str:
    """Return how many of the votes these are; by weight where one weighs other than 1."""
    weight = sum(vote.weight for vote in said)
    if electorate is not None:
        count = _count(len(said), "live vote")
        return f"{count} of weight {weight}, of an electorate of {electorate}"
    counted = f"{len(said)} of {_count(len(votes), 'live vote')}"
    if all(vote.weight == 1 for vote in votes):
        return counted
    return f"{counted}, weight {weight} of {sum(vote.weight for vote in votes)}"


def _tail(scenario: Scenario, record: StateRecord, flips: Sequence[Flip]) -> str:
    """Return the smallest change that would flip it, in words; empty if none is known."""
    if current_of(scenario, record) is None and record.override is None:
        return ""
    easiest = min(flips, key=lambda flip: (flip.effort, not flip.again), default=None)
    if easiest is None:
        return ""
    pinned = record.override is not None
    if isinstance(scenario.rule, Latest) and scenario.life_cycle and _is_next_report(easiest):
        return f"; the next report decides{' under the pin' if pinned else ''}"
    label, verb = _label(scenario, easiest.state), _verb(easiest, pinned)
    plural = "" if easiest.effort > 1 and easiest.more == easiest.effort else "s"
    return f"; {_least(easiest, label)} {verb[0]}{plural} {verb[1]}"


def _is_next_report(flip: Flip) -> bool:
    """Return whether one report, of anybody, makes another state at once."""
    return flip.more == 1 and not (flip.back or flip.hold or flip.again)


def _verb(flip: Flip, pinned: bool) -> tuple[str, str]:
    if flip.back:
        return ("stop", "that")
    if flip.hold:
        return ("start", f"its hold of {exact_span(flip.hold)}")
    return ("flip", "it under the pin" if pinned else "it")


def _least(flip: Flip, label: str) -> str:
    if flip.again:
        return f"{names(flip.again, 'or')} saying the same again"
    if flip.more == flip.effort:
        return f"{'one' if flip.more == 1 else flip.more} more {label} vote{_s(flip.more)}"
    if flip.changed:
        return f"{names(flip.changed, 'or')} saying {label}"
    return f"{names(flip.together, 'and')} {_all(flip.together)} saying {label}"


def flip_text(flip: Flip) -> str:
    """Return the conditions of a flip, in words that follow the state's name.

    For example: `with one more vote; it must then last 20 s`.
    """
    ways = []
    if flip.again:
        ways.append(f"when {names(flip.again, 'or')} says the same again")
    if flip.more is not None:
        ways.append(f"with {'one' if flip.more == 1 else flip.more} more vote{_s(flip.more)}")
    if flip.changed:
        ways.append(f"when {names(flip.changed, 'or')} says so")
    elif flip.together:
        ways.append(f"when {names(flip.together, 'and')} {_all(flip.together)} say so")
    then = f"; it must then last {exact_span(flip.hold)}" if flip.hold else ""
    return f"{', or '.join(ways)}{', which stops what waits' if flip.back else then}"


def freed_text(freed: Freed) -> str:
    """Return what time ends so that votes can lower the state."""
    forgotten, trusted = names(freed.agents, "and"), names(freed.trusted, "and")
    ends = [f"the last word of {forgotten} is forgotten"] if forgotten else []
    ends += [f"the doubt about {trusted} ends"] if trusted else []
    return " and ".join(ends)


def names(agents: Sequence[str], last: str) -> str:
    """Return agents in words, at most MOST_NAMED by name: `waf-1, waf-2 or waf-3`."""
    shown = [_name(agent) for agent in agents[:MOST_NAMED]]
    if len(agents) > MOST_NAMED:
        shown.append(f"{len(agents) - MOST_NAMED} more")
    return f" {last} ".join(filter(None, (", ".join(shown[:-1]), *shown[-1:])))


def _name(agent: str) -> str:
    return isolated(agent.removeprefix(USER_PREFIX))


def _label(scenario: Scenario, state: str) -> str:
    return isolated(scenario.spec(state).label)


def _count(n: int | None, noun: str) -> str:
    return f"{n} {noun}{_s(n)}"


def _s(n: int | None) -> str:
    return "" if n == 1 else "s"


def _all(agents: Sequence[str]) -> str:
    return "both" if len(agents) == 2 else "all"


def _are(n: int) -> str:
    return "is" if n == 1 else "are"
