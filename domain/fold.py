"""The fold: turns the records of one source partition, in offset order, into asset states.

This is the specification of the product: the board is a pure function of the log. Nothing here
reads a clock; time is the broker's append time of the records.
"""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping
from dataclasses import replace

from domain import asset as timer_kinds
from domain import commands, doubts, tally, tasks, timers, transitions, votes
from domain.adoption import adopt
from domain.asset import AnsweredCommand, Asset, Timer, View, next_timer
from domain.lateness import Kind, Lateness, LatenessCounts
from domain.mutes import Mutes
from domain.names import USER_PREFIX
from domain.records import (
    APPLIED,
    CLOCK_AHEAD,
    CLOCK_BACK,
    CONTRADICTION,
    MAX_AHEAD,
    PURGED,
    REFUSED,
    STALE,
    STILL_AHEAD,
    Answer,
    Cause,
    Command,
    DeadLetter,
    Doubt,
    Emission,
    Leave,
    Misrouted,
    Mute,
    Record,
    Refusal,
    RefusedReport,
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

# A report that changes nothing visible is emitted if the last emission is at least this old, ms.
REFRESH_AFTER = 30_000


class UnknownFoldVersion(Exception):
    """The log needs a version of the fold that this release does not know."""

    def __init__(self, scenario: str, fold: int) -> None:
        super().__init__(
            f"UnknownFoldVersion: the log of {scenario} needs version {fold} of the fold, "
            f"and this release knows {FOLD}: run a newer release"
        )


class Bucket:
    """All assets of one source partition, and the fold over its log.

    Pass `assets` and `timer_index` to back them with a state store; `live` is then the number of
    assets in the store that exist. `mutes` are the mutes in force. `lateness` holds the counts of
    late reports that have not been reported yet. The same records at the same offsets and times
    give the same emissions, however they are divided into batches.
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

        Timers due by then fire first. Returns the emissions in order. Raises UnknownFoldVersion.
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
            case RefusedReport():
                self._refuse_report(record)
            case Leave():
                self._leave(record)
            case Misrouted():
                self.lateness.add(record.record.agent, "forwarded")
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
        """Apply an unsigned record, unless the rule in force requires a signature.

        A rejected one gets no answer. Otherwise anyone who may write to the topic could have a
        command's id answered before the command itself arrives, and could fill the states topic.
        """
        if self.scenario.signed_commands:
            self._out.append(DeadLetter("unsigned"))
        else:
            self._dispatch(unsigned.record)

    def _change(self, record: ScenarioChange | UnknownFold | Mute | Unmute) -> None:
        """Apply a record that concerns all assets of the bucket."""
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
        if (fault := _former_fault(self.scenario, report)) is not None:
            self._out.append(DeadLetter(fault))
        elif not self.scenario.knows(report.state):
            reason = "unknown-state"
            self._refuse_report(RefusedReport(report.asset, report.agent, report.state, reason))
        else:
            if report.detail_fault is not None:
                self.lateness.add(report.agent, "detail")
            self._look_at(report, self.assets.get(report.asset))

    def _refuse_report(self, refused: RefusedReport) -> None:
        if refused.sunk is not None and not self.scenario.piecewise:
            self._out.append(DeadLetter(refused.sunk))
            return
        former = not self.scenario.lenient and refused.detail_fault == "bad-field"
        self._out.append(DeadLetter("bad-field" if former else refused.reason))
        self.lateness.add(refused.agent, "refused")
        self._doubt(refused.asset, refused.agent, refused.reason, refused.said)

    def _look_at(self, report: Report, asset: Asset | None) -> None:
        """Take a report whose state the scenario knows, in doubt if need be, unless late."""
        former = None if asset is None else asset.votes.get(report.agent)
        ahead = _is_ahead(report, former)
        at = None if ahead else report.reported_at
        vote, doubt = self._vote_of(report, at), CLOCK_AHEAD if ahead else None
        ordered = report.reported_at is not None and (self.scenario.by_claim or at is not None)
        if ordered and (kind := self._late_kind(asset, vote)) is not None:
            excuse = self._excuse(kind, asset, vote)
            if excuse is None:
                self._pass_over(kind, vote, former, report.asset)
                return
            doubt, vote = doubt or excuse, _keep_claim(former, vote)
        elif ordered and former is not None and self._repeats(former, vote):
            vote = votes.as_old_as(vote, former)
        if vote.silent is not None:
            self.lateness.add(vote.agent, "silent", vote.age)
            doubt = None
        if doubt is not None:
            self.lateness.add(vote.agent, "doubtful", ahead=report.ahead if ahead else 0)
            vote = replace(vote, doubt=doubt if self.scenario.doubting else None)
        self._take(report.asset, asset, vote)

    def _take(self, name: str, asset: Asset | None, vote: Vote) -> None:
        if not vote.counts and (asset is None or asset.shown is None):
            return
        asset = asset or Asset()
        if not votes.make_room(self.scenario, asset, vote):
            self._out.append(DeadLetter("too-many-agents"))
            if vote.silent is not None and vote.counts and vote.state != self.scenario.mildest:
                self._doubt(name, vote.agent, STALE, vote.state)
            return
        before = self._begin(asset)
        self._vote(asset, vote)
        if self.scenario.tasks and vote.live:
            tasks.reported(self.scenario, asset, vote.state, self.clock)
        self._finish(name, asset, before, self._cause("report", agent=vote.agent), self.clock)

    def _vote_of(self, report: Report, at: int | None) -> Vote:
        """Return a report's vote, made at `at` ms; None: made at its place in the log."""
        age = 0 if at is None else max(0, self._time - at)
        lifetime = self.scenario.lifetime
        expires = None if lifetime is None else self.clock + lifetime - age
        muted = self.mutes.mark(report.agent)
        return Vote(
            agent=report.agent,
            state=report.state,
            reported_at=self.clock if report.reported_at is None else report.reported_at,
            time=self.clock,
            offset=self.offset,
            expires=expires,
            weight=self.scenario.weight(report.agent) if muted is None else 0,
            detail=report.detail,
            muted=muted,
            silent=expires if lifetime is not None and age >= lifetime else None,
            order=self._order(at),
            age=age,
            detail_fault=report.detail_fault,
            claimed=self._time if report.reported_at is None else report.reported_at,
        )

    def _order(self, reported_at: int | None) -> int:
        """Return the time by which an agent's report is ordered, Unix ms.

        The agent's clock cannot make a report later than its own append time.
        """
        return self._time if reported_at is None else min(reported_at, self._time)

    def _late_kind(self, asset: Asset | None, vote: Vote) -> Kind | None:
        """Return in which way a report is late, or None if it is not.

        A report that does not say when it was made is never late: it is as new as its place in the
        log.
        """
        limit = self.scenario.report_age_limit
        kept = votes.fallen_silent(self.scenario, vote, vote.time) is not None
        if (limit is not None and vote.age > limit) or (vote.silent is not None and not kept):
            return "stale"
        if asset is None:
            return None
        former = asset.votes.get(vote.agent)
        outdated = former is not None and self._is_outdated(former, vote)
        return "late" if outdated or self._is_purged(asset, vote.order) else None

    def _is_outdated(self, former: Vote, vote: Vote) -> bool:
        """Return whether a report is late because of its agent's vote.

        From CLAIM_FOLD on, one that arrives silent takes back no worse word, whatever it claims.
        """
        milder = self.scenario.severity(vote.state) > self.scenario.severity(former.state)
        if self._precedes(former, vote.claimed, vote.order):
            return True
        silent = self.scenario.by_claim and vote.silent is not None
        return milder and (silent or self._repeats(former, vote))

    def _precedes(self, former: Vote, claimed: int, order: int) -> bool:
        """Return whether a record is older than its agent's vote."""
        return claimed < former.claim if self.scenario.by_claim else order < former.order

    def _repeats(self, former: Vote, vote: Vote) -> bool:
        """Return whether a report has the same claim as its agent's vote."""
        return self.scenario.by_claim and vote.claimed == former.claim

    def _is_purged(self, asset: Asset, order: int) -> bool:
        """Return whether a record is older than the asset's purge.

        A purge later than now comes from a clock that was ahead, and is ignored.
        """
        return asset.purged_at is not None and order < asset.purged_at <= self._time

    def _excuse(self, kind: Kind, asset: Asset | None, vote: Vote) -> str | None:
        """Return the doubt under which a late report is taken anyway, or None.

        Two kinds of late report are taken. CLOCK_BACK: the agent's vote hides the report because
        its clock went back, and the report is worse than that vote. PURGED: the report is from
        before a purge, by an agent whose clock is behind, and is worse than the mildest state or
        follows a vote already in this doubt.
        """
        if not self.scenario.doubting or asset is None or kind != "late" or vote.silent is not None:
            return None
        former, rank = asset.votes.get(vote.agent), self.scenario.severity
        if former is not None and self._is_outdated(former, vote):
            unknown = self.scenario.by_claim and rank(former.state) < 0
            worse = rank(vote.state) < rank(self.scenario.mildest if unknown else former.state)
            return CLOCK_BACK if worse and self._went_back(asset, former, vote) else None
        again = former is not None and former.doubt == PURGED
        return PURGED if again or vote.state != self.scenario.mildest else None

    def _went_back(self, asset: Asset, former: Vote, vote: Vote) -> bool:
        """Return whether a report is older than its agent's vote only because a clock went back.

        That is the broker's clock, from CLAIM_FOLD on also the agent's.
        """
        if self.scenario.by_claim and vote.claimed >= former.order:
            return True
        return former.order > self._time and not self._is_purged(asset, vote.order)

    def _pass_over(self, kind: Kind, vote: Vote, former: Vote | None, name: str) -> None:
        """Count a late report, and doubt its agent if it says something worse.

        Worse is what ranks above the agent's vote or, without one, above the mildest state. From
        CLAIM_FOLD on it is enough to repeat what ranks above the mildest state.
        """
        self.lateness.add(vote.agent, kind, vote.age)
        rank, mildest = self.scenario.severity, self.scenario.mildest
        if rank(vote.state) < rank(mildest if former is None else former.state):
            reason = STALE if kind == "stale" and former is None else CONTRADICTION
            self._doubt(name, vote.agent, reason, vote.state)
        elif self.scenario.by_claim and vote.state != mildest:
            self._doubt(name, vote.agent, STALE, vote.state)

    def _doubt(self, name: str, agent: str, reason: str, said: str | None) -> None:
        """Doubt an agent on an existing asset, for one vote lifetime."""
        asset, lifetime = self.assets.get(name), self.scenario.lifetime
        if asset is None or asset.shown is None or lifetime is None or not self.scenario.doubting:
            return
        before, until = self._begin(asset), self.clock + lifetime
        weight, muted = self.mutes.weight(self.scenario, agent), self.mutes.mark(agent)
        doubt = Doubt(agent, reason, said, self.clock, self.offset, until, weight, muted)
        doubts.put(self.scenario, asset, doubt)
        transitions.judge(self.scenario, asset, self.clock)
        self._finish(name, asset, before, self._cause("report", agent=agent), self.clock)

    def _vote(self, asset: Asset, vote: Vote) -> None:
        former, rank = asset.votes.get(vote.agent), self.scenario.severity
        if former is not None and former.silent is not None and vote.live:
            self.lateness.add(vote.agent, "rare")
        if self.scenario.doubting:
            vote = doubts.flap(self.scenario, former, vote)
            doubts.end_doubt(self.scenario, asset, vote)
        asset.votes[vote.agent] = vote
        if not vote.counts:
            return
        sure = vote.live and not doubts.is_doubted(vote, asset.doubts)
        here = rank(vote.state if asset.state is None else asset.state)
        up = sure or (vote.live and rank(vote.state) < here)
        down = sure and rank(vote.state) > here
        transitions.judge(self.scenario, asset, self.clock, up=up, down=down)

    def _leave(self, leave: Leave) -> None:
        if leave.ahead > MAX_AHEAD and not self.scenario.lenient:
            self._out.append(DeadLetter("bad-time"))
            return
        asset, agent = self.assets.get(leave.asset), leave.agent
        if asset is None or not self._can_leave(asset, agent):
            return
        if self._is_older(asset, leave):
            self.lateness.add(agent, "late")
            return
        before = self._begin(asset)
        votes.withdraw(self.scenario, asset, agent)
        transitions.judge(self.scenario, asset, self.clock)
        asset.drop_unknown(self._time)
        self._finish(leave.asset, asset, before, self._cause("leave", agent=agent), self.clock)

    def _can_leave(self, asset: Asset, agent: str) -> bool:
        """Return whether there is anything that the agent's leave withdraws."""
        return agent in asset.votes or (agent in asset.doubts and not self.scenario.by_claim)

    def _is_older(self, asset: Asset, leave: Leave) -> bool:
        """Return whether a leave is older than its agent's vote or the asset's purge."""
        at = leave.reported_at
        if at is None or (leave.ahead > MAX_AHEAD and not self.scenario.by_claim):
            return False
        former, order = asset.votes.get(leave.agent), self._order(at)
        outdated = former is not None and self._precedes(former, at, order)
        return outdated or self._is_purged(asset, order)

    # ---- commands -------------------------------------------------------------------------

    def _command(self, command: Command) -> None:
        asset = self.assets.get(command.asset) or Asset()
        before = self._begin(asset)
        answered = asset.answered(command.id)
        if answered is None:
            outcome = self._outcome(command, asset)
            cause = "refused" if outcome.startswith(REFUSED) else commands.cause_of(command.kind)
            answered = AnsweredCommand(command.id, outcome, cause, command.user)
        self._answer(command.asset, asset, before, answered)

    def _refuse(self, refusal: Refusal) -> None:
        asset = self.assets.get(refusal.asset) or Asset()
        before = self._begin(asset)
        refused = AnsweredCommand(refusal.id, REFUSED + refusal.reason, "refused", refusal.user)
        self._answer(refusal.asset, asset, before, asset.answered(refusal.id) or refused)

    def _answer(self, name: str, asset: Asset, before: View, answered: AnsweredCommand) -> None:
        """Answer a command. A repeated command gets its first answer again."""
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
        vote = self._vote_of(Report(command.asset, agent, command.state or ""), None)
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
        """Count timers that recur without effect, and return the cause of the one to emit."""
        recurrence = timers.recur(self.scenario, asset, self.clock, at)
        time = at if at > timer.time else recurrence.time
        return timers.cause_of_recurrence(asset, recurrence, time, self.partition)

    # ---- a change of rule -----------------------------------------------------------------

    def _stop(self, record: UnknownFold) -> None:
        if record.scenario == self.scenario.name:
            raise UnknownFoldVersion(record.scenario, record.fold)
        self._out.append(DeadLetter("bad-scenario"))

    def _switch(self, scenario: Scenario) -> None:
        if scenario.name != self.scenario.name:
            self._out.append(DeadLetter("bad-scenario"))
            return
        if scenario.folds_like(self.scenario):
            return
        former, self.scenario = self.scenario, scenario
        self._change_all(self._cause("scenario"), former)

    def _change_all(self, cause: Cause, former: Scenario) -> None:
        for name in sorted(self.assets):
            self._put_under(name, cause, former)

    def _put_under(self, name: str, cause: Cause, former: Scenario) -> None:
        """Put an asset under a changed rule, or apply a changed mute to an agent's vote on it."""
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
        """Fire, as of now, the timers that are already due under the new rule."""
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
        """Update the mute on an agent's vote and doubt, and judge the asset if it has changed."""
        mark = self.mutes.mark(agent)
        voice = asset.votes.get(agent) or asset.doubts.get(agent)
        if voice is None or voice.muted == mark:
            return
        before = self._begin(asset)
        votes.put_mark(self.scenario, asset, agent, mark)
        transitions.judge(self.scenario, asset, self.clock, up=True, down=mark is None)
        if mark is not None and self.scenario.doubting:
            transitions.end_unvoiced(self.scenario, asset, before.votes.get(agent))
        self._finish(name, asset, before, cause, self.clock)

    # ---- before and after an event --------------------------------------------------------

    def _begin(self, asset: Asset, scenario: Scenario | None = None) -> View:
        """Begin an event on the asset, and return the asset's view before it.

        scenario: the rule in force before the event, if it was another one.
        """
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
        """Update what is shown, emit a record if needed, and store the asset and its timer."""
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
        asset.settle(self.scenario, at)
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


def _keep_claim(former: Vote | None, vote: Vote) -> Vote:
    """Return the vote of a late report that is taken, with the later claim of the two."""
    if former is None or former.claim <= vote.claimed:
        return vote
    return replace(vote, claimed=former.claim)


def _former_fault(scenario: Scenario, report: Report) -> str | None:
    """Return why a rule of an earlier version refuses a report, or None if it does not."""
    if report.sunk is not None and not scenario.piecewise:
        return report.sunk
    if scenario.lenient:
        return None
    if report.detail_fault == "bad-field":
        return report.detail_fault
    return "bad-time" if report.ahead > MAX_AHEAD else report.detail_fault


def _is_ahead(report: Report, former: Vote | None) -> bool:
    """Return whether an agent's clock is too far ahead.

    The limit is lower, STILL_AHEAD, while the agent's vote is already in doubt for that.
    """
    still = former is not None and former.doubt == CLOCK_AHEAD
    return report.ahead > (STILL_AHEAD if still else MAX_AHEAD)
