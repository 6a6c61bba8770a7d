"""The fold: one source partition's records, in offset order, into the state of its assets.

This is the specification of the product: the board is a pure function of the log. Nothing in here
reads a clock; time is the broker's append time of the records.
"""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping
from dataclasses import dataclass, replace

from domain import asset as due_kinds
from domain.asset import Answered, Asset, Due, all_dues, next_due
from domain.dues import DueIndex, Dues
from domain.lateness import Lateness, LatenessCounts
from domain.names import USER_PREFIX
from domain.records import (
    APPLIED,
    MAX_MUTED,
    MAX_VOTERS,
    NO_CHANGE,
    REFUSED,
    Answer,
    Cause,
    Command,
    DeadLetter,
    Emission,
    Leave,
    Mute,
    Muted,
    Override,
    Pending,
    Record,
    Refusal,
    Report,
    ScenarioChange,
    StateRecord,
    Tick,
    Tombstone,
    UnknownFold,
    Unmute,
    Unreadable,
    Unsigned,
    Vote,
)
from domain.scenario import FOLD, Scenario
from domain.tally import disputed, lowered, tally, unconfirmed_reason
from domain.version import Version

REFRESH_AFTER = 30_000
"""A report that changes nothing visible is emitted when the last emission is this old, ms."""


class UnknownFoldVersion(Exception):
    """The log needs a version of the fold that is not known here."""

    def __init__(self, scenario: str, fold: int) -> None:
        super().__init__(
            f"UnknownFoldVersion: the log of {scenario} needs version {fold} of the fold, "
            f"and this release knows {FOLD}: run a newer release"
        )


@dataclass(frozen=True, slots=True)
class _Before:
    """What was visible of an asset before an event."""

    shown: str | None
    pending: Pending | None
    override: Override | None
    unconfirmed: str | None
    disputed: str | None
    votes: dict[str, Vote]

    @classmethod
    def of(cls, asset: Asset, scenario: Scenario) -> _Before:
        return cls(
            asset.shown,
            asset.pending(scenario),
            asset.override,
            asset.unconfirmed,
            asset.disputed,
            dict(asset.votes),
        )

    def differs(self, asset: Asset, scenario: Scenario) -> bool:
        """Whether anything visible of the asset is another than it was."""
        return (
            self.shown != asset.shown
            or self.unconfirmed != asset.unconfirmed
            or self.disputed != asset.disputed
            or self.override != asset.override
            or self.pending != asset.pending(scenario)
            or self._votes_differ(asset.votes)
        )

    def _votes_differ(self, votes: dict[str, Vote]) -> bool:
        return self.votes.keys() != votes.keys() or any(
            vote is not votes[agent] and vote.shown() != votes[agent].shown()
            for agent, vote in self.votes.items()
        )

    def looked_at(self, asset: Asset, scenario: Scenario) -> bool:
        """Whether what a command's sender looks at is the same: state, pin, else what waits."""
        if self.shown != asset.shown:
            return False
        if self.override is not None and asset.override is not None:
            return replace(self.override, underlying=asset.override.underlying) == asset.override
        pending = asset.pending(scenario)
        same_wait = (self.pending and self.pending.state) == (pending and pending.state)
        return self.override is asset.override and same_wait


class Bucket:
    """All assets of one source partition, and the fold over its log.

    `assets` and `dues` may be given, so that a state store can stand behind them; `live` is then
    the number of assets in it that exist; `mutes` are those in force; `lateness` what has been
    counted of late reports and not been told yet. The same records at the same
    offsets and times give the same emissions, however they are cut into batches.
    """

    def __init__(
        self,
        scenario: Scenario,
        partition: int,
        epoch: int,
        assets: MutableMapping[str, Asset] | None = None,
        dues: DueIndex | None = None,
        *,
        clock: int = 0,
        offset: int = -1,
        live: int = 0,
        mutes: Iterable[Mute] = (),
        lateness: Iterable[Lateness] = (),
    ) -> None:
        self.scenario = scenario
        self.partition = partition
        self.epoch = epoch
        self.assets: MutableMapping[str, Asset] = {} if assets is None else assets
        self.dues: DueIndex = Dues() if dues is None else dues
        self.clock = clock
        self.offset = offset
        self.live = live
        self.mutes = {mute.agent: mute for mute in mutes}
        self.lateness = LatenessCounts(lateness)
        self._time = clock
        self._out: list[Emission] = []

    def apply(self, record: Record, offset: int, time: int) -> list[Emission]:
        """Apply the record at `offset`, appended by the broker at `time` ms.

        What is due at or before that time comes first. Returns what is to be emitted, in order.
        Raises UnknownFoldVersion.
        """
        self._out = []
        self._time = time
        self.clock = max(self.clock, time)
        self.offset = offset
        self._pass_time()
        if self.mutes:
            self._drop_ended()
        self._dispatch(record)
        return self._out

    def _dispatch(self, record: Record) -> None:
        match record:
            case Report():
                self._report(record)
            case Leave():
                self._leave(record)
            case Tick():
                pass
            case Command():
                self._command(record)
            case Refusal():
                self._refuse(record)
            case Unsigned():
                self._take_unsigned(record)
            case Unreadable():
                self._out.append(DeadLetter(record.reason))
            case _:
                self._change(record)

    def _take_unsigned(self, unsigned: Unsigned) -> None:
        """Apply what bears no signature, unless the rule in force demands one.

        It is not answered: whoever may write into the topic could else give a command's id an
        answer before the command itself comes, and fill the states topic.
        """
        if self.scenario.signed_commands:
            self._out.append(DeadLetter("unsigned"))
        else:
            self._dispatch(unsigned.record)

    def _change(self, record: ScenarioChange | UnknownFold | Mute | Unmute) -> None:
        """Apply a record that is about all assets of the bucket."""
        match record:
            case ScenarioChange():
                self._switch(record.scenario)
            case UnknownFold():
                self._stop(record)
            case Mute():
                self._mute(record)
            case Unmute():
                self._unmute(record)

    # ---- reports --------------------------------------------------------------------------

    def _report(self, report: Report) -> None:
        if not self.scenario.knows(report.state):
            self._out.append(DeadLetter("unknown-state"))
            return
        vote = self._vote_of(report)
        asset = self.assets.get(report.asset)
        if report.reported_at is not None and self._is_late(asset, vote):
            return
        if not vote.counts and (asset is None or asset.shown is None):
            return
        asset = asset or Asset()
        if not self._make_room(asset, vote):
            self._out.append(DeadLetter("too-many-agents"))
            return
        before = self._begin(asset)
        self._vote(asset, vote)
        cause = self._cause("report", agent=report.agent)
        self._finish(report.asset, asset, before, cause, self.clock)

    def _vote_of(self, report: Report) -> Vote:
        at = report.reported_at
        age = 0 if at is None else max(0, self._time - at)
        lifetime = self.scenario.vote_lifetime
        expires = None if lifetime is None else self.clock + lifetime - age
        return Vote(
            agent=report.agent,
            state=report.state,
            reported_at=self.clock if at is None else at,
            time=self.clock,
            offset=self.offset,
            expires=expires,
            weight=self._weight(report.agent),
            detail=report.detail,
            muted=self._mark(report.agent),
            silent=expires if lifetime is not None and age >= lifetime else None,
            order=self._order(at),
            age=age,
        )

    def _order(self, reported_at: int | None) -> int:
        """Where an agent's report stands in time: an agent's clock makes nothing later."""
        return self._time if reported_at is None else min(reported_at, self._time)

    def _is_late(self, asset: Asset | None, vote: Vote) -> bool:
        """Whether a report comes too late to be looked at; late ones are counted.

        One that does not say when it was made never does: it is as new as its place in the log.
        """
        limit = self.scenario.report_age_limit
        kept = self._fallen_silent(vote, vote.time) is not None
        if (limit is not None and vote.age > limit) or (vote.silent is not None and not kept):
            self.lateness.add(vote.agent, "stale", vote.age)
            return True
        if asset is not None and self._is_older(asset, vote.agent, vote.order):
            self.lateness.add(vote.agent, "late")
            return True
        if vote.silent is not None:
            self.lateness.add(vote.agent, "silent", vote.age)
        return False

    def _is_older(self, asset: Asset, agent: str, order: int) -> bool:
        """Whether a record of this agent's is older than its newest, or than the asset's purge.

        A purge that lies ahead of the record is of a clock that was ahead, and says nothing.
        """
        newest = asset.votes.get(agent)
        if newest is not None and order < newest.order:
            return True
        return asset.purged_at is not None and order < asset.purged_at <= self._time

    def _make_room(self, asset: Asset, vote: Vote) -> bool:
        """See that there is a place for a newcomer's vote; returns whether there is."""
        if vote.agent in asset.votes or len(asset.votes) < MAX_VOTERS:
            return True
        agent = self._least_needed(asset, vote)
        if agent is None:
            return False
        asset.votes = {name: kept for name, kept in asset.votes.items() if name != agent}
        return True

    def _least_needed(self, asset: Asset, newcomer: Vote) -> str | None:
        """The agent whose vote makes way: one that counts nothing before a silent one before a
        live one, the mildest first, then the oldest; never one worse than the newcomer's."""
        if self.scenario.life_cycle:
            return None
        rank = self.scenario.severity
        most, least = _standing(newcomer), rank(newcomer.state)
        giving_way = [
            (_standing(vote), -rank(vote.state), vote.order, vote.offset, vote.agent)
            for vote in asset.votes.values()
            if _standing(vote) <= most and (not vote.counts or rank(vote.state) >= least)
        ]
        return min(giving_way)[-1] if giving_way else None

    def _vote(self, asset: Asset, vote: Vote) -> None:
        former = asset.votes.get(vote.agent)
        if former is not None and former.silent is not None and vote.live:
            self.lateness.add(vote.agent, "rare")
        asset.votes[vote.agent] = vote
        if not vote.counts:
            return
        milder = asset.state is not None and self._rank(vote.state) > self._rank(asset.state)
        self._judge(asset, self.clock, up=vote.live, down=vote.live and milder)

    def _leave(self, leave: Leave) -> None:
        asset = self.assets.get(leave.asset)
        if asset is None or leave.agent not in asset.votes:
            return
        at = leave.reported_at
        if at is not None and self._is_older(asset, leave.agent, self._order(at)):
            self.lateness.add(leave.agent, "late")
            return
        before = self._begin(asset)
        del asset.votes[leave.agent]
        self._judge(asset, self.clock)
        self._drop_unknown(asset, self._time)
        cause = self._cause("leave", agent=leave.agent)
        self._finish(leave.asset, asset, before, cause, self.clock)

    # ---- commands -------------------------------------------------------------------------

    def _command(self, command: Command) -> None:
        asset = self.assets.get(command.asset) or Asset()
        before = self._begin(asset)
        answered = asset.answered(command.id)
        if answered is None:
            outcome = self._refusal(command, asset) or self._carry_out(command, asset)
            cause = "refused" if outcome.startswith(REFUSED) else command.kind
            answered = Answered(command.id, outcome, cause, command.user)
        self._answer(command.asset, asset, before, answered)

    def _refuse(self, refusal: Refusal) -> None:
        asset = self.assets.get(refusal.asset) or Asset()
        before = self._begin(asset)
        refused = Answered(refusal.id, REFUSED + refusal.reason, "refused", refusal.user)
        self._answer(refusal.asset, asset, before, asset.answered(refusal.id) or refused)

    def _answer(self, name: str, asset: Asset, before: _Before, answered: Answered) -> None:
        """Answer a command; one that comes again is answered as it was the first time."""
        asset.remember(answered)
        cause = self._cause(answered.cause, user=answered.user, command=answered.command)
        self._finish(name, asset, before, cause, self.clock, answered.answer)

    def _refusal(self, command: Command, asset: Asset) -> str | None:
        if command.if_version is not None:
            if asset.shown is None:
                return REFUSED + "no such asset any more"
            if asset.changed > command.if_version.in_log():
                return REFUSED + "the state has moved on"
        if command.kind in ("set", "vote") and not self.scenario.knows(command.state or ""):
            return REFUSED + "unknown state"
        if command.kind == "set" and command.until is not None and command.until <= self.clock:
            return REFUSED + "the end is in the past"
        if command.kind == "vote" and not self._make_room(asset, self._operators_vote(command)):
            return REFUSED + "too many agents"
        return None

    def _carry_out(self, command: Command, asset: Asset) -> str:
        match command.kind:
            case "set":
                return self._set(command, asset)
            case "vote":
                self._vote(asset, self._operators_vote(command))
                return APPLIED
            case "release":
                return self._release(command, asset)
            case "purge":
                return self._purge(asset)

    def _operators_vote(self, command: Command) -> Vote:
        agent = USER_PREFIX + command.user
        return self._vote_of(Report(command.asset, agent, command.state or ""))

    def _set(self, command: Command, asset: Asset) -> str:
        pinned = Override(
            state=command.state or "",
            until=command.until,
            user=command.user,
            reason=command.reason,
            command=command.id,
            since=self.clock,
        )
        if asset.override is not None and asset.override.same_pin(pinned):
            return NO_CHANGE
        asset.override = pinned
        return APPLIED

    def _release(self, command: Command, asset: Asset) -> str:
        vote = asset.votes.pop(USER_PREFIX + command.user, None)
        if asset.override is None and vote is None:
            return NO_CHANGE
        asset.override = None
        self._judge(asset, self.clock, up=True, down=True)
        return APPLIED

    def _purge(self, asset: Asset) -> str:
        if asset.shown is None:
            return NO_CHANGE
        asset.clear(self._time)
        return APPLIED

    # ---- the tally ------------------------------------------------------------------------

    def _rank(self, state: str) -> int:
        return self.scenario.severity(state)

    def _judge(self, asset: Asset, at: int, *, up: bool = False, down: bool = False) -> None:
        """Hold the votes as they are at `at` ms against the state.

        up, down: whether what happened is evidence, by which a worse or a milder state may come;
        if it is neither, it is silence, which moves nothing.
        """
        live = [vote for vote in asset.votes.values() if vote.live]
        if asset.state is None:
            self._judge_first(asset, live)
        elif self.scenario.life_cycle:
            self._follow(asset, live, at)
        else:
            self._weigh(asset, asset.state, live, at, up=up, down=down)
            if up or down:
                self._end_waits(asset, at)

    def _judge_first(self, asset: Asset, live: list[Vote]) -> None:
        asset.waits = {}
        if live:
            asset.state = tally(self.scenario, live, None)

    def _follow(self, asset: Asset, live: list[Vote], at: int) -> None:
        """In a life cycle no state is worse than another: what the votes make is what is next."""
        if len(live) < self.scenario.min_voters:
            asset.waits = {}
            return
        target = tally(self.scenario, live, asset.state)
        if target == asset.state:
            asset.waits = {}
        elif not self.scenario.hold(target):
            asset.state, asset.waits = target, {}
        elif target not in asset.waits:
            asset.waits = {target: at}

    def _weigh(
        self, asset: Asset, state: str, live: list[Vote], at: int, *, up: bool, down: bool
    ) -> None:
        """Begin and break off waits for worse and for milder states."""
        here = self._rank(state)
        if not live:  # silence ends no wait for a worse state
            asset.waits = {each: t for each, t in asset.waits.items() if self._rank(each) < here}
            return
        silent = [v for v in asset.votes.values() if v.silent is not None and v.counts]
        raised = tally(self.scenario, live, state)
        low = lowered(self.scenario, live, silent, state, raised)
        rising, falling = self._split(asset.waits, here)
        if up or down:
            rising = {each: t for each, t in rising.items() if self._rank(each) >= self._rank(low)}
        if up and len(live) >= self.scenario.raise_voters:
            for rank in range(self._rank(raised), here):
                rising.setdefault(self.scenario.states[rank].name, at)
        falls = not rising and len(live) >= self.scenario.min_voters
        falling = self._fall(falling, low, here, at, begin=down) if falls else {}
        asset.waits = {**rising, **falling}

    def _split(self, waits: dict[str, int], here: int) -> tuple[dict[str, int], dict[str, int]]:
        """The waits for worse and for milder states than the one of rank `here`."""
        rising = {state: at for state, at in waits.items() if self._rank(state) < here}
        return rising, {state: at for state, at in waits.items() if self._rank(state) > here}

    def _fall(
        self, falling: dict[str, int], low: str, here: int, at: int, *, begin: bool
    ) -> dict[str, int]:
        """The waits for milder states, where `low` is the mildest that votes bear out.

        A wait for `low` is as old as one for a milder state that it takes the place of: all that
        time the votes bore out at least this.
        """
        rank = self._rank(low)
        left = {state: since for state, since in falling.items() if self._rank(state) <= rank}
        if begin and rank > here:
            milder = [since for state, since in falling.items() if self._rank(state) > rank]
            left.setdefault(low, min([at, *milder]))
        return left

    def _end_waits(self, asset: Asset, at: int) -> None:
        """Let the waits that are over by `at` ms bring their states."""
        while (target := self._ended(asset, at)) is not None:
            to, here = self._rank(target), self._rank(asset.state or "")
            asset.state = target
            asset.waits = {
                state: since
                for state, since in asset.waits.items()
                if (self._rank(state) < to if to < here else self._rank(state) > to)
            }

    def _ended(self, asset: Asset, at: int) -> str | None:
        """Of the waits that are over the one that counts: the worst for a worse state, else the
        mildest."""
        over = [
            state for state, since in asset.waits.items() if since + self.scenario.hold(state) <= at
        ]
        here = self._rank(asset.state or "")
        worse = [state for state in over if self._rank(state) < here]
        if worse:
            return min(worse, key=self._rank)
        return max(over, key=self._rank, default=None)

    def _fallen_silent(self, vote: Vote, since: int) -> Vote | None:
        """What is kept of a vote that is not live any more; None: nothing."""
        kept = vote.muted is None and not vote.agent.startswith(USER_PREFIX)
        if not kept or self.scenario.forget_delay is None:
            return None
        return replace(vote, silent=since)

    # ---- time -----------------------------------------------------------------------------

    def _pass_time(self) -> None:
        while (entry := self.dues.pop(self.clock)) is not None:
            name = entry[1]
            asset = self.assets[name]
            due = next_due(asset, self.scenario)
            if due is not None:
                self._fire(name, asset, due, due.time)

    def _fire(self, name: str, asset: Asset, due: Due, at: int) -> None:
        """Let one thing that is due happen, as of `at` ms."""
        if due.order == due_kinds.FORGET:
            del self.assets[name]
            self.dues.set(name, None)
            return
        before = _Before.of(asset, self.scenario)
        asset.step += 1
        cause = self._cause_of_time(asset, due, at)
        match due.order:
            case due_kinds.OVERRIDE_END:
                asset.override = None
            case due_kinds.VOTE_EXPIRY:
                self._expire(asset, due.time, due.time)
                self._judge(asset, at)
            case due_kinds.VOTE_FORGOTTEN:
                gone = self._forgotten(asset, due.time)
                asset.votes = {name: v for name, v in asset.votes.items() if name not in gone}
                self._judge(asset, at)
                self._drop_unknown(asset, at)
            case due_kinds.MUTE_END:
                for agent in self._unmuted(asset, due.time):
                    self._put_mark(asset, agent, None)
                self._judge(asset, at, up=True, down=True)
            case due_kinds.HOLD:
                self._end_waits(asset, at)
            case due_kinds.REMINDER:
                cause = self._remind(asset, due, at, cause)
            case due_kinds.PURGE_AFTER:
                asset.clear(at)
        self._finish(name, asset, before, cause, cause.time, forced=True)

    def _expire(self, asset: Asset, upto: int, since: int) -> None:
        """Have the votes that live no longer than `upto` ms be silent since `since`, or gone."""
        kept = {}
        for agent, vote in asset.votes.items():
            if vote.silent is not None or vote.expires is None or vote.expires > upto:
                kept[agent] = vote
            elif (silent := self._fallen_silent(vote, since)) is not None:
                kept[agent] = silent
        asset.votes = kept

    @staticmethod
    def _drop_unknown(asset: Asset, at: int) -> None:
        """Purge an asset that nothing ever tallied, once the last that was said of it is gone."""
        if asset.state is None and asset.override is None and not asset.votes:
            asset.clear(at)

    @staticmethod
    def _expiring(asset: Asset, upto: int) -> list[str]:
        return [
            vote.agent
            for vote in asset.votes.values()
            if vote.silent is None and vote.expires is not None and vote.expires <= upto
        ]

    def _forgotten(self, asset: Asset, upto: int) -> list[str]:
        delay = self.scenario.forget_delay or 0
        return [
            vote.agent
            for vote in asset.votes.values()
            if vote.silent is not None and vote.silent + delay <= upto
        ]

    @staticmethod
    def _unmuted(asset: Asset, upto: int) -> list[str]:
        return [
            vote.agent
            for vote in asset.votes.values()
            if vote.muted is not None and vote.muted.until is not None and vote.muted.until <= upto
        ]

    def _remind(self, asset: Asset, due: Due, at: int, cause: Cause) -> Cause:
        """One record for all reminders that are due before anything else of this asset is."""
        every = self.scenario.reminder(asset.shown or "") or 1
        others = [d for d in all_dues(asset, self.scenario) if d.order != due_kinds.REMINDER]
        missed = (self.clock - due.time) // every
        if others:
            first = min(others)
            spare = -1 if first.order < due_kinds.REMINDER else 0
            missed = min(missed, (first.time - due.time + spare) // every)
        asset.step += missed
        asset.reminded = due.time + missed * every
        return cause if at > due.time else replace(cause, time=asset.reminded)

    def _cause_of_time(self, asset: Asset, due: Due, at: int) -> Cause:
        pinned = asset.override if due.order == due_kinds.OVERRIDE_END else None
        agent = _only(self._agents_of(asset, due))
        muted = asset.votes[agent].muted if agent and due.order == due_kinds.MUTE_END else None
        ended = pinned or muted
        return Cause(
            type=due.type,
            partition=self.partition,
            offset=asset.offset,
            time=at,
            agent=agent,
            user=ended.user if ended else None,
            command=pinned.command if pinned else None,
        )

    def _agents_of(self, asset: Asset, due: Due) -> list[str]:
        """The agents of which something is due."""
        match due.order:
            case due_kinds.VOTE_EXPIRY:
                return self._expiring(asset, due.time)
            case due_kinds.VOTE_FORGOTTEN:
                return self._forgotten(asset, due.time)
            case due_kinds.MUTE_END:
                return self._unmuted(asset, due.time)
        return []

    # ---- a change of rule -----------------------------------------------------------------

    def _stop(self, record: UnknownFold) -> None:
        if record.scenario == self.scenario.name:
            raise UnknownFoldVersion(record.scenario, record.fold)
        self._out.append(DeadLetter("bad-scenario"))

    def _switch(self, scenario: Scenario) -> None:
        if scenario.name != self.scenario.name:
            self._out.append(DeadLetter("bad-scenario"))
            return
        if scenario == self.scenario:
            return
        former, self.scenario = self.scenario, scenario
        cause = self._cause("scenario")
        for name in sorted(self.assets):
            asset = self.assets[name]
            if asset.shown is not None:
                before = self._begin(asset, former)
                self._adopt(asset, former)
                self._finish(name, asset, before, cause, self.clock)
                self._catch_up(name)

    def _adopt(self, asset: Asset, former: Scenario) -> None:
        """Put what the asset holds under the new rule.

        First the votes as they were, newly weighed, are evidence; then their lifetimes count anew,
        and what that ends is silence.
        """
        rule = self.scenario
        asset.votes = {
            agent: replace(vote, weight=self._weight(agent))
            for agent, vote in asset.votes.items()
            if rule.knows(vote.state)
        }
        if asset.override is not None and not rule.knows(asset.override.state):
            asset.override = None
        asset.waits = _waits_under(rule, former, asset)
        self._judge(asset, self.clock, up=True, down=True)
        asset.votes = dict(self._aged(asset.votes.values()))
        self._expire(asset, self.clock, self.clock)
        self._judge(asset, self.clock)

    def _aged(self, votes: Iterable[Vote]) -> Iterable[tuple[str, Vote]]:
        """The votes with the lifetime that the rule gives them; silent ones where they are kept."""
        lifetime = self.scenario.vote_lifetime
        for vote in votes:
            if vote.silent is not None:
                if self._fallen_silent(vote, vote.silent) is not None:
                    yield vote.agent, vote
                continue
            expires = None if lifetime is None else vote.time + lifetime - vote.age
            yield vote.agent, replace(vote, expires=expires)

    def _catch_up(self, name: str) -> None:
        """What the new rule would have made happen already happens now."""
        while (asset := self.assets.get(name)) is not None:
            due = next_due(asset, self.scenario)
            if due is None or due.time > self.clock:
                return
            self._fire(name, asset, due, self.clock)

    # ---- mutes ----------------------------------------------------------------------------

    def _mute(self, mute: Mute) -> None:
        if mute.until is not None and mute.until <= self.clock:
            self._out.append(DeadLetter("bad-time"))
            return
        if mute.agent not in self.mutes and len(self.mutes) >= MAX_MUTED:
            self._out.append(DeadLetter("too-many-mutes"))
            return
        self.mutes[mute.agent] = mute
        self._mark_anew(mute.agent, self._cause_of_mute("mute", mute))

    def _unmute(self, unmute: Unmute) -> None:
        if self.mutes.pop(unmute.agent, None) is not None:
            self._mark_anew(unmute.agent, self._cause_of_mute("unmute", unmute))

    def _cause_of_mute(self, type_: str, record: Mute | Unmute) -> Cause:
        return self._cause(type_, agent=record.agent, user=record.user, command=record.id)

    def _mark_anew(self, agent: str, cause: Cause) -> None:
        """Tally every asset on which this agent votes, where the vote counts otherwise now."""
        mark = self._mark(agent)
        for name in sorted(self.assets):
            asset = self.assets[name]
            vote = asset.votes.get(agent)
            if vote is not None and vote.muted != mark:
                before = self._begin(asset)
                self._put_mark(asset, agent, mark)
                self._judge(asset, self.clock, up=True, down=mark is None)
                self._finish(name, asset, before, cause, self.clock)

    def _put_mark(self, asset: Asset, agent: str, mark: Muted | None) -> None:
        """Mark a vote, or unmark it; what a silent agent said last goes once it is muted."""
        vote = asset.votes[agent]
        if mark is not None and vote.silent is not None:
            del asset.votes[agent]
            return
        weight = self.scenario.weight(agent) if mark is None else 0
        asset.votes[agent] = replace(vote, weight=weight, muted=mark)

    def _mark(self, agent: str) -> Muted | None:
        mute = self.mutes.get(agent)
        return None if mute is None else Muted(mute.until, mute.user)

    def _weight(self, agent: str) -> int:
        return 0 if agent in self.mutes else self.scenario.weight(agent)

    def _drop_ended(self) -> None:
        """Forget mutes that are over: the dues have unmarked their votes."""
        for mute in list(self.mutes.values()):
            if mute.until is not None and mute.until <= self.clock:
                del self.mutes[mute.agent]

    # ---- before and after an event --------------------------------------------------------

    def _begin(self, asset: Asset, scenario: Scenario | None = None) -> _Before:
        """scenario: the rule in force before the event, where it is another."""
        before = _Before.of(asset, scenario or self.scenario)
        asset.offset, asset.step = self.offset, 0
        return before

    def _finish(
        self,
        name: str,
        asset: Asset,
        before: _Before,
        cause: Cause,
        at: int,
        answer: Answer | None = None,
        *,
        forced: bool = False,
    ) -> None:
        """Bring what is shown up to date, emit if that is called for, and keep asset and due."""
        self._show(asset, before, at)
        refresh = cause.type == "report" and at - asset.emitted_at >= REFRESH_AFTER
        if answer is not None or forced or refresh or before.differs(asset, self.scenario):
            asset.emitted_at = at
            self._out.append(self._emission(name, asset, cause, answer))
        self.live += (asset.shown is not None) - (before.shown is not None)
        self._keep(name, asset, at)

    def _show(self, asset: Asset, before: _Before, at: int) -> None:
        if asset.override is not None and asset.override.underlying != asset.state:
            asset.override = replace(asset.override, underlying=asset.state)
        asset.show()
        self._put_marks(asset)
        if asset.shown != before.shown:
            asset.previous = before.shown
            asset.since = asset.reminded = at
        if not before.looked_at(asset, self.scenario):
            asset.changed = (asset.offset, asset.step)

    def _put_marks(self, asset: Asset) -> None:
        """Say whether the tallied state is confirmed, and whether somebody disputes what shows."""
        if asset.shown is None:
            return
        votes, falling = asset.votes.values(), asset.falling(self.scenario)
        asset.unconfirmed = unconfirmed_reason(self.scenario, votes, asset.state, falling=falling)
        asset.disputed = disputed(self.scenario, votes, asset.shown)

    def _keep(self, name: str, asset: Asset, at: int) -> None:
        if asset.shown is not None:
            asset.forget_at = None
        elif asset.answers or asset.purged_at is not None:
            asset = asset.trace(at, self.scenario)
        else:
            self.assets.pop(name, None)
            self.dues.set(name, None)
            return
        self.assets[name] = asset
        due = next_due(asset, self.scenario)
        self.dues.set(name, due.time if due else None)

    def _emission(
        self, name: str, asset: Asset, cause: Cause, answer: Answer | None
    ) -> StateRecord | Tombstone:
        version = Version(self.epoch, asset.offset, asset.step)
        if asset.shown is None:
            return Tombstone(name, version, cause, answer)
        return StateRecord(
            asset=name,
            state=asset.shown,
            previous=asset.previous,
            since=asset.since,
            unconfirmed=asset.unconfirmed is not None,
            version=version,
            cause=cause,
            votes=tuple(asset.votes[agent] for agent in sorted(asset.votes)),
            pending=asset.pending(self.scenario),
            override=asset.override,
            answer=answer,
            unconfirmed_reason=asset.unconfirmed,
            disputed=asset.disputed,
        )

    def _cause(
        self,
        type_: str,
        *,
        agent: str | None = None,
        user: str | None = None,
        command: str | None = None,
    ) -> Cause:
        return Cause(type_, self.partition, self.offset, self.clock, agent, user, command)


def _standing(vote: Vote) -> int:
    """How much a vote counts: nothing, as a silent one, or as a live one."""
    return 0 if not vote.counts else 1 if vote.silent is not None else 2


def _only(agents: list[str]) -> str | None:
    return agents[0] if len(agents) == 1 else None


def _waits_under(rule: Scenario, former: Scenario, asset: Asset) -> dict[str, int]:
    """The waits that go on under another rule: for what it knows, and still is as much worse or
    milder than the state as it was."""
    if rule.life_cycle != former.life_cycle or asset.state is None:
        return {}
    here = asset.state
    return {
        state: since
        for state, since in asset.waits.items()
        if rule.knows(state)
        and (rule.life_cycle or _worse(rule, state, here) == _worse(former, state, here))
    }


def _worse(rule: Scenario, state: str, here: str) -> bool:
    return rule.severity(state) < rule.severity(here)
