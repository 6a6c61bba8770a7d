"""The state machine of a rule's groups: takes events and the time, returns messages to send.

What is due follows from the groups alone. A message held back by quiet hours or a limit is
therefore still due afterwards. The clock is passed in; nothing here reads one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple
from zlib import crc32

from domain.notifications.events import CHANGED, MARKED, Event
from domain.notifications.group import (
    ESCALATED,
    MORE,
    OPENED,
    REMINDER,
    RESOLVED,
    Group,
    IncidentKey,
    Member,
)
from domain.notifications.rule import Rule, reaches
from domain.scenario import Scenario

TOO_SHORT, OUTSIDE, MAINTENANCE = "too short", "outside the hours of the rule", "maintenance"
BEHIND = "behind another"
QUIET, LIMIT, PAUSED = "quiet hours", "limit of the rule", "rule switched off"
REASONS = {
    TOO_SHORT: "it did not last as long as the rule asks",
    OUTSIDE: "it was not in the hours of the rule",
    MAINTENANCE: "its asset was in a maintenance window that holds messages back",
    BEHIND: "its asset lies behind one that was in trouble, and was well again with it",
    QUIET: "for the end of the quiet hours",
    LIMIT: "as the rule has sent as many messages as it may",
    PAUSED: "its rule is switched off",
}
"""Why nothing is reported, or not yet."""

LOOK_AGAIN_MS = 60_000
"""How often it is checked again what holds messages back."""


class World(NamedTuple):
    """What the machine needs to know about the world: the scenarios, and a function.

    held: returns why messages about an asset (scenario, asset) are held back at a time (Unix ms):
    MAINTENANCE, BEHIND, or empty; paused: whether the rule is switched off: it sends nothing until
    it is on again.
    """

    scenarios: Mapping[str, Scenario]
    held: Callable[[str, str, int], str] = lambda _scenario, _asset, _at: ""
    paused: bool = False


class RuleState(NamedTuple):
    """A rule's open groups by key, and the times of its recent messages."""

    groups: Mapping[str, Group]
    recent: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Send:
    """A message about a group, to be sent to these stages.

    members: all that it reports, each with what was reported before; opened_at: distinguishes
    groups with the same key.
    """

    key: str
    opened_at: int
    kind: str
    stages: tuple[int, ...]
    members: tuple[Member, ...]


@dataclass(frozen=True, slots=True)
class Summary:
    """One message that replaces several."""

    parts: tuple[Send, ...]


@dataclass(frozen=True, slots=True)
class Hold:
    """A message about a group that is held back from now on.

    until: when it is considered again; members: what it would report; renewed: whether it was held
    back before, and only what it would report has changed.
    """

    key: str
    opened_at: int
    kind: str
    reason: str
    until: int
    members: tuple[Member, ...] = field(default=(), compare=False)
    renewed: bool = False


@dataclass(frozen=True, slots=True)
class Close:
    """The end of a group. reason: why nothing was reported, empty if something was."""

    key: str
    opened_at: int
    reason: str


Action = Send | Summary | Hold | Close


def advance(
    rule: Rule, state: RuleState, now: int, world: World, events: Iterable[Event] = ()
) -> tuple[RuleState, list[Action]]:
    """Return the new state of a rule's groups at `now` (Unix ms), and the actions to take.

    events: in order. Groups that are missing from `state` are not considered.
    """
    turn = _Turn(rule, now, world, _applied(rule, world, state.groups, events))
    recent = [at for at in state.recent if at > now - rule.per_ms]
    due_sends = turn.first_messages()
    while due_sends:
        sent = list(turn.let_through(due_sends, recent))
        recent += [now] * len(sent)
        parts = [part for each in sent for part in _parts(each)]
        for part in parts:
            turn.record_sent(part)
        due_sends = turn.due_messages(part.key for part in parts)
    return RuleState(turn.groups, tuple(recent)), turn.actions


def _parts(sent: Send | Summary) -> tuple[Send, ...]:
    return sent.parts if isinstance(sent, Summary) else (sent,)


def next_at(rule: Rule, group: Group, recent: Sequence[int], now: int) -> int | None:
    """Return when time alone may next cause something in a group, Unix ms, or None for never."""
    return min((at for at in _times(rule, group, recent, now) if at > now), default=None)


def _times(rule: Rule, group: Group, recent: Sequence[int], now: int) -> Iterator[int]:
    """Yield the times at which something may become due, including past ones."""
    unnotified = [member for member in group.members.values() if not member.notified]
    yield from (member.since + rule.after_ms for member in unnotified)
    if any(each.has_news and each.since + rule.after_ms <= now for each in group.members.values()):
        yield now + LOOK_AGAIN_MS
    yield from (
        member.ack_until for member in group.notified_members() if member.ack_until is not None
    )
    if rule.hours and unnotified:
        yield rule.hours.next_edge(now)
    if rule.quiet and group.held:
        yield rule.quiet.hours.next_edge(now)
    if group.held and recent:
        yield recent[0] + rule.per_ms
    if group.held.endswith(PAUSED):
        yield now + LOOK_AGAIN_MS
    if group.pending_at is not None:
        yield group.pending_at + rule.window_ms
    if group.clock_from is not None and group.stage < len(rule.stages):
        yield group.clock_from + rule.stages[group.stage].after_ms
    if rule.repeat_ms and group.sent_at is not None:
        yield group.sent_at + rule.repeat_ms
    going_on = any(member.active for member in group.members.values())
    if not rule.resolved and group.announced_at is not None and not going_on and not unnotified:
        yield now + 1  # its last message, held back until now, has been sent: it ends


# ---- events -----------------------------------------------------------------------------------


def _applied(
    rule: Rule, world: World, groups: Mapping[str, Group], events: Iterable[Event]
) -> dict[str, Group]:
    """Return the groups after these events, including new groups."""
    intake = _Intake(rule, world, groups)
    for event in events:
        intake.take(event)
    return intake.groups()


class _Intake:
    """Applies events to groups, using an index of members by asset."""

    def __init__(self, rule: Rule, world: World, groups: Mapping[str, Group]) -> None:
        self.rule, self.world = rule, world
        self._groups = dict(groups)
        self._members = {key: dict(group.members) for key, group in groups.items()}
        self._of_asset: dict[tuple[str, str], list[tuple[str, IncidentKey]]] = {}
        for key, members in self._members.items():
            for place in members:
                self._of_asset.setdefault(place[:2], []).append((key, place))

    def groups(self) -> dict[str, Group]:
        """Return the groups with their current members."""
        return {
            key: replace(group, members=self._members[key]) for key, group in self._groups.items()
        }

    def take(self, event: Event) -> None:
        """Apply one event."""
        known = self._of_asset.get((event.scenario, event.asset), [])
        if event.kind == MARKED:
            self._mark(known, event)
            return
        scenario = self.world.scenarios.get(event.scenario)
        if scenario is None:
            return
        is_reported = self.rule.covers_event(scenario, event)
        own = next((each for each in known if each[1][2] == event.place), None)
        if own is not None:
            key, place = own
            member = self._members[key][place]
            self._put(
                key, _gone_on(scenario, member, event) if is_reported else _over(member, event)
            )
        elif self.rule.joins(scenario, event):
            self._join(event)

    def _mark(self, known: Iterable[tuple[str, IncidentKey]], event: Event) -> None:
        """Acknowledge an asset's incidents, but not the faults of an agent with the same name."""
        for key, place in known:
            member = self._members[key][place]
            if not member.finding:
                self._put(key, member.acknowledged(event.ack))

    def _put(self, key: str, member: Member) -> None:
        self._members[key][member.key] = member

    def _join(self, event: Event) -> None:
        key = self.rule.key_of(event)
        if key not in self._groups:
            self._groups[key], self._members[key] = Group(key, event.at), {}
        place = (event.scenario, event.asset, event.place)
        member = Member(*place, event.at, event.state, event.state, finding=event.finding)
        self._put(key, member)
        self._of_asset.setdefault(member.key[:2], []).append((key, member.key))


def _over(member: Member, event: Event) -> Member:
    """Return a member that has left the states that the rule reports, or is over altogether."""
    member = member._replace(left=event.state if event.kind == CHANGED else "")
    finding = event.finding or member.finding
    return member._replace(over_at=event.at, finding=finding) if member.active else member


def _gone_on(scenario: Scenario, member: Member, event: Event) -> Member:
    """Return a member in another state that the rule reports; one that was over begins again."""
    severity = scenario.severity(event.state)
    if not member.active:
        return Member(*member.key, since=event.at, state=event.state, worst=event.state)
    if member.ack_severity is not None and severity < member.ack_severity:
        member = member.acknowledged(None)
    worse = severity < scenario.severity(member.worst)
    return member._replace(state=event.state, worst=event.state if worse else member.worst)


# ---- what is due ------------------------------------------------------------------------------


class _Turn:
    """One evaluation of a rule's groups at a given time."""

    def __init__(self, rule: Rule, now: int, world: World, groups: dict[str, Group]) -> None:
        self.rule, self.now, self.world, self.groups = rule, now, world, groups
        self.in_hours = self._in_hours(now)
        self.actions: list[Action] = []

    def first_messages(self) -> list[Send]:
        """Settle each group, end those with nothing left, and return the messages due for the
        others."""
        for key, group in sorted(self.groups.items()):
            reason = self._why_none(group)
            self.groups[key] = settled = self._settle(group)
            if self._is_done(settled):
                self._end(settled, reason)
        return self.due_messages(sorted(self.groups))

    def due_messages(self, keys: Iterable[str]) -> list[Send]:
        """Return the messages due for these groups; for groups without one, clear `held`."""
        due_sends = []
        for key in keys:
            if key not in self.groups:
                continue
            if due := self._due(self.groups[key]):
                due_sends.append(due)
            else:
                self.groups[key] = replace(self.groups[key], held="")
        return due_sends

    def _settle(self, group: Group) -> Group:
        """Return a group without the members not to be reported, and with its times updated."""
        group = replace(
            group,
            members={key: each for key, each in group.members.items() if not self._why_not(each)},
        )
        news = self._news(group)
        pending = None if not news else self.now if group.pending_at is None else group.pending_at
        group = replace(
            group, pending_at=pending, exempt=group.exempt or self._is_exempt(group, news)
        )
        return self._with_clock(group)

    def _is_done(self, group: Group) -> bool:
        """Return whether a settled group has nothing left to report."""
        if group.announced_at is None:
            return not group.members
        return not self.rule.resolved and not self._goes_on(group) and not self._news(group)

    def _why_none(self, group: Group) -> str:
        """Return why a group that ends was not reported, empty if it was."""
        if group.announced_at is not None:
            return ""
        reasons = [self._why_not(member) for member in group.members.values()]
        return next((reason for reason in reasons if reason), TOO_SHORT)

    def _due(self, group: Group) -> Send | None:
        """Return the message due for a settled group.

        If several are due, return the one to send first.
        """
        if group.announced_at is None:
            return self._send(group, OPENED, (0,)) if self._pending_is_due(group) else None
        reached = tuple(range(group.reached))
        if self.rule.resolved and not self._goes_on(group):
            return self._send(group, RESOLVED, reached)
        if self._stage_is_due(group):
            reminded = reached if self._reminder_is_due(group) else ()
            return self._send(group, ESCALATED, tuple(sorted({*reminded, group.stage})))
        if self._pending_is_due(group):
            return self._send(group, MORE, reached)
        if self._reminder_is_due(group):
            return self._send(group, REMINDER, reached)
        return None

    def _send(self, group: Group, kind: str, stages: tuple[int, ...]) -> Send:
        news = {member.key for member in self._news(group)}
        members = [each for each in group.members.values() if each.notified or each.key in news]
        return Send(group.key, group.opened_at, kind, stages, tuple(members))

    def _pending_is_due(self, group: Group) -> bool:
        return group.pending_at is not None and self.now >= group.pending_at + self.rule.window_ms

    def _stage_is_due(self, group: Group) -> bool:
        stages = self.rule.stages
        if group.clock_from is None or group.stage >= len(stages):
            return False
        return self.now >= group.clock_from + stages[group.stage].after_ms

    def _reminder_is_due(self, group: Group) -> bool:
        repeat, sent = self.rule.repeat_ms, group.sent_at
        if repeat is None or sent is None or group.in_hand(self.now):
            return False
        return group.goes_on() and self.now >= sent + repeat

    def _with_clock(self, group: Group) -> Group:
        """Return a group with its escalation clock updated.

        The clock starts now if the group was in hand until now, and stops if somebody has it in
        hand.
        """
        if group.announced_at is None:
            return group
        if group.in_hand(self.now):
            return replace(group, clock_from=None)
        if group.clock_from is None:
            return replace(group, clock_from=self.now, stage=min(group.stage, 1))
        return group

    # ---- members ----

    def _why_not(self, member: Member) -> str:
        """Return why a member will never be reported, empty if it may be."""
        if member.notified or member.over_at is None:
            return ""
        if member.lasted(self.now) < self.rule.after_ms:
            return TOO_SHORT
        times = (member.since + self.rule.after_ms, member.over_at)
        inside = [at for at in times if self._in_hours(at)]
        if not inside:
            return OUTSIDE
        reasons = [self._muted(member, at) for at in inside]
        return reasons[-1] if all(reasons) else ""

    def _news(self, group: Group) -> list[Member]:
        """Return the members with something to report now."""
        return [member for member in group.members.values() if self._is_news(member)]

    def _is_news(self, member: Member) -> bool:
        if member.notified:
            return member.active and self._is_worse(member) and not self._muted(member, self.now)
        if not member.active:
            return True  # a settled group has no members that must not be reported
        return member.lasted(self.now) >= self.rule.after_ms and not self._is_blocked(member)

    def _is_worse(self, member: Member) -> bool:
        if member.worst == member.notified:
            return False
        scenario = self.world.scenarios.get(member.scenario)
        if scenario is None:
            return False
        return scenario.severity(member.worst) < scenario.severity(member.notified)

    def _goes_on(self, group: Group) -> bool:
        """Return whether a member goes on that was reported, or may be soon."""
        return any(
            member.active and (member.notified or not self._is_blocked(member))
            for member in group.members.values()
        )

    def _is_blocked(self, member: Member) -> bool:
        return not self.in_hours or bool(self._muted(member, self.now))

    def _in_hours(self, at: int) -> bool:
        return self.rule.hours is None or self.rule.hours.contain(at)

    def _muted(self, member: Member, at: int) -> str:
        """Return why messages about a member are held back, or "".

        For an agent they are only while the rule is switched off.
        """
        if self.world.paused:
            return PAUSED
        return "" if member.finding else self.world.held(member.scenario, member.asset, at)

    def _is_exempt(self, group: Group, news: Iterable[Member]) -> bool:
        """Return whether anything reported, or to be reported, is exempt from quiet hours."""
        quiet = self.rule.quiet
        if quiet is None or not quiet.exempt:
            return False
        known = self.world.scenarios
        return any(
            reaches(known[member.scenario], member.worst, quiet.exempt)
            for member in (*news, *group.notified_members())
            if member.scenario in known and not member.finding
        )

    # ---- what holds messages back ----

    def let_through(
        self, due_sends: Sequence[Send], recent: Sequence[int]
    ) -> Iterator[Send | Summary]:
        """Yield the messages to send now, and mark the others as held back."""
        if self.world.paused:
            self._hold(due_sends, PAUSED, self.now + LOOK_AGAIN_MS)
            return
        quiet = self.rule.quiet
        if quiet is not None and quiet.hours.contain(self.now):
            asleep = [due for due in due_sends if not self.groups[due.key].exempt]
            self._hold(asleep, QUIET, quiet.hours.next_edge(self.now))
            due_sends = [due for due in due_sends if self.groups[due.key].exempt]
        room = self.rule.most - len(recent)
        if len(due_sends) <= room:
            sent: list[Send | Summary] = [*due_sends]
        elif room <= 0:
            sent = []
            self._hold(due_sends, LIMIT, recent[0] + self.rule.per_ms)
        else:
            sent = [*due_sends[: room - 1], Summary(tuple(due_sends[room - 1 :]))]
        self.actions += sent
        yield from sent

    def _hold(self, due_sends: Iterable[Send], reason: str, until: int) -> None:
        """Mark groups as held back, with an action for each that was not before, or that would
        report something else now."""
        for due in due_sends:
            group, held, words = self.groups[due.key], f"{due.kind}: {reason}", _checksum(due)
            if (group.held, group.held_words) == (held, words):
                continue
            self.groups[due.key] = replace(group, held=held, held_words=words)
            if due.kind != REMINDER:
                hold = Hold(due.key, due.opened_at, due.kind, reason, until, due.members)
                self.actions.append(replace(hold, renewed=group.held == held))

    def record_sent(self, sent: Send) -> None:
        """Record that a message about a group is sent, and end the group if it was the last one."""
        group = replace(self.groups[sent.key], held="")
        if sent.kind == ESCALATED:
            stage, reminded = group.stage + 1, len(sent.stages) > 1
            sent_at = self.now if reminded else group.sent_at
            reached = max(group.reached, stage)
            group = replace(group, stage=stage, reached=reached, sent_at=sent_at)
        elif sent.kind == REMINDER:
            group = replace(group, sent_at=self.now)
        else:
            group = self._with_news_sent(replace(group, sent_at=self.now, pending_at=None))
        if sent.kind == OPENED:
            group = replace(group, announced_at=self.now, clock_from=self.now, stage=1, reached=1)
        self.groups[sent.key] = group = self._with_clock(group)
        if sent.kind == RESOLVED or (sent.kind == OPENED and not self._goes_on(group)):
            self._end(group, "")

    def _with_news_sent(self, group: Group) -> Group:
        """Return a group with all its news marked as sent; ended members are only counted."""
        news = {member.key for member in self._news(group)}
        notified = [
            member._replace(notified=member.worst) if member.key in news else member
            for member in group.members.values()
        ]
        kept = [member for member in notified if member.active or not member.notified]
        return replace(group, over=group.over + len(notified) - len(kept)).with_members(kept)

    def _end(self, group: Group, reason: str) -> None:
        """End a group. A new one begins for the members that were held back."""
        self.actions.append(Close(group.key, group.opened_at, reason))
        self.groups.pop(group.key)
        left = [member for member in group.members.values() if not member.notified]
        if left:
            begin = max(min(member.since for member in left), group.opened_at + 1)
            self.groups[group.key] = Group(group.key, begin).with_members(left)


def _checksum(send: Send) -> int:
    """Return a number that changes with what a message reports."""
    reported = sorted((each.key, each.state, each.active, each.left) for each in send.members)
    return crc32(repr(reported).encode())
