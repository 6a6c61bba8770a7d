"""The fold: one source partition's records, in offset order, into the state of its assets.

This is the specification of the product: the board is a pure function of the log. Nothing in here
reads a clock; time is the broker's append time of the records.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, MutableMapping
from dataclasses import dataclass, replace

from domain import asset as due_kinds
from domain.asset import Asset, Due, all_dues, next_due
from domain.dues import DueIndex, Dues
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
    Unmute,
    Unreadable,
    Vote,
)
from domain.scenario import Scenario
from domain.tally import tally
from domain.version import Version

REFRESH_AFTER = 30_000
"""A report that changes nothing visible is emitted when the last emission is this old, ms."""


@dataclass(frozen=True, slots=True)
class _Before:
    """What was visible of an asset before an event."""

    shown: str | None
    pending: Pending | None
    override: Override | None
    unconfirmed: bool
    votes: dict[str, Vote]

    @classmethod
    def of(cls, asset: Asset) -> _Before:
        votes = dict(asset.votes)
        return cls(asset.shown, asset.pending, asset.override, asset.unconfirmed, votes)

    def differs(self, asset: Asset) -> bool:
        """Whether anything visible of the asset is another than it was."""
        return (
            self.shown != asset.shown
            or self.unconfirmed != asset.unconfirmed
            or self.pending != asset.pending
            or self.override != asset.override
            or self._votes_differ(asset.votes)
        )

    def _votes_differ(self, votes: dict[str, Vote]) -> bool:
        return self.votes.keys() != votes.keys() or any(
            vote is not votes[agent] and vote.shown() != votes[agent].shown()
            for agent, vote in self.votes.items()
        )


class Bucket:
    """All assets of one source partition, and the fold over its log.

    `assets` and `dues` may be given, so that a state store can stand behind them; `live` is then
    the number of assets in it that exist; `mutes` are those in force. The same records at the same
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
        self.stale_reports = 0
        self.late_reports = 0
        self._out: list[Emission] = []

    def apply(self, record: Record, offset: int, time: int) -> list[Emission]:
        """Apply the record at `offset`, appended by the broker at `time` ms.

        What is due at or before that time comes first. Returns what is to be emitted, in order.
        """
        self._out = []
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
            case Tick():
                pass
            case Command():
                self._command(record)
            case ScenarioChange():
                self._switch(record.scenario)
            case Mute():
                self._mute(record)
            case Unmute():
                self._unmute(record)
            case Refusal():
                self._refuse(record)
            case Unreadable():
                self._out.append(DeadLetter(record.reason))

    # ---- reports --------------------------------------------------------------------------

    def _report(self, report: Report) -> None:
        if not self.scenario.knows(report.state):
            self._out.append(DeadLetter("unknown-state"))
            return
        reported_at = self.clock if report.reported_at is None else report.reported_at
        asset = self.assets.get(report.asset)
        if self._too_old(reported_at) or self._too_late(asset, report.agent, reported_at):
            return
        if report.agent in self.mutes and (asset is None or asset.shown is None):
            return
        asset = asset or Asset()
        if not _has_room(asset, report.agent):
            self._out.append(DeadLetter("too-many-agents"))
            return
        before = self._begin(asset)
        self._vote(asset, report.agent, report.state, reported_at, report.detail)
        cause = self._cause("report", agent=report.agent)
        self._finish(report.asset, asset, before, cause, self.clock)

    def _too_old(self, reported_at: int) -> bool:
        limit = self.scenario.max_report_age
        stale = limit is not None and self.clock - reported_at > limit
        self.stale_reports += stale
        return stale

    def _too_late(self, asset: Asset | None, agent: str, reported_at: int) -> bool:
        vote = asset.votes.get(agent) if asset else None
        late = vote is not None and reported_at < vote.reported_at
        self.late_reports += late
        return late

    def _vote(
        self, asset: Asset, agent: str, state: str, reported_at: int, detail: str | None
    ) -> None:
        lifetime = self.scenario.vote_lifetime
        asset.votes[agent] = Vote(
            agent=agent,
            state=state,
            reported_at=reported_at,
            time=self.clock,
            offset=self.offset,
            expires=None if lifetime is None else self.clock + lifetime,
            weight=self._weight(agent),
            detail=detail,
            muted=self._mark(agent),
        )
        self._settle(asset, self.clock)

    # ---- commands -------------------------------------------------------------------------

    def _command(self, command: Command) -> None:
        asset = self.assets.get(command.asset) or Asset()
        before = self._begin(asset)
        outcome = asset.answer_to(command.id)
        if outcome is None:
            refusal = self._refusal(command, asset)
            outcome = refusal if refusal is not None else self._carry_out(command, asset)
        self._answer(command.asset, asset, before, command.kind, command, outcome)

    def _refuse(self, refusal: Refusal) -> None:
        asset = self.assets.get(refusal.asset) or Asset()
        before = self._begin(asset)
        outcome = asset.answer_to(refusal.id) or REFUSED + refusal.reason
        self._answer(refusal.asset, asset, before, "refused", refusal, outcome)

    def _answer(
        self,
        name: str,
        asset: Asset,
        before: _Before,
        kind: str,
        command: Command | Refusal,
        outcome: str,
    ) -> None:
        answer = Answer(command.id, outcome)
        asset.remember(answer)
        cause_type = "refused" if outcome.startswith(REFUSED) else kind
        cause = self._cause(cause_type, user=command.user, command=command.id)
        self._finish(name, asset, before, cause, self.clock, answer)

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
        if command.kind == "vote" and not _has_room(asset, USER_PREFIX + command.user):
            return REFUSED + "too many agents"
        return None

    def _carry_out(self, command: Command, asset: Asset) -> str:
        match command.kind:
            case "set":
                return self._set(command, asset)
            case "vote":
                self._vote(asset, USER_PREFIX + command.user, command.state or "", self.clock, None)
                return APPLIED
            case "release":
                return self._release(command, asset)
            case "purge":
                return self._purge(asset)

    def _set(self, command: Command, asset: Asset) -> str:
        pinned = Override(
            state=command.state or "",
            until=command.until,
            user=command.user,
            reason=command.reason,
            command=command.id,
            since=self.clock,
        )
        if asset.override is not None and _same_pin(asset.override, pinned):
            return NO_CHANGE
        asset.override = pinned
        asset.unconfirmed = self._is_unconfirmed(asset)
        return APPLIED

    def _release(self, command: Command, asset: Asset) -> str:
        vote = asset.votes.pop(USER_PREFIX + command.user, None)
        if asset.override is None and vote is None:
            return NO_CHANGE
        self._unpin(asset)
        if vote is not None:
            self._settle(asset, self.clock)
        return APPLIED

    def _purge(self, asset: Asset) -> str:
        if asset.shown is None:
            return NO_CHANGE
        _clear(asset)
        return APPLIED

    @staticmethod
    def _unpin(asset: Asset) -> None:
        if asset.override is not None and asset.state is None:
            asset.state = asset.override.state
        asset.override = None

    # ---- the tally ------------------------------------------------------------------------

    def _counted(self, asset: Asset) -> Collection[Vote]:
        """The live votes whose agents are not muted."""
        votes = asset.votes.values()
        return [vote for vote in votes if vote.muted is None] if self.mutes else votes

    def _is_unconfirmed(self, asset: Asset) -> bool:
        return len(self._counted(asset)) < self.scenario.min_voters

    def _settle(self, asset: Asset, at: int) -> None:
        """Tally the live votes at `at` ms, and let holds decide whether that is the state."""
        votes = self._counted(asset)
        asset.unconfirmed = len(votes) < self.scenario.min_voters
        if asset.state is None and votes:
            asset.state = tally(self.scenario, votes, None)
        elif asset.unconfirmed or asset.state is None:
            asset.pending = None
        else:
            self._aim(asset, tally(self.scenario, votes, asset.state), at)

    def _aim(self, asset: Asset, target: str, at: int) -> None:
        hold = self.scenario.hold(target)
        if target == asset.state:
            asset.pending = None
        elif hold == 0:
            asset.state, asset.pending = target, None
        elif asset.pending is None or asset.pending.state != target:
            asset.pending = Pending(target, at, at + hold)

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
        before = _Before.of(asset)
        asset.step += 1
        cause = self._cause_of_time(asset, due, at)
        match due.order:
            case due_kinds.OVERRIDE_END:
                self._unpin(asset)
            case due_kinds.VOTE_EXPIRY:
                del asset.votes[due.agent]
                self._settle(asset, at)
            case due_kinds.MUTE_END:
                self._put_mark(asset, due.agent, None)
                self._settle(asset, at)
            case due_kinds.HOLD if asset.pending is not None:
                asset.state, asset.pending = asset.pending.state, None
            case due_kinds.REMINDER:
                cause = self._remind(asset, due, at, cause)
            case due_kinds.PURGE_AFTER:
                _clear(asset)
        self._finish(name, asset, before, cause, cause.time, forced=True)

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
        muted = asset.votes[due.agent].muted if due.order == due_kinds.MUTE_END else None
        ended = pinned or muted
        return Cause(
            type=due.type,
            partition=self.partition,
            offset=asset.offset,
            time=at,
            agent=due.agent or None,
            user=ended.user if ended else None,
            command=pinned.command if pinned else None,
        )

    # ---- a change of rule -----------------------------------------------------------------

    def _switch(self, scenario: Scenario) -> None:
        if scenario.name != self.scenario.name:
            self._out.append(DeadLetter("bad-scenario"))
            return
        if scenario == self.scenario:
            return
        self.scenario = scenario
        cause = self._cause("scenario")
        for name in sorted(self.assets):
            asset = self.assets[name]
            if asset.shown is not None:
                before = self._begin(asset)
                self._adopt(asset)
                self._finish(name, asset, before, cause, self.clock)
                self._catch_up(name)

    def _adopt(self, asset: Asset) -> None:
        """Put what the asset holds under the new rule: weights, ends, words it no longer has."""
        rule = self.scenario
        lifetime = rule.vote_lifetime
        asset.votes = {
            agent: replace(
                vote,
                weight=self._weight(agent),
                expires=None if lifetime is None else vote.time + lifetime,
            )
            for agent, vote in asset.votes.items()
            if rule.knows(vote.state)
        }
        if asset.override is not None and not rule.knows(asset.override.state):
            self._unpin(asset)
        if asset.pending is not None:
            held = asset.pending
            due = held.since + rule.hold(held.state)
            asset.pending = replace(held, due=due) if rule.knows(held.state) else None
        self._settle(asset, self.clock)

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
                self._settle(asset, self.clock)
                self._finish(name, asset, before, cause, self.clock)

    def _put_mark(self, asset: Asset, agent: str, mark: Muted | None) -> None:
        weight = self.scenario.weight(agent) if mark is None else 0
        asset.votes[agent] = replace(asset.votes[agent], weight=weight, muted=mark)

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

    def _begin(self, asset: Asset) -> _Before:
        before = _Before.of(asset)
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
        """Bring `shown` up to date, emit if that is called for, and keep asset and due."""
        self._show(asset, before, at)
        refresh = cause.type == "report" and at - asset.emitted_at >= REFRESH_AFTER
        if answer is not None or forced or refresh or before.differs(asset):
            asset.emitted_at = at
            self._out.append(self._emission(name, asset, cause, answer))
        self.live += (asset.shown is not None) - (before.shown is not None)
        self._keep(name, asset, at)

    def _show(self, asset: Asset, before: _Before, at: int) -> None:
        if asset.override is not None and asset.override.underlying != asset.state:
            asset.override = replace(asset.override, underlying=asset.state)
        asset.shown = asset.override.state if asset.override else asset.state
        if asset.shown != before.shown:
            asset.previous = before.shown
            asset.since = asset.reminded = at
        if (asset.shown, asset.pending, asset.override) != (
            before.shown,
            before.pending,
            before.override,
        ):
            asset.changed = (asset.offset, asset.step)

    def _keep(self, name: str, asset: Asset, at: int) -> None:
        if asset.shown is None:
            if not asset.answers:
                self.assets.pop(name, None)
                self.dues.set(name, None)
                return
            asset = asset.gone(at)
        else:
            asset.forget_at = None
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
            unconfirmed=asset.unconfirmed,
            version=version,
            cause=cause,
            votes=tuple(asset.votes[agent] for agent in sorted(asset.votes)),
            pending=asset.pending,
            override=asset.override,
            answer=answer,
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


def _has_room(asset: Asset, agent: str) -> bool:
    return agent in asset.votes or len(asset.votes) < MAX_VOTERS


def _same_pin(old: Override, new: Override) -> bool:
    return (old.state, old.until, old.user, old.reason) == (
        new.state,
        new.until,
        new.user,
        new.reason,
    )


def _clear(asset: Asset) -> None:
    asset.state = asset.pending = asset.override = None
    asset.votes = {}
