"""Why an asset is in its state, and what would change that: tried through the domain's own tally.

Nothing here reads a clock, a database or Kafka. What is said to change the votes' outcome was
tried; so it does, by the rule as this process has it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from dashboard.bidi import isolated
from domain.names import USER_PREFIX
from domain.records import MAX_VOTERS, Override, StateRecord, Vote
from domain.scenario import KEEP, Latest, PythonRule, Quorum, Rung, Scenario
from domain.tally import newest, tally

MOST_MORE = 20
"""Most further votes that are tried for one state."""
MOST_STATES = 12
"""Most states that are tried."""
MOST_NAMED = 4
"""Most agents that a sentence names."""


@dataclass(frozen=True, slots=True)
class Step:
    """One rung of a ladder, held against the live votes.

    weight and votes: of those for `state`; need: the least weight that is enough, of `whole`;
    decides: it is the first that is met.
    """

    state: str
    terms: str
    weight: int
    votes: int
    need: int
    whole: int
    met: bool
    decides: bool

    @property
    def percent(self) -> int:
        """The votes' share of the whole weight."""
        return min(100, 100 * self.weight // self.whole) if self.whole else 0


@dataclass(frozen=True, slots=True)
class Flip:
    """What would make the votes' outcome `state`; each alternative is enough by itself.

    more: so many further votes of weight 1, and no fewer; changed: agents any one of which is
    enough if it says `state`; together: agents that are enough if all of them do; hold: how long it
    must then last, ms; back: it is the state already, and another one waits to follow it.
    """

    state: str
    more: int | None
    changed: tuple[str, ...]
    together: tuple[str, ...]
    hold: int
    back: bool

    @property
    def effort(self) -> int:
        """How many agents it takes at least."""
        ways = (self.more, 1 if self.changed else None, len(self.together) or None)
        return min(way for way in ways if way is not None)


@dataclass(frozen=True, slots=True)
class Lapse:
    """The first vote whose expiry changes something, if nobody reports again.

    at: ms; state: what the votes left then make, None: too few to count.
    """

    agent: str
    at: int
    state: str | None


@dataclass(frozen=True, slots=True)
class Why:
    """A state in words. confirm: how many further agents it takes before votes count; muted: the
    votes that count nothing."""

    headline: str
    steps: tuple[Step, ...]
    rest: str
    flips: tuple[Flip, ...]
    confirm: int
    lapse: Lapse | None
    doubt: str
    muted: tuple[Vote, ...] = ()


def explain(scenario: Scenario, record: StateRecord) -> Why:
    """Why the record's asset is in its state, by the rule of `scenario`."""
    muted = tuple(vote for vote in record.votes if vote.muted is not None)
    if not muted:
        return _explain(scenario, record)
    heard = replace(record, votes=tuple(vote for vote in record.votes if vote.muted is None))
    why = _explain(scenario, heard, room=MAX_VOTERS - len(record.votes))
    ends = [vote.muted.until for vote in muted if vote.muted and vote.muted.until is not None]
    if why.lapse is not None and ends and min(ends) <= why.lapse.at:
        why = replace(why, lapse=None)  # other votes count by then
    # Beneath the marks of muted votes: some may be live, but none counts.
    headline = why.headline.replace("no vote is live", "no vote that is live counts")
    return replace(why, headline=headline, muted=muted)


def _explain(scenario: Scenario, record: StateRecord, room: int | None = None) -> Why:
    """By votes that all count. room: how many further agents may vote."""
    target = _target(scenario, record)
    room = MAX_VOTERS - len(record.votes) if room is None else room
    flips = tuple(_flips(scenario, record, target, room))
    steps = tuple(_steps(scenario, record.votes))
    confirm = max(0, scenario.min_voters - len(record.votes))
    return Why(
        headline=f"{_reason(scenario, record, steps)}{_tail(scenario, record, flips, confirm)}.",
        steps=steps,
        rest=rest_text(scenario),
        flips=flips,
        confirm=confirm,
        lapse=_lapse(scenario, record, target),
        doubt=_doubt(scenario, record, target),
    )


def dissenters(record: StateRecord) -> frozenset[str]:
    """The agents whose live vote is for another state than the one shown."""
    return frozenset(vote.agent for vote in record.votes if vote.state != record.state)


# ---- what the votes make ------------------------------------------------------------------


def current_of(record: StateRecord) -> str | None:
    """The state that the votes have made so far: beneath an override, where there is one."""
    return record.override.underlying if record.override else record.state


def outcome(scenario: Scenario, votes: Sequence[Vote], current: str | None) -> str | None:
    """What the rule makes of `votes`; None where they are too few to be tallied."""
    if not votes or (current is not None and len(votes) < scenario.min_voters):
        return None
    return tally(scenario, votes, current)


def _target(scenario: Scenario, record: StateRecord) -> str | None:
    """What the live votes make; the state so far where they are too few."""
    current = current_of(record)
    found = outcome(scenario, record.votes, current)
    return current if found is None else found


def _doubt(scenario: Scenario, record: StateRecord, target: str | None) -> str:
    """Said where the record does not follow from this process's rule; else empty."""
    waits = record.pending.state if record.pending else current_of(record)
    if target == waits or isinstance(scenario.rule, PythonRule):
        return ""
    made = scenario.spec(target or "").label
    return (
        f"By the rule that the job has told of these votes make {made}: "
        "it has another rule by now, or has yet to take this one up."
    )


# ---- the ladder ---------------------------------------------------------------------------


def _steps(scenario: Scenario, votes: Sequence[Vote]) -> Iterator[Step]:
    if not isinstance(scenario.rule, Quorum):
        return
    whole = scenario.electorate
    whole = sum(vote.weight for vote in votes) if whole is None else whole
    decided = len(votes) < scenario.min_voters  # so few are not tallied
    for rung in scenario.rule.ladder:
        said = [vote.weight for vote in votes if vote.state == rung.state]
        met = bool(votes) and rung.met(sum(said), whole)
        yield Step(
            state=rung.state,
            terms=_terms(rung, scenario.electorate),
            weight=sum(said),
            votes=len(said),
            need=need(rung, whole),
            whole=whole,
            met=met,
            decides=met and not decided,
        )
        decided = decided or met


def need(rung: Rung, whole: int) -> int:
    """The least weight that meets the rung, where all votes (or the electorate) weigh `whole`."""
    if rung.q == 0:
        return rung.p
    if rung.strict:
        return rung.p * whole // rung.q + 1
    return max(1, -(-rung.p * whole // rung.q))


def _terms(rung: Rung, electorate: int | None) -> str:
    how = "more than" if rung.strict else "at least"
    if rung.q == 0:
        return f"at least {rung.p}"
    of = "the live votes" if electorate is None else f"an electorate of {electorate}"
    return f"{how} {rung.p}/{rung.q} of {of}"


def rest_text(scenario: Scenario) -> str:
    """What holds where no rung is met; for other rules how they decide."""
    rule = scenario.rule
    if isinstance(rule, Latest):
        return "The latest report decides."
    if isinstance(rule, PythonRule):
        return f"The function {rule.function} decides, in Python."
    if rule.default == KEEP:
        return "Read from the top; where none is met it stays as it is."
    return f"Read from the top; where none is met it is {_label(scenario, rule.default)}."


# ---- in words -----------------------------------------------------------------------------


def _reason(scenario: Scenario, record: StateRecord, steps: Sequence[Step]) -> str:
    label = _label(scenario, record.state)
    if record.override is not None:
        user = isolated(record.override.user)
        return f"{label}: pinned by {user}; {_beneath(scenario, record.override)}"
    if record.unconfirmed:
        return f"{label}: {_too_few(scenario, record)}"
    if record.pending is not None:
        waits = _label(scenario, record.pending.state)
        return f"{label}, and {waits} waits with {_share(record.votes, record.pending.state)}"
    return f"{label}: {_grounds(scenario, record, steps)}"


def _beneath(scenario: Scenario, override: Override) -> str:
    if override.underlying is None:
        return "beneath it no vote has counted yet"
    return f"beneath it the votes make {_label(scenario, override.underlying)}"


def _too_few(scenario: Scenario, record: StateRecord) -> str:
    if not record.votes:
        return "no vote is live, so it keeps its last state"
    have = f"{len(record.votes)} of the {scenario.min_voters} votes that it takes"
    return f"{have} {_are(len(record.votes))} live, so it keeps its last state"


def _grounds(scenario: Scenario, record: StateRecord, steps: Sequence[Step]) -> str:
    if not record.votes:
        return "no vote is live"
    if isinstance(scenario.rule, Latest):
        last = newest(record.votes)
        among = "the only live vote" if len(record.votes) == 1 else f"of {len(record.votes)} votes"
        return f"{_name(last.agent)} said so last, {among}"
    if isinstance(scenario.rule, PythonRule):
        count = _count(len(record.votes), "live vote")
        return f"that is what the function {scenario.rule.function} makes of {count}"
    decides = next((step for step in steps if step.decides), None)
    if decides is None:
        default = scenario.rule.default
        return "no rung is met, so it stays" if default == KEEP else "no rung is met"
    return _share(record.votes, decides.state, scenario.electorate)


def _share(votes: Sequence[Vote], state: str, electorate: int | None = None) -> str:
    """How many of the votes are for the state; by weight where one weighs other than 1."""
    said = [vote for vote in votes if vote.state == state]
    if electorate is not None:
        weight = sum(vote.weight for vote in said)
        return (
            f"{_count(len(said), 'live vote')} of weight {weight}, of an electorate of {electorate}"
        )
    counted = f"{len(said)} of {_count(len(votes), 'live vote')}"
    if all(vote.weight == 1 for vote in votes):
        return counted
    weights = sum(vote.weight for vote in said), sum(vote.weight for vote in votes)
    return f"{counted}, weight {weights[0]} of {weights[1]}"


def _tail(scenario: Scenario, record: StateRecord, flips: Sequence[Flip], confirm: int) -> str:
    """The least that would change it."""
    if record.unconfirmed and confirm:
        return f"; {_count(confirm, 'more agent')} must report before votes count"
    easiest = min(flips, key=lambda flip: flip.effort, default=None)
    if easiest is None:
        return ""
    label, verb = _label(scenario, easiest.state), _verb(easiest, record.override is not None)
    plural = "" if easiest.effort > 1 and easiest.more == easiest.effort else "s"
    return f"; {_least(easiest, label)} {verb[0]}{plural} {verb[1]}"


def _verb(flip: Flip, pinned: bool) -> tuple[str, str]:
    if flip.back:
        return ("stop", "that")
    if flip.hold:
        return ("start", f"its hold of {span(flip.hold)}")
    return ("flip", "it beneath the pin" if pinned else "it")


def _least(flip: Flip, label: str) -> str:
    if flip.more == flip.effort:
        return f"{'one' if flip.more == 1 else flip.more} more {label} vote{_s(flip.more)}"
    if flip.changed:
        return f"{names(flip.changed, 'or')} saying {label}"
    return f"{names(flip.together, 'and')} {_all(flip.together)} saying {label}"


def flip_text(flip: Flip) -> str:
    """What it takes, after the state's name: `with one more vote; it must then last 20 s`."""
    ways = []
    if flip.more is not None:
        ways.append(f"with {'one' if flip.more == 1 else flip.more} more vote{_s(flip.more)}")
    if flip.changed:
        ways.append(f"when {names(flip.changed, 'or')} says so")
    elif flip.together:
        ways.append(f"when {names(flip.together, 'and')} {_all(flip.together)} say so")
    then = f"; it must then last {span(flip.hold)}" if flip.hold else ""
    return f"{', or '.join(ways)}{', which stops what waits' if flip.back else then}"


def names(agents: Sequence[str], last: str) -> str:
    """Agents in words, at most MOST_NAMED of them: `waf-1, waf-2 or waf-3`."""
    shown = [_name(agent) for agent in agents[:MOST_NAMED]]
    if len(agents) > MOST_NAMED:
        shown.append(f"{len(agents) - MOST_NAMED} more")
    return f" {last} ".join(filter(None, (", ".join(shown[:-1]), shown[-1])))


def span(ms: int) -> str:
    """A duration of a rule: `20 s`, `5 m`, `1 h 30 m`."""
    seconds = ms // 1000
    parts = ((seconds // 3600, "h"), (seconds // 60 % 60, "m"), (seconds % 60, "s"))
    found = [f"{n} {unit}" for n, unit in parts if n]
    return " ".join(found) if found else f"{ms} ms"


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


# ---- what would change it -----------------------------------------------------------------


def _flips(
    scenario: Scenario, record: StateRecord, target: str | None, room: int
) -> Iterator[Flip]:
    current = current_of(record)
    for state in _candidates(scenario, record.votes):
        if state == target:
            continue
        flip = Flip(
            state=state,
            more=_more(scenario, record.votes, current, state, room),
            changed=_changed(scenario, record.votes, current, state),
            together=(),
            hold=0 if state == current else scenario.hold(state),
            back=state == current,
        )
        if not flip.changed and flip.more != 1:
            flip = replace(flip, together=_together(scenario, record.votes, current, state))
        if flip.more is not None or flip.changed or flip.together:
            yield flip


def _candidates(scenario: Scenario, votes: Iterable[Vote]) -> list[str]:
    """The states that are worth trying, the most severe first."""
    named = [spec.name for spec in scenario.states]
    if isinstance(scenario.rule, Quorum):
        named += [rung.state for rung in scenario.rule.ladder]
    named += sorted({vote.state for vote in votes})
    return list(islice(dict.fromkeys(named), MOST_STATES))


def _more(
    scenario: Scenario, votes: Sequence[Vote], current: str | None, state: str, room: int
) -> int | None:
    """The least number of further votes of weight 1 for `state` that make it the outcome."""
    trial = list(votes)
    for count in range(1, min(MOST_MORE, room) + 1):
        # No user of this product has a colon in the name, and no agent begins so.
        trial.append(_new(f"{USER_PREFIX}:{count}", state, 1, trial))
        found = outcome(scenario, trial, current)
        if found == state:
            return count
        current = _settled(scenario, found, current)
    return None


def _settled(scenario: Scenario, found: str | None, current: str | None) -> str | None:
    """The state after an outcome: it follows at once where there is no state or no hold."""
    at_once = found is not None and (current is None or not scenario.hold(found))
    return found if at_once else current


def _changed(
    scenario: Scenario, votes: Sequence[Vote], current: str | None, state: str
) -> tuple[str, ...]:
    """The agents any one of which makes `state` the outcome by saying so."""
    if isinstance(scenario.rule, Latest):
        return ()  # anybody's next report decides
    alike: dict[tuple[str, int], list[str]] = {}
    for vote in votes:
        if vote.state != state:
            alike.setdefault((vote.state, vote.weight), []).append(vote.agent)
    found: list[str] = []
    for agents in alike.values():
        if outcome(scenario, _saying(votes, agents[:1], state), current) == state:
            # To a ladder votes of one state and weight are alike; a function may look at more.
            found += agents if isinstance(scenario.rule, Quorum) else agents[:1]
    return tuple(sorted(found))


def _together(
    scenario: Scenario, votes: Sequence[Vote], current: str | None, state: str
) -> tuple[str, ...]:
    """The heaviest agents that make `state` the outcome if all of them say so, as few as tried."""
    others = sorted((v for v in votes if v.state != state), key=lambda v: (-v.weight, v.agent))
    agents = [vote.agent for vote in others]
    for count in range(1, min(MOST_MORE, len(agents)) + 1):
        found = outcome(scenario, _saying(votes, agents[:count], state), current)
        if found == state:
            return tuple(agents[:count])
        current = _settled(scenario, found, current)
    return ()


def _saying(votes: Sequence[Vote], agents: Sequence[str], state: str) -> list[Vote]:
    """The votes once these agents have reported `state`, one after the other."""
    trial = [vote for vote in votes if vote.agent not in agents]
    weights = {vote.agent: vote.weight for vote in votes}
    for at, agent in enumerate(agents):
        trial.append(_new(agent, state, weights[agent], [*votes, *trial], at))
    return trial


def _new(agent: str, state: str, weight: int, before: Sequence[Vote], at: int = 0) -> Vote:
    """A vote that comes after all of `before`."""
    offset = max((vote.offset for vote in before), default=-1) + 1 + at
    time = max((vote.time for vote in before), default=0)
    return Vote(agent, state, time, time, offset, None, weight)


def _lapse(scenario: Scenario, record: StateRecord, target: str | None) -> Lapse | None:
    """What the votes' expiry changes first."""
    left = list(record.votes)
    counted = outcome(scenario, left, current_of(record))
    for vote in sorted(left, key=lambda vote: (vote.expires or 0, vote.agent)):
        if vote.expires is None or counted is None or _purged(scenario, record, vote.expires):
            return None
        left.remove(vote)
        waited = record.pending is not None and record.pending.due < vote.expires
        current = record.pending.state if waited and record.pending else current_of(record)
        found = outcome(scenario, left, current)
        if found != target:
            return Lapse(vote.agent, vote.expires, found)
    return None


def _purged(scenario: Scenario, record: StateRecord, at: int) -> bool:
    """Whether the asset will have purged itself by then, if its state stays."""
    delay = scenario.purge_delay(record.state)
    return delay is not None and record.since + delay <= at
