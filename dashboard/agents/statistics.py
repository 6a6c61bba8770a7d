"""The agents of a scenario with their figures, as the page shows them. Times in Unix ms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import quote

from django.db.models import Case, F, Q, Sum, When
from django.db.models.functions import Coalesce

from dashboard.agents.late_reports import NONE, OFF_MS, Late, clock_now, lately, of_the_day, reason
from dashboard.agents.models import Agent, AgentHour, Dissent
from dashboard.agents.mutes import Held, Mutes
from dashboard.core.paths import agent_path
from dashboard.core.tables import Column, Table
from dashboard.core.times import HOUR_MS, span
from dashboard.states.board_rows import asset_path
from dashboard.states.models import CHANGE, Transition
from domain.scenario import Scenario
from wire.sink import cause_value

MOST = 500
"""Most agents that a page lists: the muted, and those seen last."""
DAY_HOURS = 24
SILENT_GAPS = 3
"""An agent is silent when it was not seen for so many times its usual gap."""
LEAST_GAP_MS = 30_000
"""A report that changes nothing is told once in so long, so nobody is silent sooner."""
SEARCHED = 5_000
"""How many of the newest changes of all scenarios are searched for those that an agent caused."""
MOST_CAUSED = 20

AGENTS = Table(
    "agents",
    "Agent",
    "Status",
    Column.time("Last seen", "the newest of its live votes that a record told"),
    Column.number(
        "Too late",
        "reports of the last 24 hours that came too late to count: dropped, or taken as its last "
        "word alone",
    ),
    Column.time("Clock", "how far its own clock is off, by the newest of its reports"),
    Column.time(
        "Silent since",
        "since when a vote of its has been silent, the longest of them, as counted last",
    ),
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
    "Muted by, why",
    css="agents",
)
DIFFERING = Table("agent-differs", "Asset", "It says", "All make", Column.time("Reported"))
CAUSED = Table("agent-caused", "Asset", "From", "To", Column.time("When"))


class Row(NamedTuple):
    """An agent. rate: state records a minute that its reports brought about in the last hour;
    changes: of a state, in the last day; share: of all changes then; held: its mute.

    late: what came too late in the last day; why: of late, in words; clock: how far its clock is
    off, ms, below 0: behind, None where that is not known; silent_on: on how many assets its last
    word is silent, silent_since: the longest of them.
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
    def differing(self) -> float:
        """Return the share of its live votes that differ, in percent."""
        return 100 * self.against / self.votes if self.votes else 0.0


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
    """Return the agents that the page lists, and how many there are.

    Agents of which nothing is known but that they are muted, or that their reports came too late,
    are included: these change nothing, so that no record names them.
    """
    known = Agent.objects.filter(scenario=scenario.name)
    muted = Case(When(agent__in=list(held), then=0), default=1)
    agents = list(known.order_by(muted, "-last_seen", "agent")[:MOST])
    late = of_the_day(scenario, None, now)
    others = (held.keys() | late.keys()) - {each.agent for each in agents}
    shown = sorted(others, key=lambda name: (name not in held, name))[:MOST]
    there = {each.agent: each for each in known.filter(agent__in=shown)}
    agents += [there.get(name) or _unseen(scenario, name) for name in shown]
    rows = _rows(scenario, agents, late, held, now)
    return rows, known.count() + len(shown) - len(there)


def one(scenario: Scenario, agent: str, held: Mutes, now: int) -> Row | None:
    """Return one agent, or None where nothing is known of it."""
    row = Agent.objects.filter(scenario=scenario.name, agent=agent).first()
    late = of_the_day(scenario, [agent], now)
    if row is None and agent not in held and agent not in late:
        return None
    return _rows(scenario, [row or _unseen(scenario, agent)], late, held, now)[0]


def _unseen(scenario: Scenario, name: str) -> Agent:
    """Return an agent that no state record names."""
    return Agent(scenario=scenario.name, agent=name, first_seen=0, last_seen=0)


def _rows(
    scenario: Scenario, agents: list[Agent], late: Mapping[str, Late], held: Mutes, now: int
) -> list[Row]:
    names = [each.agent for each in agents]
    hours, recent = _hours(scenario.name, names, now), lately(scenario, names, now)
    return [
        _row(scenario, each, hours, late.get(each.agent, NONE), recent, held, now)
        for each in agents
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
    recent: Mapping[str, Late],
    held: Mutes,
    now: int,
) -> Row:
    of, every = hours.get(each.agent, _NONE), hours.get("", _NONE)
    past = now % HOUR_MS / HOUR_MS
    of_late = recent.get(each.agent, NONE)
    clock = clock_now(of_late, each.clock, each.last_seen)
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
        silent=is_silent(each.last_seen, each.gap, now),
        late=late,
        why=reason(of_late, clock),
        clock=clock,
        silent_on=each.silent,
        silent_since=each.silent_since,
    )


def is_silent(last_seen: int, gap: int, now: int) -> bool:
    """Return whether an agent was not seen for SILENT_GAPS of its usual gaps."""
    return gap > 0 and now - last_seen > SILENT_GAPS * max(gap, LEAST_GAP_MS)
