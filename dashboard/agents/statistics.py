"""The agents of a scenario with their figures, as the page shows them. Times in Unix ms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import quote

from django.db.models import Case, F, Q, Sum, When
from django.db.models.functions import Coalesce

from dashboard.agents.fault_words import KINDS, Said, said
from dashboard.agents.faults import faults_of, is_unseen
from dashboard.agents.findings import Evidence, agents_named, evidence
from dashboard.agents.late_reports import NONE, OFF_MS, Late, of_the_day, reason
from dashboard.agents.models import Agent, AgentHour, Dissent
from dashboard.agents.mutes import Held, Mutes
from dashboard.core.paths import agent_path
from dashboard.core.tables import Column, Table
from dashboard.core.times import HOUR_MS, MINUTE_MS, span
from dashboard.states.board_rows import asset_path
from dashboard.states.models import CHANGE, Transition
from domain.scenario import Scenario
from wire.sink import cause_value

MOST = 500
"""Most agents that a page lists: the muted, and those seen last."""
DAY_HOURS = 24
NEW_MS = 5 * MINUTE_MS
"""The votes of an agent that was seen so lately may not be counted yet."""
SEARCHED = 5_000
"""How many of the newest changes of all scenarios are searched for those that an agent caused."""
MOST_CAUSED = 20

AGENTS = Table(
    "agents",
    "Agent",
    Column.time(
        "Status", "what is wrong with it, and what to do; who muted it, until when and why"
    ),
    Column.time("Last seen", "the newest of its live votes that a record told"),
    Column.number(
        "Too late",
        "reports of the last 24 hours that came too late to count: dropped, or taken as its last "
        "word alone",
    ),
    Column.time("Clock", "how far its own clock is off, by the newest of its reports"),
    Column.number(
        "Records/min",
        "state records a minute from its reports, in the last hour; a report without a change "
        "makes one every 30 s at most",
    ),
    Column.number("Votes on", "assets with a live vote of its, as counted last"),
    Column.number("Differs", "share of its live votes that differ from what all votes make"),
    Column.number(
        "Changes", "changes of a state that its reports brought about in the last 24 hours"
    ),
    Column.number("Of all", "its share of all changes of a state in the last 24 hours"),
    css="agents",
)
DIFFERING = Table("agent-differs", "Asset", "It says", "All make", Column.time("Reported"))
CAUSED = Table("agent-caused", "Asset", "From", "To", Column.time("When"))


class Row(NamedTuple):
    """An agent. rate: state records a minute that its reports brought about in the last hour;
    changes: of a state, in the last day; share: of all changes then; held: its mute.

    late: what came too late, or was refused, in the last day; why: why it came too late of late, in
    words; clock: how far its clock is off, ms, below 0: behind, None where that is not known;
    silent_on: on how many assets its last word is silent, silent_since: the longest of them;
    fares: how it fares in a word or two, where nothing is wrong; faults: what is wrong with it, the
    most important first.
    """

    scenario: Scenario
    agent: str
    first_seen: int
    last_seen: int
    gap: int
    rate: float
    votes: int
    against: int
    records: int
    changes: int
    share: float
    held: Held | None
    silent: bool
    late: Late
    why: str
    clock: int | None
    silent_on: int
    silent_since: int | None
    fares: str
    faults: tuple[Said, ...]

    @property
    def rank(self) -> int:
        """Return its place among the others: the muted, then what is wrong, then who fares well."""
        if self.held:
            return 0
        return 1 + KINDS.index(self.faults[0].kind) if self.faults else 1 + len(KINDS)

    @property
    def off(self) -> str:
        """Return how far its clock is off, in words."""
        if self.clock is None or abs(self.clock) < OFF_MS:
            return ""
        return f"{span(abs(self.clock))} {'behind' if self.clock < 0 else 'ahead'}"

    @property
    def url(self) -> str:
        """Return the address of the agent's page."""
        return agent_path(self.scenario.name, self.agent)

    @property
    def quoted(self) -> str:
        """Return scenario and agent as the end of an address."""
        return f"{quote(self.scenario.name, safe='')}/{quote(self.agent, safe='')}/"

    @property
    def differing(self) -> float | None:
        """Return the share of its live votes that differ, in percent; None without any, and of a
        life cycle: each step but the newest differs there, and is right."""
        if not self.votes or self.scenario.life_cycle:
            return None
        return 100 * self.against / self.votes


class Caused(NamedTuple):
    """A change of a state that an agent's report brought about."""

    asset: str
    url: str
    at: int
    previous: str
    state: str


class Differing(NamedTuple):
    """A live vote that differs from what all votes make."""

    asset: str
    url: str
    at: int
    said: str
    made: str


def listed(scenario: Scenario, held: Mutes, now: int) -> tuple[list[Row], int]:
    """Return the agents that the page lists, and how many there are: the muted first, then those
    with which something is wrong, then those seen last.

    Agents of which nothing is known but that they are muted, or that their reports came too late or
    were refused, are included: these change no vote, so that no record names them.
    """
    known = Agent.objects.filter(scenario=scenario.name)
    muted = Case(When(agent__in=list(held), then=0), default=1)
    agents = list(known.order_by(muted, "-last_seen", "agent")[:MOST])
    late, told = of_the_day(scenario, None, now), evidence(scenario, now)
    others = held.keys() | late.keys() | told.on_board.keys()
    names = sorted(
        others - {row.agent for row in agents}, key=lambda name: (name not in held, name)
    )
    more = agents_named(scenario, names[:MOST])
    unseen = sum(row.pk is None for row in more)
    rows = _rows(scenario, agents + more, late, told, held, now)
    rows.sort(key=lambda row: (row.rank, -row.last_seen, row.agent))
    return rows, known.count() + unseen


def one(scenario: Scenario, agent: str, held: Mutes, now: int) -> Row | None:
    """Return one agent, or None where nothing is known of it."""
    [row] = agents_named(scenario, [agent])
    late, told = of_the_day(scenario, [agent], now), evidence(scenario, now, [agent])
    if row.pk is None and agent not in {*held, *late, *told.on_board}:
        return None
    return _rows(scenario, [row], late, told, held, now)[0]


def _rows(
    scenario: Scenario,
    agents: list[Agent],
    late: Mapping[str, Late],
    told: Evidence,
    held: Mutes,
    now: int,
) -> list[Row]:
    hours = _hours(scenario.name, [each.agent for each in agents], now)
    return [
        _row(scenario, each, hours, late.get(each.agent, NONE), told, held, now) for each in agents
    ]


def differing(scenario: Scenario, agent: str) -> list[Differing]:
    """Return its newest votes that differed when the votes were last counted."""
    dissents = Dissent.objects.filter(scenario=scenario.name, agent=agent).order_by("-at", "asset")
    return [
        Differing(each.asset, asset_path(scenario.name, each.asset), each.at, each.said, each.made)
        for each in dissents
    ]


def caused(scenario: Scenario, agent: str) -> list[Caused]:
    """Return the newest changes that its reports caused, among the newest SEARCHED of all."""
    steps = Transition.objects.order_by("-pk")[:SEARCHED]
    wanted = steps.values_list(
        "scenario", "kind", "cause_type", "cause", "asset", "at", "previous", "state"
    )
    changes = []
    for name, kind, cause_type, cause, asset, at, previous, state in wanted.iterator(500):
        if (name, kind, cause_type) != (scenario.name, CHANGE, "report"):
            continue
        if cause_value(cause).agent == agent:
            changes.append(Caused(asset, asset_path(name, asset), at, previous, state))
            if len(changes) == MOST_CAUSED:
                break
    return changes


class _Hours(NamedTuple):
    """The sums of an agent over the last day.

    now, before: its records in this hour, and the last.
    """

    records: int
    changes: int
    now: int
    before: int


_NONE = _Hours(0, 0, 0, 0)


def _hours(scenario: str, agents: list[str], now: int) -> dict[str, _Hours]:
    """Return the sums by agent; under the empty name those of the scenario."""
    hour = now // HOUR_MS
    rows = AgentHour.objects.filter(scenario=scenario, hour__gt=hour - DAY_HOURS)
    sums = (
        rows.filter(agent__in=["", *agents])
        .values("agent")
        .annotate(
            all=Sum("records"),
            changed=Sum("changes"),
            now=Coalesce(Sum("records", filter=Q(hour=hour)), 0),
            before=Coalesce(Sum("records", filter=Q(hour=hour - 1)), 0),
        )
        .order_by()
    )
    figures_by_agent = sums.values_list(F("agent"), F("all"), F("changed"), F("now"), F("before"))
    return {name: _Hours(*figures) for name, *figures in figures_by_agent}


def _row(
    scenario: Scenario,
    each: Agent,
    hours: dict[str, _Hours],
    late: Late,
    told: Evidence,
    held: Mutes,
    now: int,
) -> Row:
    of, every = hours.get(each.agent, _NONE), hours.get("", _NONE)
    past = now % HOUR_MS / HOUR_MS
    known = told.known(each)
    faults = faults_of(scenario, known, now)
    return Row(
        scenario=scenario,
        agent=each.agent,
        first_seen=each.first_seen,
        last_seen=each.last_seen,
        gap=each.gap,
        rate=(of.now + of.before * (1 - past)) / 60,
        votes=each.votes,
        against=each.against,
        records=of.records,
        changes=of.changes,
        share=100 * of.changes / every.changes if every.changes else 0.0,
        held=held.get(each.agent),
        silent=is_unseen(each, now),
        late=late,
        why=reason(known.lately.sums, known.clock),
        clock=known.clock,
        silent_on=each.silent,
        silent_since=each.silent_since,
        fares=_fares(each, now),
        faults=tuple(said(scenario, each.agent, fault) for fault in faults),
    )


def _fares(agent: Agent, now: int) -> str:
    """Return how an agent fares with which nothing is wrong."""
    if not agent.last_seen:
        return "not seen"
    if agent.left_at >= agent.last_seen:
        return "left"
    return "well" if agent.votes or now - agent.last_seen < NEW_MS else "no live vote"
