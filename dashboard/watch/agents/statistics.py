"""The agents of a scenario with their figures, and the counting of each one's votes."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import quote

import msgspec
import structlog
from django.db import transaction
from django.db.models import Case, F, Q, QuerySet, Sum, When
from django.db.models.functions import Coalesce

from dashboard.core.common.models import named_fields
from dashboard.core.common.navigation import agent_path
from dashboard.core.common.tables import Column, Table
from dashboard.core.common.times import HOUR_MS, span
from dashboard.core.states.board_rows import asset_path
from dashboard.core.states.models import CHANGE, AssetState, Transition
from dashboard.watch.agents import faults as agent_faults
from dashboard.watch.agents.fault_words import KINDS, FaultText, said
from dashboard.watch.agents.faults import DETAIL, FLAPPING, OF_ALL_VOTES, faults_of
from dashboard.watch.agents.findings import Evidence, evidence
from dashboard.watch.agents.models import Agent, AgentHour, Dissent, Walk
from dashboard.watch.agents.mutes import ActiveMute, Mutes
from dashboard.watch.agents.reports import NONE, OFF_MS, Late, of_the_day, reason
from domain.names import USER_PREFIX, name_ok
from domain.scenario import Scenario
from wire.sink import BriefVote, cause_value, votes_value

# ---- vote counts ---------------------------------------------------------------------------------
# Counting every agent's votes, live and silent, and those that differ, a portion of the board at a
# time.
#
# A state record holds its votes only as JSON, so the rows are walked by their key, so many in a
# run; the figures are those of the last complete walk.

log = structlog.get_logger(__name__)

PORTION = 200_000
"""Rows per run, one a minute: a larger board takes more minutes for a whole walk."""
MAX_AGENTS = 10_000
"""Most agents whose votes are counted; others are left out, and logged."""
MAX_DISSENTS = 20
"""Most differing votes that are kept for an agent, newest first."""
CHUNK = 500
FIGURES = ("votes", "against", "silent", "silent_since")
"""The figures counted for an agent, as its row names them."""


DifferingVote = tuple[int, str, str, str]
"""A vote that differs: when it was reported (ms), the asset, what it says, what all votes make."""


@dataclass
class VoteCounts:
    """The counts of one agent: its live votes, and those that differ from what all votes make.

    silent: how many of its votes are silent; silent_since: the longest of them, ms; faults: what is
    wrong with votes that are not in doubt, by kind.
    """

    scenario: str
    agent: str
    votes: int = 0
    against: int = 0
    last: int = 0
    dissents: list[DifferingVote] = field(default_factory=list)
    silent: int = 0
    silent_since: int | None = None
    faults: dict[str, agent_faults.FaultCount] = field(default_factory=dict)

    def add(self, vote: BriefVote, asset: str, made: str | None) -> None:
        """Count one more vote, on an asset whose votes together make `made`."""
        self.last = max(self.last, vote.time)
        self._add_faults(vote)
        if vote.silent is not None:
            self.silent += 1
            self.silent_since = min(vote.silent, self.silent_since or vote.silent)
            return
        self.votes += 1
        if made is None or vote.state == made:
            return
        self.against += 1
        heapq.heappush(self.dissents, (vote.time, asset, vote.state, made))
        if len(self.dissents) > MAX_DISSENTS:
            heapq.heappop(self.dissents)

    def _add_faults(self, vote: BriefVote) -> None:
        """Count a vote that flaps, or whose detail was left out."""
        if vote.flapping is not None:
            flap = vote.flapping
            self._add_fault(FLAPPING, agent_faults.FaultCount(1, flap.time, flap.time, flap.state))
        if vote.detail_fault is not None:
            fault = vote.detail_fault
            self._add_fault(DETAIL, agent_faults.FaultCount(1, vote.time, vote.time, fault))

    def _add_fault(self, kind: str, more: agent_faults.FaultCount) -> None:
        known = self.faults.get(kind)
        self.faults[kind] = more if known is None else known.plus(more)


Tally = dict[tuple[str, str], VoteCounts]


def walk(now: int, portion: int = PORTION) -> bool:
    """Count a portion of the rows.

    Returns whether it was the last one, which renews the figures.
    """
    at, _ = Walk.objects.get_or_create(pk=1)
    tally = {(each.scenario, each.agent): each for each in _load(at.tally)}
    rows = AssetState.objects.filter(pk__gt=at.after, purged=False).order_by("pk")
    walked, after = 0, at.after
    for key, scenario, asset, record in rows.values_list("pk", "scenario", "asset", "record")[
        :portion
    ].iterator(2_000):
        _count(tally, scenario, asset, record)
        walked, after = walked + 1, key
    done = walked < portion
    if done:
        _publish(tally.values(), now)
    text = "[]" if done else msgspec.json.encode(list(tally.values())).decode()
    Walk.objects.filter(pk=at.pk).update(after=0 if done else after, tally=text)
    return done


def _load(text: str) -> list[VoteCounts]:
    try:
        return msgspec.json.decode(text, type=list[VoteCounts])
    except msgspec.MsgspecError:  # from another release: start again
        return []


def _count(tally: Tally, scenario: str, asset: str, text: str) -> None:
    record = votes_value(text)
    made = record.override.underlying if record.override else record.state
    for vote in record.votes:
        counted = tally.get((scenario, vote.agent))
        if counted is None:
            if vote.agent.startswith(USER_PREFIX) or not name_ok(vote.agent):
                continue
            if len(tally) >= MAX_AGENTS:
                log.warning("more agents than are counted", most=MAX_AGENTS, agent=vote.agent)
                continue
            counted = tally[scenario, vote.agent] = VoteCounts(scenario, vote.agent)
        counted.add(vote, asset, made)


def _publish(counts: Iterable[VoteCounts], now: int) -> None:
    """Replace the figures by those of a whole walk."""
    counted = list(counts)
    with transaction.atomic():
        Dissent.objects.all().delete()
        Dissent.objects.bulk_create(_dissents(counted), batch_size=CHUNK)
        Agent.objects.bulk_create(
            [_row(each, now) for each in counted],
            update_conflicts=True,
            unique_fields=["scenario", "agent"],
            update_fields=[*FIGURES, "counted_at"],
            batch_size=CHUNK,
        )
        Agent.objects.filter(counted_at__lt=now).update(
            votes=0, against=0, silent=0, silent_since=None, counted_at=now
        )
        agent_faults.publish_fault_counts(_faults(counted), OF_ALL_VOTES)


def _faults(counted: Iterable[VoteCounts]) -> agent_faults.Counts:
    return {
        (each.scenario, each.agent, kind): fault
        for each in counted
        for kind, fault in each.faults.items()
    }


def _dissents(counted: Iterable[VoteCounts]) -> list[Dissent]:
    return [
        Dissent(scenario=each.scenario, agent=each.agent, asset=asset, said=said, made=made, at=at)
        for each in counted
        for at, asset, said, made in each.dissents
    ]


def _row(each: VoteCounts, now: int) -> Agent:
    own = named_fields(each, ("scenario", "agent", *FIGURES))
    return Agent(**own, first_seen=each.last, last_seen=each.last, counted_at=now)


# ---- statistics ----------------------------------------------------------------------------------
# The agents of a scenario with their figures, for the page. Times in Unix ms.

MOST = 500
"""Most agents that a page lists: the muted, and those seen last."""
DAY_HOURS = 24
SEARCHED = 5_000
"""How many of the newest changes in all scenarios are searched for those that an agent caused."""
MOST_CAUSED = 20

AGENTS = Table(
    "agents",
    "Agent",
    Column.time(
        "Status", "what is wrong with it, and what to do; who muted it, until when and why"
    ),
    Column.time("Last seen", "its newest live vote"),
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
    Column.number("Votes on", "assets with a live vote of its own, at the last count"),
    Column.number("Differs", "share of its live votes that differ from the tally of all votes"),
    Column.number("Changes", "changes of a state that its reports caused in the last 24 hours"),
    Column.number("Of all", "its share of all changes of a state in the last 24 hours"),
    css="agents",
)
DIFFERING = Table("agent-differs", "Asset", "Its vote", "All votes", Column.time("Reported"))
CAUSED = Table("agent-caused", "Asset", "From", "To", Column.time("When"))


class AgentFigures(NamedTuple):
    """An agent's figures.

    rate: state records a minute that its reports caused in the last hour; changes: state changes in
    the last day; share: of all changes then; held: its mute.

    late: what came too late, or was refused, in the last day; why: why it recently came too late,
    in words; clock: how far its clock is off, ms, negative if behind, None if unknown; silent_on:
    on how many assets its last word is silent; silent_since: the longest of them; fares: its
    condition in a word or two if nothing is wrong; faults: what is wrong with it, most important
    first.
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
    held: ActiveMute | None
    silent: bool
    late: Late
    why: str
    clock: int | None
    silent_on: int
    silent_since: int | None
    fares: str
    faults: tuple[FaultText, ...]

    @property
    def rank(self) -> int:
        """Return its sort rank: the muted first, then by fault, then agents without faults."""
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
        """Return the URL of the agent's page."""
        return agent_path(self.scenario.name, self.agent)

    @property
    def quoted(self) -> str:
        """Return scenario and agent as the end of a URL."""
        return f"{quote(self.scenario.name, safe='')}/{quote(self.agent, safe='')}/"

    @property
    def differing(self) -> float | None:
        """Return the percentage of its live votes that differ; None if it has none.

        Also None in a life cycle, where each step but the newest differs, and rightly so.
        """
        if not self.votes or self.scenario.life_cycle:
            return None
        return 100 * self.against / self.votes


class Caused(NamedTuple):
    """A state change that an agent's report caused."""

    asset: str
    url: str
    at: int
    previous: str
    state: str


def listed(scenario: Scenario, held: Mutes, now: int) -> tuple[list[AgentFigures], int]:
    """Return the agents that the page lists, and how many there are in all.

    The muted come first, then those with faults, then those seen last. Agents are included of which
    nothing is known except that they are muted, or that their reports came too late or were
    refused: such reports change no vote, so no record names them.
    """
    known = Agent.objects.filter(scenario=scenario.name)
    muted = Case(When(agent__in=list(held), then=0), default=1)
    agents = list(known.order_by(muted, "-last_seen", "agent")[:MOST])
    late, agent_evidence = of_the_day(scenario, None, now), evidence(scenario, now)
    others = held.keys() | late.keys() | agent_evidence.on_board.keys()
    names = sorted(
        others - {row.agent for row in agents}, key=lambda name: (name not in held, name)
    )
    more = Agent.objects.named(scenario.name, names[:MOST])
    unseen = sum(row.pk is None for row in more)
    rows = _rows(scenario, agents + more, late, agent_evidence, held, now)
    rows.sort(key=lambda row: (row.rank, -row.last_seen, row.agent))
    return rows, known.count() + unseen


def one(scenario: Scenario, agent: str, held: Mutes, now: int) -> AgentFigures | None:
    """Return one agent, or None if nothing is known about it."""
    [row] = Agent.objects.named(scenario.name, [agent])
    late, agent_evidence = of_the_day(scenario, [agent], now), evidence(scenario, now, [agent])
    if row.pk is None and agent not in {*held, *late, *agent_evidence.on_board}:
        return None
    return _rows(scenario, [row], late, agent_evidence, held, now)[0]


def _rows(
    scenario: Scenario,
    agents: list[Agent],
    late: Mapping[str, Late],
    agent_evidence: Evidence,
    held: Mutes,
    now: int,
) -> list[AgentFigures]:
    hours = _hours(scenario.name, [each.agent for each in agents], now)
    return [
        _statistic_row(scenario, each, hours, late.get(each.agent, NONE), agent_evidence, held, now)
        for each in agents
    ]


def differing(scenario: Scenario, agent: str) -> QuerySet[Dissent]:
    """Return its newest votes that differed when the votes were last counted."""
    return Dissent.objects.filter(scenario=scenario.name, agent=agent).order_by("-at", "asset")


def caused(scenario: Scenario, agent: str) -> list[Caused]:
    """Return the newest changes that its reports caused, among the newest SEARCHED of all."""
    steps = Transition.objects.order_by("-pk")[:SEARCHED]
    rows = steps.values_list(
        "scenario", "kind", "cause_type", "cause", "asset", "at", "previous", "state"
    )
    changes = []
    for name, kind, cause_type, cause, asset, at, previous, state in rows.iterator(500):
        if (name, kind, cause_type) != (scenario.name, CHANGE, "report"):
            continue
        if cause_value(cause).agent == agent:
            changes.append(Caused(asset, asset_path(name, asset), at, previous, state))
            if len(changes) == MOST_CAUSED:
                break
    return changes


class _Hours(NamedTuple):
    """The sums for an agent over the last day.

    now, before: its records in this hour, and in the one before.
    """

    records: int
    changes: int
    now: int
    before: int


_NONE = _Hours(0, 0, 0, 0)


def _hours(scenario: str, agents: list[str], now: int) -> dict[str, _Hours]:
    """Return the sums by agent; the empty name has those of the scenario."""
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


def _statistic_row(
    scenario: Scenario,
    each: Agent,
    hours: dict[str, _Hours],
    late: Late,
    agent_evidence: Evidence,
    held: Mutes,
    now: int,
) -> AgentFigures:
    of, every = hours.get(each.agent, _NONE), hours.get("", _NONE)
    past = now % HOUR_MS / HOUR_MS
    known = agent_evidence.known(each)
    faults = faults_of(scenario, known, now)
    return AgentFigures(
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
        silent=each.is_unseen(now),
        late=late,
        why=reason(known.lately.sums, known.clock),
        clock=known.clock,
        silent_on=each.silent,
        silent_since=each.silent_since,
        fares=each.condition(now),
        faults=tuple(said(scenario, each.agent, fault) for fault in faults),
    )
