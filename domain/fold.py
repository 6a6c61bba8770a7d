"""The fold: one source partition's records, in offset order, into the state of its assets.

This is the specification of the product: the board is a pure function of the log. Nothing in here
reads a clock; time is the broker's append time of the records.
"""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping
from dataclasses import replace

from domain import asset as timer_kinds
from domain import commands, tally, tasks, timers, transitions, votes
from domain.adoption import adopt
from domain.asset import Answered, Asset, Timer, View, next_timer
from domain.lateness import Lateness, LatenessCounts
from domain.mutes import Mutes
from domain.names import USER_PREFIX
from domain.records import (
    APPLIED,
    REFUSED,
    Answer,
    Cause,
    Command,
    DeadLetter,
    Emission,
    Leave,
    Mute,
    Record,
    Refusal,
    Report,
    ScenarioChange,
    Tick,
    UnknownFold,
    Unmute,
    Unreadable,
    Unsigned,
    Vote,
)
from domain.scenario import FOLD, Scenario
from domain.timer_index import TimerHeap, TimerIndex

# A report that changes nothing visible is emitted when the last emission is this old, ms.
REFRESH_AFTER = 30_000


class UnknownFoldVersion(Exception):
    """The log needs a version of the fold that is not known here."""

    def __init__(self, scenario: str, fold: int) -> None:
        super().__init__(
            f"UnknownFoldVersion: the log of {scenario} needs version {fold} of the fold, "
            f"and this release knows {FOLD}: run a newer release"
        )


class Bucket:
    """All assets of one source partition, and the fold over its log.

    `assets` and `timer_index` may be given, so that a state store can be behind them; `live` is
    then the number of assets in it that exist; `mutes` are those in force; `lateness` is what has
    been counted of late reports and not been reported yet. The same records at the same offsets
    and times give the same emissions, however they are cut into batches.
    """

    def __init__(
        self,
        scenario: Scenario,
        partition: int,
        epoch: int,
        assets: MutableMapping[str, Asset] | None = None,
        timer_index: TimerIndex | None = None,
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
        self.timer_index: TimerIndex = TimerHeap() if timer_index is None else timer_index
        self.clock = clock
        self.offset = offset
        self.live = live
        self.mutes = Mutes((mute.agent, mute) for mute in mutes)
        self.lateness = LatenessCounts(lateness)
        self._time = clock
        self._out: list[Emission] = []

    def apply(self, record: Record, offset: int, time: int) -> list[Emission]:
        """Apply the record at `offset`, appended by the broker at `time` ms.

        Timers up to that time fire first. Returns what is to be emitted, in order.
        Raises UnknownFoldVersion.
        """
        self._out = []
        self._time = time
        self.clock = max(self.clock, time)
        self.offset = offset
        self._pass_time()
        if self.mutes:
            self.mutes.drop_ended(self.clock)
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
        if not votes.make_room(self.scenario, asset, vote):
            self._out.append(DeadLetter("too-many-agents"))
            return
        before = self._begin(asset)
        self._vote(asset, vote)
        if self.scenario.tasks and vote.live:
            tasks.reported(self.scenario, asset, vote.state, self.clock)
        cause = self._cause("report", agent=report.agent)
        self._finish(report.asset, asset, before, cause, self.clock)

    def _vote_of(self, report: Report) -> Vote:
        at = report.reported_at
        age = 0 if at is None else max(0, self._time - at)
        lifetime = self.scenario.vote_lifetime
        expires = None if lifetime is None else self.clock + lifetime - age
        muted = self.mutes.mark(report.agent)
        return Vote(
            agent=report.agent,
            state=report.state,
            reported_at=self.clock if at is None else at,
            time=self.clock,
            offset=self.offset,
            expires=expires,
            weight=self.scenario.weight(report.agent) if muted is None else 0,
            detail=report.detail,
            muted=muted,
            silent=expires if lifetime is not None and age >= lifetime else None,
            order=self._order(at),
            age=age,
        )

    def _order(self, reported_at: int | None) -> int:
        """Return the time that orders an agent's report, Unix ms.

        The agent's clock makes nothing later.
        """
        return self._time if reported_at is None else min(reported_at, self._time)

    def _is_late(self, asset: Asset | None, vote: Vote) -> bool:
        """Return whether a report comes too late to be looked at; late ones are counted.

        One that does not say when it was made never does: it is as new as its place in the log.
        """
        limit = self.scenario.report_age_limit
        kept = votes.fallen_silent(self.scenario, vote, vote.time) is not None
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
        """Return whether a record is older than its agent's newest, or than the asset's purge.

        A purge later than now is of a clock that was ahead, and says nothing.
        """
        newest = asset.votes.get(agent)
        if newest is not None and order < newest.order:
            return True
        return asset.purged_at is not None and order < asset.purged_at <= self._time

    def _vote(self, asset: Asset, vote: Vote) -> None:
        former = asset.votes.get(vote.agent)
        if former is not None and former.silent is not None and vote.live:
            self.lateness.add(vote.agent, "rare")
        asset.votes[vote.agent] = vote
        if not vote.counts:
            return
        milder = asset.state is not None and self.scenario.severity(
            vote.state
        ) > self.scenario.severity(asset.state)
        transitions.judge(self.scenario, asset, self.clock, up=vote.live, down=vote.live and milder)

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
        transitions.judge(self.scenario, asset, self.clock)
        asset.drop_unknown(self._time)
        cause = self._cause("leave", agent=leave.agent)
        self._finish(leave.asset, asset, before, cause, self.clock)

    # ---- commands -------------------------------------------------------------------------

    def _command(self, command: Command) -> None:
        asset = self.assets.get(command.asset) or Asset()
        before = self._begin(asset)
        answered = asset.answered(command.id)
        if answered is None:
            outcome = self._outcome(command, asset)
            cause = "refused" if outcome.startswith(REFUSED) else commands.cause_of(command.kind)
            answered = Answered(command.id, outcome, cause, command.user)
        self._answer(command.asset, asset, before, answered)

    def _refuse(self, refusal: Refusal) -> None:
        asset = self.assets.get(refusal.asset) or Asset()
        before = self._begin(asset)
        refused = Answered(refusal.id, REFUSED + refusal.reason, "refused", refusal.user)
        self._answer(refusal.asset, asset, before, asset.answered(refusal.id) or refused)

    def _answer(self, name: str, asset: Asset, before: View, answered: Answered) -> None:
        """Answer a command; one that comes again is answered as it was the first time."""
        asset.remember(answered)
        cause = self._cause(answered.cause, user=answered.user, command=answered.command)
        self._finish(name, asset, before, cause, self.clock, answered.answer)

    def _outcome(self, command: Command, asset: Asset) -> str:
        refused = commands.refusal(self.scenario, command, asset, self.clock)
        refused = refused or tasks.refusal(self.scenario, command, asset, self.clock)
        if refused is not None:
            return REFUSED + refused
        match command.kind:
            case "set":
                return commands.pin(command, asset, self.clock)
            case "vote":
                return self._vote_by_hand(command, asset)
            case "release":
                return commands.release(self.scenario, asset, command.user, self.clock)
            case "purge":
                return commands.purge(asset, self._time)
            case "schedule":
                return tasks.schedule(command, asset, self.clock)
            case "cancel":
                return tasks.cancel(command, asset)

    def _vote_by_hand(self, command: Command, asset: Asset) -> str:
        agent = USER_PREFIX + command.user
        vote = self._vote_of(Report(command.asset, agent, command.state or ""))
        if not votes.make_room(self.scenario, asset, vote):
            return REFUSED + "too many agents"
        self._vote(asset, vote)
        return APPLIED

    # ---- time -----------------------------------------------------------------------------

    def _pass_time(self) -> None:
        while (entry := self.timer_index.pop(self.clock)) is not None:
            name = entry[1]
            asset = self.assets[name]
            timer = next_timer(asset, self.scenario)
            if timer is not None:
                self._fire(name, asset, timer, timer.time)

    def _fire(self, name: str, asset: Asset, timer: Timer, at: int) -> None:
        """Fire one timer, as of `at` ms."""
        if timer.order == timer_kinds.FORGET:
            del self.assets[name]
            self.timer_index.set(name, None)
            return
        before = View.of(asset, self.scenario)
        if timers.recurs(asset, timer):
            cause = self._recur(asset, timer, at)
        else:
            asset.step += 1
            cause = timers.cause(self.scenario, asset, timer, at, self.partition)
            timers.carry_out(self.scenario, asset, timer, at)
        self._finish(name, asset, before, cause, cause.time, forced=True)

    def _recur(self, asset: Asset, timer: Timer, at: int) -> Cause:
        """Count what recurs without an effect; returns the cause of what is heard of."""
        heard = timers.recur(self.scenario, asset, self.clock, at)
        time = at if at > timer.time else heard.time
        return timers.cause_of_recurrence(asset, heard, time, self.partition)

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
        self._change_all(self._cause("scenario"), former)

    def _change_all(self, cause: Cause, former: Scenario) -> None:
        for name in sorted(self.assets):
            self._put_under(name, cause, former)

    def _put_under(self, name: str, cause: Cause, former: Scenario) -> None:
        """Put an asset under a changed rule, or mark an agent's vote on it again."""
        asset = self.assets[name]
        if asset.shown is None:
            return
        if cause.agent is not None:
            self._mark_anew(name, asset, cause.agent, cause)
            return
        before = self._begin(asset, former)
        adopt(self.scenario, former, self.mutes, asset, self.clock)
        self._finish(name, asset, before, cause, self.clock)
        self._catch_up(name)

    def _catch_up(self, name: str) -> None:
        """Let happen now what the new rule would have made happen already."""
        while (asset := self.assets.get(name)) is not None:
            timer = next_timer(asset, self.scenario)
            if timer is None or timer.time > self.clock:
                return
            self._fire(name, asset, timer, self.clock)

    # ---- mutes ----------------------------------------------------------------------------

    def _mute(self, mute: Mute) -> None:
        if mute.until is not None and mute.until <= self.clock:
            self._out.append(DeadLetter("bad-time"))
            return
        if not self.mutes.has_room(mute.agent):
            self._out.append(DeadLetter("too-many-mutes"))
            return
        self.mutes[mute.agent] = mute
        self._change_all(self._cause_of_mute("mute", mute), self.scenario)

    def _unmute(self, unmute: Unmute) -> None:
        if self.mutes.pop(unmute.agent, None) is not None:
            self._change_all(self._cause_of_mute("unmute", unmute), self.scenario)

    def _cause_of_mute(self, type_: str, record: Mute | Unmute) -> Cause:
        return self._cause(type_, agent=record.agent, user=record.user, command=record.id)

    def _mark_anew(self, name: str, asset: Asset, agent: str, cause: Cause) -> None:
        """Tally an asset on which this agent votes, where the vote counts otherwise now."""
        mark = self.mutes.mark(agent)
        vote = asset.votes.get(agent)
        if vote is None or vote.muted == mark:
            return
        before = self._begin(asset)
        votes.put_mark(self.scenario, asset, agent, mark)
        transitions.judge(self.scenario, asset, self.clock, up=True, down=mark is None)
        self._finish(name, asset, before, cause, self.clock)

    # ---- before and after an event --------------------------------------------------------

    def _begin(self, asset: Asset, scenario: Scenario | None = None) -> View:
        """scenario: the rule in force before the event, where it is another."""
        before = View.of(asset, scenario or self.scenario)
        asset.offset, asset.step = self.offset, 0
        return before

    def _finish(
        self,
        name: str,
        asset: Asset,
        before: View,
        cause: Cause,
        at: int,
        answer: Answer | None = None,
        *,
        forced: bool = False,
    ) -> None:
        """Bring what is shown up to date, emit if that is called for, and keep asset and timer."""
        self._show(asset, before, at)
        refresh = cause.type == "report" and at - asset.emitted_at >= REFRESH_AFTER
        if answer is not None or forced or refresh or before.differs(asset, self.scenario):
            asset.emitted_at = at
            self._out.append(asset.record(name, self.scenario, self.epoch, cause, answer))
        if asset.tasks:
            tasks.drop_finished(asset)
        self.live += (asset.shown is not None) - (before.shown is not None)
        self._keep(name, asset, at)

    def _show(self, asset: Asset, before: View, at: int) -> None:
        if asset.override is not None and asset.override.underlying != asset.state:
            asset.override = replace(asset.override, underlying=asset.state)
        asset.shown = asset.to_show()
        tally.mark(self.scenario, asset)
        if asset.shown != before.shown:
            asset.previous = before.shown
            asset.since = asset.reminded = at
            if asset.tasks or self.scenario.tasks:
                tasks.enter(self.scenario, asset, at)
        if not before.looked_at(asset, self.scenario):
            asset.changed = (asset.offset, asset.step)

    def _keep(self, name: str, asset: Asset, at: int) -> None:
        if asset.shown is not None:
            asset.forget_at = None
        elif asset.answers or asset.purged_at is not None:
            asset = asset.trace(at, self.scenario)
        else:
            self.assets.pop(name, None)
            self.timer_index.set(name, None)
            return
        self.assets[name] = asset
        timer = next_timer(asset, self.scenario)
        self.timer_index.set(name, timer.time if timer else None)

    def _cause(
        self,
        type_: str,
        *,
        agent: str | None = None,
        user: str | None = None,
        command: str | None = None,
    ) -> Cause:
        return Cause(type_, self.partition, self.offset, self.clock, agent, user, command)
