"""Applying the rules to what happened, and putting what they send into the outbox."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import msgspec
import structlog
from django.db import transaction
from django.db.models import Q, QuerySet

from dashboard.core.common.scenarios import dependencies, scenarios
from dashboard.core.common.sql import STATEMENT, chunks, execute_many, lock_until_commit
from dashboard.core.common.times import Clock, now_ms
from dashboard.core.states import models
from dashboard.core.states.board_rows import named_details
from dashboard.core.states.models import AssetState
from dashboard.core.states.queries import listed
from dashboard.notify.notifications.ingestion import is_late
from dashboard.notify.notifications.models import (
    WAITED,
    AgentEvent,
    Group,
    GroupIncident,
    IncidentEvent,
    Message,
    Rule,
)
from dashboard.notify.notifications.on_call import store_hold, store_send, store_summary
from dashboard.notify.notifications.outbox import DECIDED
from dashboard.watch.annotations.labels import causes_of, labels_of
from dashboard.watch.annotations.models import Mark
from dashboard.watch.incidents.models import Incident, Window
from domain.notifications import machine
from domain.notifications.events import BEGUN, ENDED, MARKED, WITHDRAWN, Ack, Event
from domain.notifications.group import Group as GroupState
from domain.notifications.group import IncidentKey, Member, group_from_plain, plain_group
from domain.notifications.machine import (
    BEHIND,
    MAINTENANCE,
    PAUSED,
    REASONS,
    Close,
    Hold,
    RuleState,
    Send,
    Summary,
    World,
)
from domain.notifications.rule import Rule as RuleValue
from domain.notifications.rule_parser import RuleError
from wire.sink import state_value

# ---- happenings ----------------------------------------------------------------------------------
# Stored events and current acknowledgements in the form that rules work with.

REPLAYED = "not sent: replayed"
"""It was stored long after it happened, and its incident had ended by then."""
REGAINED = "found again"
"""The rebuild that had lost the incident found it again."""
UNKNOWN = "no such scenario"
"""Its scenario is no longer configured."""

Assets = dict[str, set[str]]
"""Assets by scenario."""


def events_of_rows(rows: Iterable[IncidentEvent]) -> list[Event]:
    """Return stored events as rules work with them; record the outcome of those left out.

    A late event is given with the current state of its incident.
    """
    rows = list(rows)
    labels = {name: traits_of(name, assets) for name, assets in _assets(rows).items()}
    late = _incidents(row for row in rows if _depends(row))
    events = []
    for row in rows:
        event = _event(row, labels.get(row.scenario, {}).get(row.asset, {}))
        if row.scenario not in scenarios():
            row.outcome = UNKNOWN
        elif not _depends(row):
            events.append(event)
        elif (now := _as_it_is(row, event, late)) is not None:
            events.append(now)
    return events


def traits_of(scenario: str, assets: Collection[str]) -> dict[str, dict[str, str]]:
    """Return by what rules tell assets apart: what agents add now, and labels before that."""
    traits, known = labels_of(scenario, assets), scenarios().get(scenario)
    if known is None or not known.details or not assets:
        return traits
    rows = AssetState.objects.filter(scenario=scenario, asset__in=listed(assets), purged=False)
    for asset, record in rows.values_list("asset", "record"):
        details = named_details(known, state_value(record)).items()
        added = {
            key: f"{value:.15g}" if isinstance(value, float) else str(value)
            for key, value in details
        }
        traits[asset] = added | traits.get(asset, {})
    return traits


def agent_events(rows: Iterable[AgentEvent]) -> list[Event]:
    """Return stored events of agents as rules use them; record the outcome of those left out."""
    events = []
    for row in rows:
        if row.scenario not in scenarios():
            row.outcome = UNKNOWN
        else:
            events.append(agent_event(row))
    return events


def agent_event(row: AgentEvent) -> Event:
    """Return an event of an agent as rules work with it."""
    place = (row.scenario, row.agent, row.at, row.place)
    return Event(row.kind, *place, row.finding, finding=row.words)


def _event(row: IncidentEvent, labels: dict[str, str]) -> Event:
    # A withdrawn incident lasted until its withdrawal, as far as messages are concerned.
    at = row.recorded_at if row.kind == WITHDRAWN else row.at
    return Event(row.kind, row.scenario, row.asset, at, row.incident, row.state, labels)


def _depends(row: IncidentEvent) -> bool:
    """Return whether the event only counts if its incident is still as the event says."""
    if row.kind == WITHDRAWN:
        return True
    return row.kind != ENDED and is_late(row.at, row.recorded_at)


def _as_it_is(
    row: IncidentEvent, event: Event, incidents: dict[tuple[str, str, str], Incident]
) -> Event | None:
    incident = incidents.get((row.scenario, row.asset, row.incident))
    if row.kind == WITHDRAWN:
        if incident is None or incident.ended_at == incident.began_at:
            return event
        row.outcome = REGAINED
        return None
    if incident is None or incident.ended_at is not None:
        row.outcome = REPLAYED
        return None
    return Event(
        event.kind, event.scenario, event.asset, event.at, event.place, incident.state, event.labels
    )


def _incidents(rows: Iterable[IncidentEvent]) -> dict[tuple[str, str, str], Incident]:
    places: dict[str, set[str]] = {}
    for row in rows:
        places.setdefault(row.scenario, set()).add(row.incident)
    return {
        (incident.scenario, incident.asset, incident.place): incident
        for scenario, of_scenario in places.items()
        for chunk in chunks(of_scenario, STATEMENT)
        for incident in Incident.objects.filter(scenario=scenario, place__in=listed(chunk))
    }


def _assets(rows: Iterable[IncidentEvent]) -> Assets:
    assets: Assets = {}
    for row in rows:
        assets.setdefault(row.scenario, set()).add(row.asset)
    return assets


# ---- what is so at present --------------------------------------------------------------------


def acknowledgement_events(assets: Assets, acknowledged: Assets, now: int) -> Iterator[Event]:
    """Yield an event for each asset that is acknowledged at `now` (Unix ms), and for each that was
    acknowledged but no longer is."""
    for scenario, names in assets.items():
        acks = _acks(scenario, names, now)
        for asset in acks.keys() | acknowledged.get(scenario, set()):
            yield Event(MARKED, scenario, asset, now, ack=acks.get(asset))


def _acks(scenario: str, assets: Collection[str], now: int) -> dict[str, Ack]:
    rows = Mark.objects.filter(scenario=scenario, ack_until__gt=now, asset__in=listed(assets))
    acks = rows.values_list("asset", "ack_until", "ack_severity")
    return {asset: Ack(until or 0, severity or 0) for asset, until, severity in acks}


Times = tuple[int, int]
"""Begin and end, Unix ms."""
FOR_EVER = 2**62


class Holds:
    """What holds back messages about assets between two times (Unix ms): maintenance windows, and
    the trouble of what they lie behind, if a rule in force reports that."""

    def __init__(self, assets: Assets, begin: int, end: int) -> None:
        self._windows = {
            (scenario, asset): held
            for scenario, names in assets.items()
            if scenario in scenarios()
            for asset, spans in Window.objects.covering(scenario, names, begin, end).items()
            if (held := [(span.begin, span.end) for span in spans if span.window.held])
        }
        self._causes = {
            (scenario, asset): spans
            for scenario, names in assets.items()
            if scenario in dependencies()
            for asset, spans in _spans_of_causes(scenario, names, begin)
        }

    def why(self, scenario: str, asset: str, at: int) -> str:
        """Return why messages about an asset are held back at a time (Unix ms), or ""."""
        for reason, spans in ((MAINTENANCE, self._windows), (BEHIND, self._causes)):
            if any(begin <= at < end for begin, end in spans.get((scenario, asset), ())):
                return reason
        return ""


def _spans_of_causes(
    scenario: str, assets: Collection[str], begin: int
) -> Iterator[tuple[str, list[Times]]]:
    """Yield those of `assets` that lie behind something, and when that was in trouble since a time,
    Unix ms."""
    depends, causes = dependencies()[scenario], causes_of(scenario, assets)
    spans: dict[str, list[Times]] = {}
    for row in _relied_on(depends.scenario, set(causes.values()), begin - depends.grace):
        end = FOR_EVER if row.ended_at is None else row.ended_at + depends.grace
        spans.setdefault(row.asset, []).append((row.began_at, end))
    return ((asset, spans[cause]) for asset, cause in causes.items() if cause in spans)


def _relied_on(scenario: str, causes: Collection[str], begin: int) -> Iterator[Incident]:
    """Yield the incidents of these assets since a time (Unix ms) that may hold back messages about
    what lies behind them: somebody is told of it, and no doubt is about the state."""
    known = scenarios().get(scenario)
    if known is None or not causes:
        return
    rows = Incident.objects.real().within(begin, None)
    rows = rows.filter(scenario=scenario, asset__in=listed(causes))
    rules, traits = _readable_rules(), traits_of(scenario, causes)
    doubted = _doubted(scenario, causes)
    for row in rows:
        place = (scenario, row.asset, row.began_at, row.place)
        event = Event(BEGUN, *place, row.worst, traits.get(row.asset, {}))
        if row.ended_at is None and row.asset in doubted:
            continue
        if any(rule.joins(known, event) for rule in rules):
            yield row


def _doubted(scenario: str, assets: Collection[str]) -> set[str]:
    """Return those of `assets` whose state is unconfirmed."""
    rows = AssetState.objects.filter(scenario=scenario, purged=False, unconfirmed=True)
    return set(rows.filter(asset__in=listed(assets)).values_list("asset", flat=True))


def _readable_rules() -> list[RuleValue]:
    """Return the rules in force that can be read."""
    rules = []
    for row in Rule.objects.in_force():
        with suppress(RuleError):
            rules.append(row.parsed())
    return rules


# ---- decisions -----------------------------------------------------------------------------------
# The rules are applied to what happened, and what they send is put into the outbox.
#
# This is one transaction: a worker killed in the middle has done nothing, and the next one does it
# all.

log = structlog.get_logger(__name__)

PORTION = 2_000
"""Events to which the rules are applied in one transaction."""
NOTHING_LEFT = "nothing was left to send"
OVER_BEFORE = "it was over before"
RULE_OFF = "its rule was switched off or retired"
"""Why a group of a retired rule was closed, or nothing was sent of a task's run."""
_JOIN = """\
INSERT INTO notifications_groupincident (group_id, scenario, asset, place) VALUES (%s, %s, %s, %s)
ON CONFLICT (group_id, scenario, asset, place) DO NOTHING"""


def decide(clock: Clock = now_ms) -> bool:
    """Apply the rules to a portion of the events, and to the time. Return whether there is more."""
    now = clock()
    if not any(rows.exists() for rows in _happened(now)):
        return False
    with transaction.atomic():
        lock_until_commit("notifications", "rules")
        rows = list(IncidentEvent.objects.waiting(now).order_by("id")[:PORTION])
        of_agents = list(AgentEvent.objects.waiting().order_by("id")[:PORTION])
        events = [*events_of_rows(rows), *agent_events(of_agents)]
        for rule in Rule.objects.in_turn():
            _RuleTurn(rule, now).take(events)
        _close_retired(now)
        _record_handled(IncidentEvent, rows, now)
        _record_handled(AgentEvent, of_agents, now)
    return PORTION in (len(rows), len(of_agents))


def read_rule(row: Rule) -> RuleValue | None:
    """Return the content of a rule; None if it cannot be read because another version wrote it.

    An unreadable rule is logged and counted.
    """
    try:
        return row.parsed()
    except RuleError as error:
        log.error("a rule cannot be read", rule=row.name, why=str(error))  # noqa: TRY400
        models.add_counts({(DECIDED, "unreadable rule"): 1})
        return None


def _happened(now: int) -> tuple[QuerySet[Any], ...]:
    """Return the events that wait for the rules, and the groups that may change with time."""
    waiting = IncidentEvent.objects.waiting(now)
    return waiting, AgentEvent.objects.waiting(), Group.objects.due(now)


def _close_retired(now: int) -> None:
    """Close the groups of rules that are retired."""
    groups = Group.objects.open().of_retired_rules().values_list("pk", flat=True)
    if pks := list(groups):
        rows = Group.objects.filter(pk__in=listed(pks))
        rows.update(closed_at=now, next_at=None, reason=RULE_OFF)
        Message.objects.filter(group__in=listed(pks)).end_waiting(RULE_OFF, now)


def _record_handled(
    model: type[IncidentEvent | AgentEvent], rows: Sequence[IncidentEvent | AgentEvent], now: int
) -> None:
    for outcome in {row.outcome for row in rows}:
        pks = [row.pk for row in rows if row.outcome == outcome]
        events = model._default_manager.filter(pk__in=listed(pks))  # noqa: SLF001 - documented API
        events.update(handled_at=now, outcome=outcome)
    models.add_counts(Counter((DECIDED, row.outcome) for row in rows if row.outcome))


class _RuleTurn:
    """One rule's turn on the events and on its open groups."""

    def __init__(self, row: Rule, now: int) -> None:
        self.row, self.now = row, now
        self.rows: dict[tuple[str, int], Group] = {}
        self.known: dict[tuple[str, int], set[IncidentKey]] = {}
        self.counts: Counter[tuple[str, str]] = Counter()

    def take(self, events: Sequence[Event]) -> None:
        """Apply the rule to these events, and store what it does. Skip an unreadable rule."""
        rule = read_rule(self.row)
        if rule is None:
            return
        self.rule = rule
        joining = [event for event in events if self._joins(event)]
        groups = self._load(events, joining)
        if not groups and not joining:
            return
        state = RuleState(groups, tuple(self.row.recent))
        assets = _assets_of(groups.values(), joining)
        holds = self._holds(groups.values(), joining, assets)
        world = World(scenarios(), holds.why, paused=not self.row.enabled)
        happened = [
            *events,
            *acknowledgement_events(assets, _acknowledged(groups.values()), self.now),
        ]
        after, actions = machine.advance(self.rule, state, self.now, world, happened)
        for action in actions:
            self._carry_out(action)
        self._store(after)
        models.add_counts(self.counts)

    def _joins(self, event: Event) -> bool:
        return self.rule.joins(scenarios()[event.scenario], event)

    # ---- what it looks at ----

    def _load(self, events: Iterable[Event], joining: Iterable[Event]) -> dict[str, GroupState]:
        """Return the open groups that are due or that these events concern."""
        keys = {self.rule.key_of(each) for each in joining}
        mine = self.row.groups.open()
        concerned = Q(next_at__lte=self.now)
        if keys:
            concerned |= Q(key__in=listed(sorted(keys)))
        for scenario, assets in _assets_of((), events).items():
            members = GroupIncident.objects.filter(
                scenario=scenario, asset__in=listed(sorted(assets)), group__in=mine
            )
            concerned |= Q(pk__in=members.values("group"))
        states = {}
        for group in mine.filter(concerned):
            state = group_from_plain(msgspec.json.decode(group.state))
            self.rows[state.key, state.opened_at] = group
            self.known[state.key, state.opened_at] = set(state.members)
            states[state.key] = state
        return states

    def _holds(
        self, groups: Iterable[GroupState], joining: Sequence[Event], assets: Assets
    ) -> Holds:
        """Return what holds messages back, since the begin of the oldest incident."""
        begins = [member.since for group in groups for member in group.members.values()]
        begin = min([*begins, *(event.at for event in joining)], default=self.now)
        return Holds(assets, begin, self.now + 1)

    # ---- what it does ----

    def _carry_out(self, action: machine.Action) -> None:
        if isinstance(action, Send):
            self.counts[DECIDED, action.kind] += 1
            store_send(self.row, self.rule, self._group(action), action, self.now)
        elif isinstance(action, Summary):
            self.counts[DECIDED, "summary"] += 1
            groups = [self._group(part) for part in action.parts]
            store_summary(self.row, self.rule, groups, action, self.now)
        elif isinstance(action, Hold):
            self.counts[DECIDED, action.reason] += not action.renewed
            group = self._group(action)
            group.reason = action.reason
            store_hold(self.row, group, action, self.now)
        else:
            self._close(action)

    def _close(self, action: Close) -> None:
        group = self._group(action)
        if action.reason:
            self.counts[DECIDED, action.reason] += 1
        why = REASONS.get(action.reason, action.reason) or OVER_BEFORE
        group.messages.end_waiting(why, self.now)
        group.close(action.reason, self.now)

    def _group(self, action: Send | Hold | Close) -> Group:
        """Return the row of the group that an action concerns; it is created for a new group."""
        place = (action.key, action.opened_at)
        if place not in self.rows:
            self.rows[place] = self._new(*place)
        group = self.rows[place]
        if isinstance(action, Send):
            self._record_sent(group, action)
        return group

    def _new(self, key: str, opened_at: int) -> Group:
        return Group.objects.create(rule=self.row, key=key, opened_at=opened_at)

    def _record_sent(self, group: Group, send: Send) -> None:
        group.reason = ""
        group.messages.end_waiting(WAITED, self.now)
        group.announced_at = group.announced_at or self.now
        group.worst = _worst(send.members) or group.worst
        self._join(group, send.opened_at, send.members)

    def _join(self, group: Group, opened_at: int, members: Iterable[Member]) -> None:
        """Store which incidents have joined a group."""
        known = self.known.setdefault((group.key, opened_at), set())
        new = [member.key for member in members if member.key not in known]
        if new:
            known.update(new)
            execute_many(_JOIN, [(group.pk, *place) for place in new])
            group.incidents = group.members.count()

    def _store(self, after: RuleState) -> None:
        """Store the current state of the groups, and when messages were sent."""
        for key, state in after.groups.items():
            place = (key, state.opened_at)
            group = self.rows.get(place) or self._new(*place)
            self._join(group, state.opened_at, state.members.values())
            self._describe(group, state)
            group.next_at = machine.next_at(self.rule, state, after.recent, self.now)
            group.save()
        if after.recent != tuple(self.row.recent):
            self.row.record_recent(list(after.recent))

    def _describe(self, group: Group, state: GroupState) -> None:
        group.state = msgspec.json.encode(plain_group(state)).decode()
        group.stage = state.reached
        active = [member for member in state.notified_members() if member.active]
        group.acknowledged_at = (
            (group.acknowledged_at or self.now) if active and state.in_hand(self.now) else None
        )
        group.worst = _worst(state.members.values()) or group.worst
        if not state.held and group.reason:
            what = NOTHING_LEFT if self.row.enabled else REASONS[PAUSED]
            group.messages.end_waiting(what, self.now)
            group.reason = ""


def _acknowledged(groups: Iterable[GroupState]) -> Assets:
    """Return the assets in groups that were acknowledged, by scenario."""
    assets: Assets = {}
    for group in groups:
        for member in group.members.values():
            if member.ack_until is not None:
                assets.setdefault(member.scenario, set()).add(member.asset)
    return assets


def _worst(members: Iterable[Member]) -> str:
    """Return the worst state of incidents; empty if there are none."""
    worst = min(members, key=_severity, default=None)
    return worst.worst if worst else ""


def _severity(member: Member) -> int:
    known = scenarios().get(member.scenario)
    return known.severity(member.worst) if known else 0


def _assets_of(groups: Iterable[GroupState], events: Iterable[Event]) -> Assets:
    """Return the assets of groups and events, by scenario."""
    assets: Assets = {}
    for event in events:
        assets.setdefault(event.scenario, set()).add(event.asset)
    for group in groups:
        for scenario, asset, _ in group.members:
            assets.setdefault(scenario, set()).add(asset)
    return assets
