"""What a rule would have sent: rehearsed on the incidents and on the findings about agents that
there were, by the same machine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from django.db.models import Q

from dashboard.agents.models import AgentFinding
from dashboard.annotations.models import Acknowledgement
from dashboard.core.chunks import STATEMENT, chunks
from dashboard.core.scenarios import scenarios
from dashboard.incidents.models import Incident, real
from dashboard.labels.queries import labels_of
from dashboard.notifications import texts
from dashboard.notifications.happenings import Assets, Maintenance, agent_event
from dashboard.notifications.ingestion import AGENT_KIND_OF
from dashboard.notifications.ingestion import agent_event as stored_event
from dashboard.notifications.models import Channel, Rota
from dashboard.states.models import CHANGE, Transition
from dashboard.states.queries import listed
from domain.notifications.events import BEGUN, CHANGED, ENDED, MARKED, Ack, Event
from domain.notifications.group import SUMMARY
from domain.notifications.machine import REASONS, Hold, Send, Summary, World
from domain.notifications.rehearsal import Played, Rehearsal
from domain.notifications.rule import Rule

MOST_INCIDENTS = 5_000
"""Most incidents, and most findings about agents, that are rehearsed, the newest."""


class Previewed(NamedTuple):
    """A message that a rule would have sent, or held back, at a time, Unix ms.

    stage: the first that it would have gone to, from 0; targets: the names of the channels and
    rotas of its stages; incidents: how many it tells of; reason: why it was held back, empty where
    it was sent.
    """

    at: int
    kind: str
    subject: str
    text: str
    stage: int
    targets: list[str]
    incidents: int
    reason: str = ""


class Preview(NamedTuple):
    """What a rule would have done, in order: the messages that it would have sent, and those that
    it would have held back. incidents: how many there were to look at, and findings: how many about
    agents; is_cut: whether there was more than was looked at."""

    messages: list[Previewed]
    held: list[Previewed]
    incidents: int
    is_cut: bool
    findings: int = 0


def preview(rule: Rule, since: int, until: int) -> Preview:
    """Return what a rule would have sent between two times (Unix ms), by the incidents and findings
    of that time, with the labels that assets have now."""
    rows, more = _incidents(rule, since, until)
    found = _findings(rule, since, until)
    labels = _labels(rows)
    wanted = [row for row in rows if rule.wants(labels.get((row.scenario, row.asset), {}))]
    events = [*_events(wanted, labels, since, until), *_agent_events(found, until)]
    events.sort(key=lambda event: event.at)
    assets: Assets = {}
    for row in wanted:
        assets.setdefault(row.scenario, set()).add(row.asset)
    begin = min((row.began_at for row in wanted), default=since)
    world = World(scenarios(), Maintenance(assets, begin, until + 1).holds)
    rehearsal = Rehearsal(rule, world)
    played = [each for each in rehearsal.play(events, until) if each.at >= since]
    names = _Names(rule)
    messages = [names.sent(each) for each in played if isinstance(each.action, Send | Summary)]
    held = [names.held(each.at, each.action) for each in played if isinstance(each.action, Hold)]
    is_cut = more or len(found) == MOST_INCIDENTS or rehearsal.is_cut
    return Preview(messages, held, len(rows), is_cut, len(found))


def _incidents(rule: Rule, since: int, until: int) -> tuple[list[Incident], bool]:
    """Return the newest incidents that began between two times, and whether there are more."""
    if not rule.incidents:
        return [], False
    rows = real().filter(began_at__gte=since, began_at__lt=until, scenario__in=scenarios())
    if rule.scenarios:
        rows = rows.filter(scenario__in=rule.scenarios)
    newest = list(rows.order_by("-began_at", "-pk")[: MOST_INCIDENTS + 1])
    return newest[:MOST_INCIDENTS], len(newest) > MOST_INCIDENTS


def _findings(rule: Rule, since: int, until: int) -> list[AgentFinding]:
    """Return the newest findings that were found between two times, and that a rule tells."""
    kinds = [kind for kind, name in AGENT_KIND_OF.items() if name in rule.agents]
    names = rule.scenarios or tuple(scenarios())
    rows = AgentFinding.objects.filter(found_at__gte=since, found_at__lt=until, kind__in=kinds)
    wanted = [name for name in names if name in scenarios()]
    return list(rows.filter(scenario__in=wanted).order_by("-found_at", "-pk")[:MOST_INCIDENTS])


def _agent_events(rows: Iterable[AgentFinding], until: int) -> Iterator[Event]:
    """Yield the begin and the end of findings, in any order."""
    for row in rows:
        yield agent_event(stored_event(row, BEGUN, row.found_at, row.found_at))
        if row.ended_at is not None and row.ended_at <= until:
            yield agent_event(stored_event(row, ENDED, row.ended_at, row.ended_at))


def _by_scenario(rows: Iterable[Incident]) -> dict[str, list[Incident]]:
    found: dict[str, list[Incident]] = {}
    for row in rows:
        found.setdefault(row.scenario, []).append(row)
    return found


Labels = dict[tuple[str, str], dict[str, str]]


def _labels(rows: Iterable[Incident]) -> Labels:
    return {
        (scenario, asset): labels
        for scenario, incidents in _by_scenario(rows).items()
        for asset, labels in labels_of(scenario, {row.asset for row in incidents}).items()
    }


def _events(rows: list[Incident], labels: Labels, since: int, until: int) -> Iterator[Event]:
    """Yield what happened to incidents, in any order."""
    for scenario, incidents in _by_scenario(rows).items():
        for chunk in chunks(incidents, STATEMENT):
            yield from _changes(scenario, chunk, labels, until)
            yield from _marks(scenario, {row.asset for row in chunk}, since, until)


def _changes(scenario: str, rows: list[Incident], labels: Labels, until: int) -> Iterator[Event]:
    moves = _transitions(scenario, rows)
    for row in rows:
        own = labels.get((row.scenario, row.asset), {})
        during = [
            move
            for move in moves.get(row.asset, ())
            if move.place >= row.place and (row.ended_at is None or move.at < row.ended_at)
        ]
        # The history may be gone sooner than the incident: then its worst state stands for all.
        began = during[0].state if during and during[0].place == row.place else row.worst
        first = Event(BEGUN, row.scenario, row.asset, row.began_at, row.place, began, own)
        yield first
        for move in during:
            if move.place > row.place and move.at <= until:
                yield Event(CHANGED, row.scenario, row.asset, move.at, row.place, move.state, own)
        if row.ended_at is not None and row.ended_at <= until:
            yield Event(ENDED, row.scenario, row.asset, row.ended_at, row.place)


def _transitions(scenario: str, rows: list[Incident]) -> dict[str, list[Transition]]:
    """Return the changes to states that are not good, from the first of these incidents on, by
    asset and in order."""
    first = min(row.place for row in rows)
    found = Transition.objects.filter(
        scenario=scenario,
        asset__in=listed(sorted({row.asset for row in rows})),
        kind=CHANGE,
        at__gte=min(row.began_at for row in rows),
    ).exclude(Q(state="") | Q(state__in=scenarios()[scenario].good_states))
    moves: dict[str, list[Transition]] = {}
    for move in found.filter(place__gte=first).order_by("place"):
        moves.setdefault(move.asset, []).append(move)
    return moves


def _marks(scenario: str, assets: set[str], since: int, until: int) -> Iterator[Event]:
    acks = Acknowledgement.objects.filter(
        scenario=scenario, asset__in=listed(sorted(assets)), at__gte=since, at__lte=until
    )
    for ack in acks:
        given = Ack(ack.until, ack.severity)
        yield Event(MARKED, scenario, ack.asset, ack.at, ack=given)
        if ack.ended_at is not None and ack.ended_why == "taken back" and ack.ended_at <= until:
            yield Event(MARKED, scenario, ack.asset, ack.ended_at)


class _Names:
    """The messages of a rehearsal in words, with the names of those whom they would go to."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self._channels = {row.pk: row.name for row in Channel.objects.all()}
        self._rotas = {row.pk: row.name for row in Rota.objects.all()}

    def sent(self, played: Played) -> Previewed:
        """Return a message that would have been sent."""
        action = played.action
        assert isinstance(action, Send | Summary)
        parts = action.parts if isinstance(action, Summary) else (action,)
        stages = sorted({stage for part in parts for stage in part.stages})
        incidents = sum(len(part.members) for part in parts)
        if isinstance(action, Summary):
            kind, subject = SUMMARY, texts.summary_subject(action)
            text = "\n".join(texts.subject(part) for part in parts)
        else:
            kind, subject = action.kind, texts.subject(action)
            text = texts.as_text(texts.worst_first(action), "", "")
        return Previewed(
            played.at, kind, subject, text, stages[0], self._targets(stages), incidents
        )

    def held(self, at: int, hold: Hold) -> Previewed:
        """Return a message that would have been held back."""
        reason = REASONS[hold.reason]
        return Previewed(at, hold.kind, hold.key, "", 0, self._targets([0]), 0, reason)

    def _targets(self, stages: Iterable[int]) -> list[str]:
        """Return the names of whom these stages reach, each once."""
        names: dict[str, None] = {}
        for number in stages:
            stage = self.rule.stages[number]
            names |= dict.fromkeys(self._channels.get(pk, f"channel {pk}") for pk in stage.channels)
            names |= dict.fromkeys(self._rotas.get(pk, f"rota {pk}") for pk in stage.rotas)
        return list(names)
