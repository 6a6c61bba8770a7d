"""An observer that holds the fold to its promises, by its own reading of them.

It looks at votes and states after each event, never into how they came about: what raises, what
lowers and what is evidence it works out anew. `broken` names every promise that a history breaks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import count
from typing import NamedTuple

from domain.asset import REMINDER, Asset, all_timers
from domain.fold import Bucket
from domain.names import USER_PREFIX
from domain.records import (
    APPLIED,
    MAX_VOTERS,
    STILL_AHEAD,
    UNREADABLE,
    Command,
    DeadLetter,
    Doubt,
    Emission,
    Leave,
    Mute,
    Pending,
    Record,
    RefusedReport,
    Report,
    ScenarioChange,
    StateRecord,
    Tick,
    Tombstone,
    Unmute,
    Vote,
)
from domain.scenario import KEEP, UNKNOWN, Latest, PythonRule, Quorum, Scenario
from domain.tasks import RULE_OWNER
from rules import loudest
from support.histories.histories import SECOND, SPACING, USERS, Entry, History
from wire.asset import dump_asset, dump_bucket, load_asset, load_bucket

SILENCE = frozenset(
    {"vote-expiry", "doubt-end", "vote-forgotten", "leave", "override-end", "reminder", "set"}
)
"""Causes by which no state may move and no wait may begin."""

PROMISES = (
    "silence moves nothing",
    "no report lowers what it says",
    "a lowering has voters",
    "a lowering has a witness",
    "a lowering lasts",
    "a raise waits",
    "a raise comes",
    "confirmed means confirmed",
    "no green without a vote for it",
    "no worse vote without the mark",
    "an older report lowers nothing",
    "what was said worse is on the row",
    "no doubt outlives a lifetime",
    "time takes no red row",
    "names decide nothing",
    "a changed lifetime lowers nothing",
    "the all-clear comes",
    "the alarm comes",
)


class Breach(NamedTuple):
    """A promise that was broken: of which asset, when (ms), and how."""

    promise: str
    asset: str
    time: int
    how: str


# ---- the rule, read anew --------------------------------------------------------------------


def counting(votes: Iterable[Vote]) -> list[Vote]:
    """The votes that count."""
    return [v for v in votes if v.muted is None and v.weight > 0]


def live_ones(rule: Scenario, votes: Iterable[Vote]) -> list[Vote]:
    """The votes that count and are not silent, for states that the rule knows."""
    return [v for v in counting(votes) if v.silent is None and rule.knows(v.state)]


def sure_ones(rule: Scenario, votes: Iterable[Vote], doubts: Iterable[Doubt]) -> list[Vote]:
    """The live votes that are not in doubt."""
    doubted = {doubt.agent for doubt in doubts}
    return [v for v in live_ones(rule, votes) if v.doubt is None and v.agent not in doubted]


def quiet_ones(rule: Scenario, votes: Iterable[Vote], doubts: Iterable[Doubt]) -> list[Vote]:
    """The votes that count, and neither confirm nor lower: silent ones, and those in doubt."""
    sure = sure_ones(rule, votes, doubts)
    return [v for v in counting(votes) if v not in sure]


def made(rule: Scenario, votes: Collection[Vote], current: str | None) -> str:
    """Return what the rule makes of votes, at least one."""
    worst = min((vote.state for vote in votes), key=rule.severity)
    kept = worst if current is None else current
    match rule.rule:
        case Latest():
            return max(votes, key=lambda vote: vote.offset).state
        case PythonRule():
            return loudest.tally(tuple(sorted(votes, key=lambda vote: vote.agent)), current)
        case Quorum(ladder, default):
            for threshold in ladder:
                if _met(rule, threshold.state, threshold.p, threshold.q, threshold.strict, votes):
                    return threshold.state
            return kept if default == KEEP else default


def _met(rule: Scenario, state: str, p: int, q: int, strict: bool, votes: Collection[Vote]) -> bool:
    rank = rule.severity
    last = state == rule.states[-1].name
    said = [v for v in votes if v.state == state or (not last and rank(v.state) < rank(state))]
    weight, whole = sum(v.weight for v in said), rule.electorate or sum(v.weight for v in votes)
    if q == 0:
        return weight >= p
    share = Fraction(p, q) * whole
    return weight > share if strict else 0 < weight >= share


def raised(
    rule: Scenario, votes: Collection[Vote], doubts: Collection[Doubt], current: str | None
) -> str | None:
    """Return what raises a state: the rule over the live votes, or over those without doubt."""
    live, sure = live_ones(rule, votes), sure_ones(rule, votes, doubts)
    if not live:
        return None
    up = made(rule, live, current)
    if sure and len(sure) >= rule.raise_voters:
        up = min(up, made(rule, sure, current), key=rule.severity)
    return up


def lowered(
    rule: Scenario, votes: Collection[Vote], doubts: Collection[Doubt], current: str
) -> str | None:
    """What lowers a state: the mildest that sure votes bear out, and no other one denies."""
    sure, quiet = sure_ones(rule, votes, doubts), quiet_ones(rule, votes, doubts)
    rank = rule.severity
    up = raised(rule, votes, doubts, current)
    if up is None:
        return None
    for spec in reversed(rule.states):
        here = rank(spec.name)
        all_of = sure + [vote for vote in quiet if rank(vote.state) < here]
        if not any(rank(vote.state) >= here for vote in sure):
            continue
        if rank(up) < here or rank(made(rule, all_of, current)) < here:
            continue
        newest = max(all_of, key=lambda vote: (vote.order, vote.offset))
        if isinstance(rule.rule, Latest) and rank(newest.state) < here:
            continue
        return spec.name
    return min(current, up, key=rank)


# ---- what happened --------------------------------------------------------------------------


@dataclass(frozen=True)
class Event:
    """One event of an asset, and what is seen of it afterwards.

    doubts, pinned: as they are then; up, down: whether it is evidence for a worse, for a milder
    state; judged: the votes that it was judged by, where they are others than those left; said:
    what the report or operator's vote says.
    """

    kind: str
    time: int
    votes: tuple[Vote, ...]
    state: str | None
    shown: str
    reason: str | None
    disputed: str | None
    pending: Pending | None
    doubts: tuple[Doubt, ...] = ()
    pinned: bool = False
    up: bool = False
    down: bool = False
    judged: tuple[Vote, ...] | None = None
    said: str | None = None


def of_record(record: StateRecord) -> Event:
    """Return what a state record tells."""
    tallied = record.state if record.override is None else record.override.underlying
    return Event(
        record.cause.type,
        record.cause.time,
        record.votes,
        None if tallied == UNKNOWN else tallied,
        record.state,
        record.unconfirmed_reason,
        record.disputed,
        record.pending,
        record.doubts,
        record.override is not None,
    )


def of_asset(kind: str, time: int, asset: Asset, rule: Scenario) -> Event:
    """Return what the asset itself tells."""
    assert asset.shown is not None
    return Event(
        kind,
        time,
        tuple(asset.votes.values()),
        asset.state,
        asset.shown,
        asset.unconfirmed,
        asset.disputed,
        asset.pending(rule),
        tuple(asset.doubts.values()),
        asset.override is not None,
    )


# ---- one asset ------------------------------------------------------------------------------


@dataclass
class Watch:
    """What is known of one asset. lower, upper: since when a state could be lowered, raised to."""

    name: str
    state: str | None = None
    votes: tuple[Vote, ...] = ()
    doubts: tuple[Doubt, ...] = ()
    last: Event | None = None
    lower: dict[str, int] = field(default_factory=dict)
    upper: dict[str, int] = field(default_factory=dict)
    breaches: list[Breach] = field(default_factory=list)

    def see(self, rule: Scenario, event: Event) -> None:
        """Hold an event to the promises."""
        if rule.life_cycle:
            self.lower, self.upper = {}, {}
        else:
            self._marks(rule, event)
            if self.state is not None:
                self._moves(rule, event)
            else:
                self.lower, self.upper = {}, {}
        self.state, self.votes, self.doubts = event.state, event.votes, event.doubts
        self.last = event

    def purged_by_time(self, rule: Scenario, time: int) -> None:
        """Say if there was anything against the asset's purge by time alone."""
        last = self.last
        if last is None or not rule.doubting or last.state is None:
            return
        doubts = [d for d in last.doubts if d.weight > 0 and d.muted is None]
        in_doubt = bool(doubts) or any(v.doubt is not None for v in counting(last.votes))
        if last.state != rule.mildest or last.disputed or last.pinned or in_doubt:
            self._breach("time takes no red row", time, f"{last}")

    def overdue(self, rule: Scenario, time: int) -> None:
        """Say which raise should have come by now."""
        for state, since in self.upper.items():
            if since + rule.hold(state) <= time:
                self._breach("a raise comes", time, f"{state}, awaited since {since}")

    def under(self, rule: Scenario, former: Scenario) -> None:
        """Another rule is in force: waits for what it does not know are over."""
        if rule.life_cycle or former.life_cycle or self.state is None:
            self.lower, self.upper = {}, {}
            return
        here = rule.severity(self.state)
        self.upper = {s: at for s, at in self.upper.items() if 0 <= rule.severity(s) < here}
        self.lower = {s: at for s, at in self.lower.items() if rule.knows(s)}

    def _breach(self, promise: str, time: int, how: str) -> None:
        self.breaches.append(Breach(promise, self.name, time, how))

    # ---- moves ----

    def _moves(self, rule: Scenario, event: Event) -> None:
        assert self.state is not None
        votes = event.votes if event.judged is None else event.judged
        doubts = event.doubts if event.judged is None else self.doubts
        self._could_lower(rule, votes, doubts, event.time)
        self._could_raise(rule, votes, doubts, event)
        if event.state != self.state:
            self._moved(rule, event, votes, doubts)
        if event.judged is not None and event.state is not None:
            self.state = event.state
            self._could_lower(rule, event.votes, event.doubts, event.time)

    def _could_lower(
        self, rule: Scenario, votes: tuple[Vote, ...], doubts: tuple[Doubt, ...], time: int
    ) -> None:
        """Keep since when each state is borne out by enough sure votes, one of which says it."""
        assert self.state is not None
        low, rank = lowered(rule, votes, doubts, self.state), rule.severity
        live = sure_ones(rule, votes, doubts)
        for spec in rule.states:
            here = rank(spec.name)
            witness = any(rank(vote.state) >= here for vote in live)
            enough = len(live) >= rule.min_voters
            if low is not None and enough and witness and rank(low) >= here:
                self.lower.setdefault(spec.name, time)
            else:
                self.lower.pop(spec.name, None)

    def _could_raise(
        self, rule: Scenario, votes: tuple[Vote, ...], doubts: tuple[Doubt, ...], event: Event
    ) -> None:
        """Keep since when evidence has had each worse state awaited."""
        assert self.state is not None
        live, rank = live_ones(rule, votes), rule.severity
        muted = rule.doubting and event.kind == "mute"
        if muted and live_ones(rule, self.votes) and not live:
            self.upper = {}  # whoever was muted was the last that counted
        if not live or not (event.up or event.down):
            return
        low, up = lowered(rule, votes, doubts, self.state), raised(rule, votes, doubts, self.state)
        assert low is not None
        assert up is not None
        self.upper = {s: at for s, at in self.upper.items() if rank(s) >= rank(low)}
        if event.up and len(live) >= rule.raise_voters:
            for spec in rule.states:
                if rank(up) <= rank(spec.name) < rank(self.state):
                    self.upper.setdefault(spec.name, event.time)

    def _moved(
        self, rule: Scenario, event: Event, votes: tuple[Vote, ...], doubts: tuple[Doubt, ...]
    ) -> None:
        before, after, rank = self.state, event.state, rule.severity
        how = f"{before} to {after} by {event.kind}"
        if event.kind in SILENCE or not (event.up or event.down or event.kind == "hold"):
            self._breach("silence moves nothing", event.time, how)
        if after is None or before is None:
            self._breach("silence moves nothing", event.time, f"{how}: nothing is left")
        elif rank(after) > rank(before):
            self._lowering(rule, event, sure_ones(rule, votes, doubts), how)
            self.upper = {s: at for s, at in self.upper.items() if rank(s) < rank(after)}
        else:
            since = self.upper.get(after)
            if since is None or since + rule.hold(after) > event.time:
                self._breach("a raise waits", event.time, f"{how}, awaited since {since}")
            self.upper = {s: at for s, at in self.upper.items() if rank(s) < rank(after)}

    def _lowering(self, rule: Scenario, event: Event, live: list[Vote], how: str) -> None:
        before, after, rank = self.state, event.state, rule.severity
        assert before is not None
        assert after is not None
        if event.said is not None and rank(event.said) <= rank(before):
            self._breach("no report lowers what it says", event.time, how)
        if len(live) < rule.min_voters:
            self._breach("a lowering has voters", event.time, f"{how}, {len(live)} voters")
        if not any(rank(vote.state) >= rank(after) for vote in live):
            self._breach("a lowering has a witness", event.time, how)
        since = self.lower.get(after)
        if since is None or since + rule.hold(after) > event.time:
            self._breach("a lowering lasts", event.time, f"{how}, so since {since}")

    # ---- marks ----

    def _marks(self, rule: Scenario, event: Event) -> None:
        rank, live = rule.severity, sure_ones(rule, event.votes, event.doubts)
        wanted = self._reason(rule, event, live)
        if event.reason != wanted:
            how = f"{event.state}: {event.reason}, not {wanted}"
            self._breach("confirmed means confirmed", event.time, how)
        said = [rank(vote.state) for vote in live]
        if event.reason is None and event.state and not any(r >= rank(event.state) for r in said):
            self._breach("no green without a vote for it", event.time, event.state)
        words = {rank(word): {word} for word in said_by(event)}
        for word in said_by(event):
            words[rank(word)].add(word)
        worst = min(words, default=rank(event.shown))
        disputed = words[worst] if worst < rank(event.shown) else {None}
        if event.disputed not in disputed:
            how = f"{event.shown}: {event.disputed}, not {disputed}"
            self._breach("no worse vote without the mark", event.time, how)

    def _reason(self, rule: Scenario, event: Event, live: list[Vote]) -> str | None:
        rank, state = rule.severity, event.state
        if len(live) < rule.min_voters:
            return f"{len(live)} of {rule.min_voters} voters"
        assert state is not None
        said = {rank(vote.state) for vote in live}
        if max(said) < rank(state):
            return "nobody says it is this good"
        falling = event.pending is not None and rank(event.pending.state) > rank(state)
        voices = {rank(vote.state) for vote in live_ones(rule, event.votes)}
        if min(voices) > rank(state) and not falling:
            return "nobody says it is this bad"
        return None


def said_by(event: Event) -> list[str]:
    """List what votes that count, live and silent, and doubts say."""
    votes = counting(event.votes)
    turned = [v.flap.state for v in votes if v.flap is not None and v.flap.again]
    doubted = [d.said or UNREADABLE for d in event.doubts if d.weight > 0 and d.muted is None]
    return [*(vote.state for vote in votes), *turned, *doubted]


# ---- a whole history ------------------------------------------------------------------------


class Observer:
    """Watches a bucket as it takes a history, one event at a time."""

    def __init__(self, bucket: Bucket) -> None:
        self.bucket = bucket
        self.watches: dict[str, Watch] = {}
        self.breaches: list[Breach] = []

    def watch(self, history: History) -> list[Breach]:
        """Return what the history breaks."""
        for entry in history.entries:
            self._pass_time(entry)
            self._record(entry)
        return self.breaches + [b for watch in self.watches.values() for b in watch.breaches]

    # ---- time ----

    def _pass_time(self, entry: Entry) -> None:
        """Ticks up to the entry's time: one whenever more than reminders is due."""
        while (time := self._next_timer()) is not None and time < entry.time:
            self._tick(entry, time)
        self._tick(entry, entry.time)

    def _next_timer(self) -> int | None:
        rule = self.bucket.scenario
        assets = self.bucket.assets.values()
        timers = [timer for asset in assets for timer in all_timers(asset, rule)]
        return min((timer.time for timer in timers if timer.order != REMINDER), default=None)

    def _tick(self, entry: Entry, time: int) -> None:
        waits = self._waits()
        offset = entry.offset - SPACING + 1
        emissions = self.bucket.apply(Tick(), offset, time)
        for emission in emissions:
            self._emitted(emission)
        self._look_at_waits(emissions, waits)
        self._look_for_overdue()

    def _waits(self) -> dict[str, dict[str, int]]:
        return {name: dict(asset.waits) for name, asset in self.bucket.assets.items()}

    def _look_at_waits(
        self, emissions: list[Emission], before: Mapping[str, Mapping[str, int]]
    ) -> None:
        """Silence begins no wait."""
        if self.bucket.scenario.life_cycle:
            return
        loud = {
            e.asset
            for e in emissions
            if not isinstance(e, DeadLetter) and e.cause.type not in SILENCE
        }
        for name, asset in self.bucket.assets.items():
            begun = asset.waits.items() - before.get(name, {}).items()
            if begun and name not in loud:
                how = f"waits {begun} begin"
                self._breach("silence moves nothing", name, how)

    def _look_for_overdue(self) -> None:
        for watch in self.watches.values():
            watch.overdue(self.bucket.scenario, self.bucket.clock)

    def _breach(self, promise: str, asset: str, how: str) -> None:
        self.breaches.append(Breach(promise, asset, self.bucket.clock, how))

    # ---- events ----

    def _emitted(self, emission: Emission) -> None:
        """See what time alone brought about."""
        if isinstance(emission, Tombstone):
            if emission.asset in self.watches and emission.cause.user in (None, RULE_OWNER):
                watch = self.watches[emission.asset]
                watch.purged_by_time(self.bucket.scenario, emission.cause.time)
            self._gone(emission.asset)
        elif isinstance(emission, StateRecord):
            event = of_record(emission)
            loud = event.kind == "mute-end"
            self._see(emission.asset, replace(event, up=loud, down=loud))

    def _gone(self, name: str) -> None:
        watch = self.watches.pop(name, None)
        self.breaches += watch.breaches if watch else []

    def _see(self, name: str, event: Event) -> None:
        watch = self.watches.setdefault(name, Watch(name))
        watch.see(self.bucket.scenario, event)

    def _record(self, entry: Entry) -> None:
        bucket, record = self.bucket, entry.record
        former, waits = bucket.scenario, self._waits()
        kept = {name: dump_asset(asset) for name, asset in bucket.assets.items()}
        older = isinstance(record, Report | Leave) and self._is_older(record, entry.time)
        answered = isinstance(record, Command) and self._is_answered(record)
        emissions = bucket.apply(record, entry.offset, entry.time)
        if older and isinstance(record, Report | Leave):
            self._look_for_lowering(record, kept, entry.offset)
        self._look_for_doubts()
        if isinstance(record, Report | RefusedReport):
            self._look_for_the_word(record)
        if isinstance(record, ScenarioChange) and bucket.scenario is not former:
            self._changed(former, entry, emissions)
        elif isinstance(record, Mute | Unmute):
            self._muted(record, emissions)
        elif isinstance(record, Report | RefusedReport | Leave | Command):
            self._of_one_asset(record, entry, answered)
        quiet = isinstance(record, Leave) or self._is_silent(record, entry)
        if quiet:
            self._look_at_waits([], waits)
        self._look_for_overdue()

    def _is_older(self, record: Report | Leave, time: int) -> bool:
        """Return whether it is older than what is known of its agent, or than the rule looks at."""
        at, asset, rule = (
            record.reported_at,
            self.bucket.assets.get(record.asset),
            self.bucket.scenario,
        )
        newest = asset.votes.get(record.agent) if asset else None
        if at is None:
            return False
        if rule.by_claim:
            if newest is not None and _claims_before(rule, record, newest):
                return True
        elif rule.lenient and record.ahead > STILL_AHEAD:
            return False
        elif newest is not None and min(at, time) < newest.order:
            return True
        limit = rule.report_age_limit
        return isinstance(record, Report) and limit is not None and time - at > limit

    def _look_for_lowering(
        self, record: Report | Leave, kept: Mapping[str, bytes], offset: int
    ) -> None:
        """An older report may make its agent doubted, and be taken in doubt where it says worse."""
        name, rule = record.asset, self.bucket.scenario
        asset = self.bucket.assets.get(name)
        if name not in kept or asset is None:
            return
        before = load_asset(kept[name])
        if not rule.doubting and before != asset:
            self._breach("an older report lowers nothing", name, repr(record))
        if rule.life_cycle:
            return
        vote, former = asset.votes.get(record.agent), before.votes.get(record.agent)
        if before.shown and (asset.state != before.state or _is_milder(rule, former, vote)):
            self._breach("an older report lowers nothing", name, repr(record))
        if vote is not None and vote.offset == offset and vote.doubt is None:
            self._breach("an older report lowers nothing", name, repr(record))

    def _look_for_doubts(self) -> None:
        """No doubt, and nothing of what flapped, is there a lifetime after its last cause."""
        rule, clock = self.bucket.scenario, self.bucket.clock
        life = 86_400 * SECOND if rule.vote_lifetime is None else rule.vote_lifetime
        for name, asset in self.bucket.assets.items():
            flaps = [v.flap for v in asset.votes.values() if v.flap is not None and v.flap.again]
            causes = [doubt.time for doubt in asset.doubts.values()] + [flap.time for flap in flaps]
            if causes and (not rule.doubting or min(causes) + life <= clock):
                self._breach("no doubt outlives a lifetime", name, f"{asset.doubts} {flaps}")

    def _look_for_the_word(self, record: Report | RefusedReport) -> None:
        """What an agent that counts says now is on the row: as its state, a dispute or a doubt."""
        rule, asset = self.bucket.scenario, self.bucket.assets.get(record.asset)
        counts = rule.weight(record.agent) > 0 and record.agent not in self.bucket.mutes
        if asset is None or asset.shown is None or not counts or not rule.doubting:
            return
        if record.sunk is not None and not rule.piecewise:
            return
        vote = asset.votes.get(record.agent)
        said = record.state if isinstance(record, Report) else record.said
        rank = -1 if said is None else rule.severity(said)
        seen = [asset.shown, *([asset.disputed] if asset.disputed else [])]
        on_row = min(-1 if word == UNREADABLE else rule.severity(word) for word in seen)
        doubted = record.agent in asset.doubts or (vote is not None and vote.doubt is not None)
        if rank < on_row and not doubted and len(asset.votes) < MAX_VOTERS:
            self._breach("what was said worse is on the row", record.asset, repr(record))

    def _is_answered(self, command: Command) -> bool:
        asset = self.bucket.assets.get(command.asset)
        return asset is not None and any(a.command == command.id for a in asset.answers)

    def _is_silent(self, record: object, entry: Entry) -> bool:
        """Whether a report is no evidence: refused, out of a spool, or of an agent that counts
        nothing."""
        if isinstance(record, RefusedReport):
            return True
        if not isinstance(record, Report):
            return False
        vote = self._vote_at(record.asset, entry.offset)
        return vote is None or not live_ones(self.bucket.scenario, [vote])

    def _vote_at(self, name: str, offset: int) -> Vote | None:
        asset = self.bucket.assets.get(name)
        votes = asset.votes.values() if asset else ()
        return next((vote for vote in votes if vote.offset == offset), None)

    def _of_one_asset(
        self, record: Report | RefusedReport | Leave | Command, entry: Entry, answered: bool
    ) -> None:
        asset = self.bucket.assets.get(record.asset)
        if asset is None or asset.shown is None:
            self._gone(record.asset)
            return
        kind = record.kind if isinstance(record, Command) else type(record).__name__.lower()
        event = of_asset(kind, self.bucket.clock, asset, self.bucket.scenario)
        self._see(record.asset, self._with_evidence(event, record, entry, answered))

    def _with_evidence(
        self,
        event: Event,
        record: Report | RefusedReport | Leave | Command,
        entry: Entry,
        answered: bool,
    ) -> Event:
        if isinstance(record, Command) and record.kind == "release" and not answered:
            asset = self.bucket.assets[record.asset]
            loud = asset.answers[-1].outcome == APPLIED
            return replace(event, up=loud, down=loud)
        vote = self._vote_at(record.asset, entry.offset)
        rule = self.bucket.scenario
        if vote is None or not live_ones(rule, [vote]):
            return event
        watch, rank = self.watches.get(record.asset), rule.severity
        state = watch.state if watch else None
        milder = state is not None and rank(vote.state) > rank(state)
        sure = vote in sure_ones(rule, [vote], event.doubts)
        up = sure or (state is not None and rank(vote.state) < rank(state))
        return replace(event, up=up, down=sure and milder, said=vote.state)

    # ---- records about all assets ----

    def _muted(self, record: Mute | Unmute, emissions: list[Emission]) -> None:
        for emission in emissions:
            if isinstance(emission, StateRecord):
                event = of_record(emission)
                unmuted = isinstance(record, Unmute)
                self._see(emission.asset, replace(event, up=True, down=unmuted))

    def _changed(self, former: Scenario, entry: Entry, emissions: list[Emission]) -> None:
        """A change of rule, then what it makes happen at once."""
        rule = self.bucket.scenario
        changed = {e.asset for e in emissions if not isinstance(e, DeadLetter)
                and e.cause.type == "scenario"}  # fmt: skip
        for name, watch in self.watches.items():
            watch.under(rule, former)
            if name not in changed:
                self._unseen_change(name, watch, rule)
        for emission in emissions:
            if isinstance(emission, StateRecord) and emission.cause.type == "scenario":
                watch = self.watches[emission.asset]
                judged = tuple(self._reweighed(watch.votes, rule))
                event = replace(of_record(emission), up=True, down=True, judged=judged)
                self._see(emission.asset, event)
            else:
                self._emitted(emission)

    def _reweighed(self, votes: Iterable[Vote], rule: Scenario) -> Iterator[Vote]:
        for vote in votes:
            if rule.by_claim or rule.knows(vote.state):
                weight = 0 if vote.muted is not None else rule.weight(vote.agent)
                yield replace(vote, weight=weight)

    def _unseen_change(self, name: str, watch: Watch, rule: Scenario) -> None:
        """Nothing of the asset changed that is seen, but it was judged."""
        asset = self.bucket.assets.get(name)
        if asset is None or asset.shown is None or rule.life_cycle:
            return
        if watch.state is None:
            return
        judged = tuple(self._reweighed(watch.votes, rule))
        watch._could_lower(rule, judged, watch.doubts, self.bucket.clock)
        event = replace(of_asset("scenario", self.bucket.clock, asset, rule), up=True, down=True)
        watch._could_raise(rule, judged, watch.doubts, event)


def _claims_before(rule: Scenario, record: Report | Leave, vote: Vote) -> bool:
    """Return whether a record claims an earlier time than its agent's vote, or milder the same."""
    claim = vote.claimed
    if vote.silent is not None and vote.expires is not None:
        claim = min(claim, vote.expires)
    assert record.reported_at is not None
    if record.reported_at != claim:
        return record.reported_at < claim
    return isinstance(record, Report) and rule.severity(record.state) > rule.severity(vote.state)


def _is_milder(rule: Scenario, former: Vote | None, vote: Vote | None) -> bool:
    """Return whether an agent's vote has become milder than it was."""
    if former is None or vote is None:
        return False
    return rule.severity(vote.state) > rule.severity(former.state)


# ---- histories side by side -----------------------------------------------------------------


def renamed(history: History) -> History:
    """The same history with its agents renamed so that they sort the other way round."""
    agents = sorted({r.agent for e in history.entries if isinstance(r := e.record, NAMED)})
    names = {agent: f"n{len(agents) - at:04}" for at, agent in enumerate(agents)}

    def rule(scenario: Scenario) -> Scenario:
        weights = {names[agent]: scenario.weight(agent) for agent in agents}
        # Rules that differ must go on differing, also where they say the same of these agents.
        others = {f"nobody {name}": weight for name, weight in (scenario.weights or {}).items()}
        return replace(scenario, weights={**weights, **others})

    def change(entry: Entry) -> Entry:
        record = entry.record
        if isinstance(record, NAMED):
            return entry._replace(record=replace(record, agent=names[record.agent]))
        if isinstance(record, ScenarioChange):
            return entry._replace(record=ScenarioChange(rule(record.scenario)))
        return entry

    entries = tuple(change(entry) for entry in history.entries)
    return replace(history, scenario=rule(history.scenario), entries=entries)


NAMED = (Report, RefusedReport, Leave, Mute, Unmute)


def names_decide(history: History) -> list[Breach]:
    """Return where agents' names decide anything."""
    other = renamed(history)
    one, two = history.bucket(), other.bucket()
    for entry, instead in zip(history.entries, other.entries, strict=True):
        for bucket, each in ((one, entry), (two, instead)):
            bucket.apply(each.record, each.offset, each.time)
        if (seen := _nameless(one)) != (mirrored := _nameless(two)):
            how = f"{seen} and {mirrored}"
            return [Breach("names decide nothing", "", one.clock, how)]
    return []


def _nameless(bucket: Bucket) -> dict[str, tuple[object, ...]]:
    """All that there is of assets but their agents' names."""
    return {
        name: (
            *(asset.state, asset.shown, asset.previous, asset.since, asset.waits),
            *(asset.unconfirmed, asset.disputed, asset.offset, asset.step, asset.changed),
            sorted((v.offset, v.state, v.silent or 0, v.weight) for v in asset.votes.values()),
            sorted((d.offset, d.reason, d.said or "", d.until) for d in asset.doubts.values()),
        )
        for name, asset in bucket.assets.items()
    }


def lifetimes_move(history: History) -> list[Breach]:
    """Return where a change of rule makes a milder state because lifetimes change with it."""
    bucket, breaches = history.bucket(), []
    for entry in history.entries:
        record, former = entry.record, bucket.scenario
        if not isinstance(record, ScenarioChange) or record.scenario == former:
            bucket.apply(record, entry.offset, entry.time)
            continue
        bucket.apply(Tick(), entry.offset - 1, entry.time)
        trial = load_bucket(dump_bucket(bucket), bucket.epoch)
        bucket.apply(record, entry.offset, entry.time)
        if not record.scenario.life_cycle:
            as_they_were = ScenarioChange(_with_lifetimes_of(former, record.scenario))
            trial.apply(as_they_were, entry.offset, entry.time)
            breaches += _differing(bucket, trial)
    return breaches


def _with_lifetimes_of(former: Scenario, rule: Scenario) -> Scenario:
    """The rule with the former one's lifetimes; it is another rule in any case."""
    lifetime, forget_after = former.vote_lifetime, former.forget_after
    return replace(rule, vote_lifetime=lifetime, forget_after=forget_after, title="another")


def _differing(bucket: Bucket, other: Bucket) -> list[Breach]:
    promise, rank = "a changed lifetime lowers nothing", bucket.scenario.severity
    return [
        Breach(promise, name, bucket.clock, f"{asset.state}, not {state}")
        for name, asset in bucket.assets.items()
        if asset.state
        and name in other.assets
        and (state := other.assets[name].state) is not None
        and rank(asset.state) > rank(state)
    ]


# ---- what is said for long enough shows -----------------------------------------------------

SPEAKING = ("n1", "n2", "n3", "n4", "n5", "n6")
"""Agents that say a state, beside those whose votes live; the silent ones stay silent."""


def no_green(history: History) -> list[Breach]:
    """Return where the mildest state does not come, though all live agents have kept saying it."""
    rule = _end(history).scenario
    usual = max(3 * (rule.lifetime or 0), 900 * SECOND)
    keeping = usual if rule.forget_after is None else rule.forget_after
    return _kept_saying(history, rule.mildest, "the all-clear comes", keeping)


def no_red(history: History) -> list[Breach]:
    """Return where the worst state does not come, though all live agents have kept saying it."""
    worst = _end(history).scenario.states[0].name
    return _kept_saying(history, worst, "the alarm comes", 0)


def _end(history: History) -> Bucket:
    """The bucket after a history."""
    bucket = history.bucket()
    for entry in history.entries:
        bucket.apply(entry.record, entry.offset, entry.time)
    return bucket


def _kept_saying(history: History, state: str, promise: str, keeping: int) -> list[Breach]:
    """Return what is broken where live agents kept saying a state. keeping: of silent votes, ms."""
    bucket = _end(history)
    rule, asset = bucket.scenario, bucket.assets.get("a")
    if rule.life_cycle or (asset is not None and len(asset.votes) > MAX_VOTERS // 2):
        return []
    if any(task.do == "purge" and rule.task_fault(task) is None for task in rule.tasks):
        return []  # as a rule of a former fold may
    lasting = keeping + rule.hold(state)
    if _say(bucket, state, lasting):
        return []
    live = live_ones(bucket.scenario, bucket.assets["a"].votes.values())
    if len(live) < max(rule.min_voters, rule.raise_voters):
        return []
    if any(made(rule, live, spec.name) != state for spec in rule.states):
        return []
    how = f"{bucket.assets['a'].state}, not {state} after {lasting} ms"
    return [Breach(promise, "a", bucket.clock, how)]


def _say(bucket: Bucket, state: str, lasting: int) -> bool:
    """Have every live agent say a state for so long, ms, and what its votes take to count.

    Returns whether the state came.
    """
    rule, asset, offsets = bucket.scenario, bucket.assets.get("a"), count(bucket.offset + 1)
    every = (rule.lifetime or 60 * SECOND) // 2
    lasting += (rule.lifetime or 0) + every
    speaking = [v.agent for v in asset.votes.values() if v.silent is None] if asset else []
    agents = [*SPEAKING, *(agent for agent in speaking if not agent.startswith(USER_PREFIX))]
    says: list[Record] = [Report("a", agent, state) for agent in agents]
    ends: list[Record] = [Command("release", "a", f"release-{user}", user) for user in USERS]
    for at in range(bucket.clock, bucket.clock + lasting + every, every):
        for record in [*ends, *says]:
            emissions = bucket.apply(record, next(offsets), at)
            states = [of_record(e).state for e in emissions if isinstance(e, StateRecord)]
            if state in (bucket.assets["a"].state, *states):
                return True
        ends = []
    return False


# ---- all of it ------------------------------------------------------------------------------


def observed(history: History) -> list[Breach]:
    """Return what an observer of each event sees broken."""
    return Observer(history.bucket()).watch(history)


LOOKS: Mapping[str, Callable[[History], list[Breach]]] = {
    "names decide nothing": names_decide,
    "a changed lifetime lowers nothing": lifetimes_move,
    "the all-clear comes": no_green,
    "the alarm comes": no_red,
}
"""What looks for breaches of a promise; of the others it is `observed`."""


def look_for(promise: str, history: History) -> list[Breach]:
    """The breaches of this promise."""
    breaches = LOOKS.get(promise, observed)(history)
    return [breach for breach in breaches if breach.promise == promise]


def broken(history: History) -> list[Breach]:
    """Every promise that the fold breaks over a history, and how."""
    return [breach for look in (observed, *LOOKS.values()) for breach in look(history)]


def with_loudest(history: History) -> History:
    """The same history with a rule in Python in place of `latest`."""

    def spelt(scenario: Scenario) -> Scenario:
        is_latest = isinstance(scenario.rule, Latest)
        return replace(scenario, rule=PythonRule("loudest")) if is_latest else scenario

    def change(entry: Entry) -> Entry:
        record = entry.record
        if isinstance(record, ScenarioChange):
            return entry._replace(record=ScenarioChange(spelt(record.scenario)))
        return entry

    entries = tuple(change(entry) for entry in history.entries)
    return replace(history, scenario=spelt(history.scenario), entries=entries)
