"""Findings about agents: banners show them, rules send them; they are kept until they end."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple, cast, get_args

from django.db import transaction
from django.db.models import Min
from django.dispatch import Signal

from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.sql import lock_until_commit
from dashboard.core.common.times import span
from dashboard.core.job.agent_findings import AgentNews, Finding, Kind, LastSeen
from dashboard.core.job.models import BucketStatus
from dashboard.core.job.pipelines import reporter_of
from dashboard.core.job.status import clocks_behind
from dashboard.watch.agents.fault_words import line, said
from dashboard.watch.agents.faults import (
    EXPECTED_MS,
    AgentFacts,
    Fault,
    count_doubts,
    faults_of,
)
from dashboard.watch.agents.models import (
    MAX_WORDS,
    Agent,
    AgentFinding,
    LastReport,
    LateMinute,
    VoteFault,
)
from dashboard.watch.agents.mutes import mutes
from dashboard.watch.agents.reports import Lately, lately
from domain.scenario import Scenario

# ---- findings ------------------------------------------------------------------------------------
# What is known about agents from the database, and what banners and notifications report of it.
#
# A fault is reported once it has lasted for some seconds and shows on several assets; if assets do
# not show it, as with dropped reports, once such reports came in several minutes. It is no longer
# reported when no cause of it has come for a vote's lifetime. Nothing is reported about muted
# agents, nor about an agent's clock if a broker's clock is the one that is wrong.

REPORTED_KINDS: tuple[Kind, ...] = get_args(Kind)
"""The faults that are reported, most important first."""
LASTED_MS = 10_000
SEVERAL_ASSETS = 2
SEVERAL_MINUTES = 2
"""In fewer minutes than this, reports may have come from a spool."""
NO_LONGER_EXPECTED = f", not seen for {span(EXPECTED_MS)} and no longer expected"
"""So ends a silence that nobody has ended: it is no good news."""
MOST_AGENTS = 1_000
"""Most agents of a scenario that are checked for silence: those seen last."""


# ---- what is known ------------------------------------------------------------------------------


class Evidence(NamedTuple):
    """What is known about a scenario's agents besides their own rows.

    By agent, their late, refused and doubtful reports and what the board holds against their votes;
    seen: the two agents seen last; log_time: the least clock of the scenario's buckets, 0 until all
    are known.
    """

    lately: Mapping[str, Lately]
    on_board: Mapping[str, Mapping[str, VoteFault]]
    seen: tuple[Agent, ...]
    log_time: int

    def known(self, agent: Agent) -> AgentFacts:
        """Return what is known about an agent."""
        others = (each.last_seen for each in self.seen if each.agent != agent.agent)
        name = agent.agent
        return AgentFacts(
            agent,
            self.lately.get(name, Lately()),
            self.on_board.get(name, {}),
            max(self.log_time, next(others, 0)),
        )


def evidence(scenario: Scenario, now: int, agents: Collection[str] | None = None) -> Evidence:
    """Return what is known about a scenario's agents at `now` (Unix ms). agents: only these."""
    rows = Agent.objects.newest(scenario.name)
    return Evidence(
        lately(scenario, agents, now),
        VoteFault.objects.by_agent(scenario.name, agents),
        tuple(rows[:2]),
        BucketStatus.objects.least_log_time(scenario),
    )


# ---- what is told -------------------------------------------------------------------------------


class ReportedFinding(NamedTuple):
    """A reported fault: the banner's line and, as `words`, the sentence on the agent's page."""

    finding: Finding
    words: str


def news(now: int) -> AgentNews:
    """Return what there is to report about all agents at `now` (Unix ms)."""
    present_findings = [each.finding for each in all_reported_findings(now)]
    begun = {
        (row.scenario, row.agent, row.kind): row.since
        for row in AgentFinding.objects.filter(ended_at=None)
    }
    findings = [
        each._replace(since=min(each.since, begun.get(each[:3], each.since)))
        for each in present_findings
    ]
    return AgentNews(findings, _last_seen())


def all_reported_findings(now: int) -> list[ReportedFinding]:
    """Return the reported findings on the agents of every scenario at `now` (Unix ms)."""
    known = _scenarios_with_agents()
    return [
        each
        for scenario in scenarios().values()
        if scenario.name in known
        for each in reported_findings(scenario, now)
    ]


def _scenarios_with_agents() -> set[str]:
    """Return the scenarios with any knowledge of agents; the others need no queries."""
    late, faults = LateMinute.objects.order_by(), VoteFault.objects.order_by()
    names = Agent.objects.order_by().values_list("scenario", flat=True)
    return set(
        names.union(
            late.values_list("scenario", flat=True), faults.values_list("scenario", flat=True)
        )
    )


def reported_findings(scenario: Scenario, now: int) -> list[ReportedFinding]:
    """Return the reported findings on a scenario's agents at `now`, most important first."""
    known, muted = evidence(scenario, now), mutes(scenario, now)
    excused = _excused(scenario)
    faults = [
        (fault, agent.agent)
        for agent in _looked_at(scenario, known, now)
        if agent.agent not in muted
        for fault in _reported(faults_of(scenario, known.known(agent), now), now)
        if fault.kind not in excused
    ]
    faults.sort(key=lambda each: (REPORTED_KINDS.index(each[0].kind), -each[0].ms, each[1]))
    return [_as_reported(scenario, agent, fault) for fault, agent in faults]


def _looked_at(scenario: Scenario, known: Evidence, now: int) -> list[Agent]:
    """Return the agents about which something may be reported."""
    recent = Agent.objects.newest(scenario.name).filter(last_seen__gt=now - EXPECTED_MS)
    rows = list(recent[:MOST_AGENTS])
    there = {row.agent for row in rows}
    others = (known.lately.keys() | known.on_board.keys()) - there
    return rows + Agent.objects.named(scenario.name, others)


def _excused(scenario: Scenario) -> set[str]:
    """Return the kinds of faults that are ignored: a broker's clock may cause them, or the pipeline
    that reports there is switched off."""
    buckets = BucketStatus.objects.filter(scenario=scenario.name)
    excused = {"behind"} if buckets.filter(ahead_since__isnull=False).exists() else set()
    if _off(scenario.name):
        excused.add("silent")
    if any(bucket.partition("/")[0] == scenario.name for bucket in clocks_behind()):
        excused.add("ahead")
    return excused


def _reported(faults: Iterable[Fault], now: int) -> Iterator[Fault]:
    """Yield the faults of an agent that are reported.

    A clock that is behind also makes an agent contradict itself, so only the clock is reported
    then.
    """
    reportable_faults = [
        fault for fault in faults if fault.kind in REPORTED_KINDS and _shows(fault, now)
    ]
    kinds = {fault.kind for fault in reportable_faults}
    for fault in reportable_faults:
        if fault.kind != "contradiction" or "behind" not in kinds:
            yield fault


def _shows(fault: Fault, now: int) -> bool:
    """Return whether a fault has lasted and shows in several places."""
    if fault.kind == "silent":
        return True
    if fault.assets:
        return fault.assets >= SEVERAL_ASSETS and now - fault.since >= LASTED_MS
    return fault.minutes >= SEVERAL_MINUTES and fault.steady


def _as_reported(scenario: Scenario, agent: str, fault: Fault) -> ReportedFinding:
    what, todo = line(scenario, agent, fault)
    kind = cast("Kind", fault.kind)
    finding = Finding(scenario.name, agent, kind, fault.since, what, todo, fault.ms)
    return ReportedFinding(finding, said(scenario, agent, fault).text)


def _last_seen() -> dict[str, LastSeen]:
    """Return when anybody last reported on each scenario that has ever had a report."""
    known = scenarios()
    gaps = Agent.objects.filter(gap__gt=0).values("scenario").annotate(least=Min("gap")).order_by()
    usual = dict(gaps.values_list("scenario", "least"))
    return {
        row.scenario: LastSeen(row.at, usual.get(row.scenario, 0), _off(row.scenario))
        for row in LastReport.objects.all()
        if row.scenario in known
    }


def _off(scenario: str) -> str:
    """Return the shipped pipeline that reports to a scenario if it is switched off, or ""."""
    reporter = reporter_of(scenario)
    return "" if reporter is None or reporter.on else reporter.name


# ---- watch ---------------------------------------------------------------------------------------
# Findings about agents, stored from their beginning to their end.

findings_changed = Signal()
"""Sent in the transaction that stores them. begun, ended: the findings; now: Unix ms."""

FindingKey = tuple[str, str, str]
"""Scenario, agent and kind of a finding."""


def watch(now: int) -> None:
    """Check what is wrong with agents at `now` (Unix ms), and record what has begun or ended."""
    count_doubts()
    findings: dict[FindingKey, ReportedFinding] = {
        each.finding[:3]: each for each in all_reported_findings(now)
    }
    with transaction.atomic():
        lock_until_commit("agents", "findings")
        going_on = {_place(row): row for row in AgentFinding.objects.filter(ended_at=None)}
        begun = _begin(
            (findings[place] for place in sorted(findings.keys() - going_on.keys())), now
        )
        ended = _end([row for place, row in going_on.items() if place not in findings], now)
        _describe(going_on, findings)
        if begun or ended:
            findings_changed.send(AgentFinding, begun=begun, ended=ended, now=now)


def _place(row: AgentFinding) -> FindingKey:
    return row.scenario, row.agent, row.kind


def _begin(findings: Iterable[ReportedFinding], now: int) -> list[AgentFinding]:
    return [
        AgentFinding.objects.create(
            scenario=each.finding.scenario,
            agent=each.finding.agent,
            kind=each.finding.kind,
            words=each.words[:MAX_WORDS],
            since=each.finding.since or now,
            found_at=now,
        )
        for each in findings
    ]


def _end(rows: list[AgentFinding], now: int) -> list[AgentFinding]:
    for row in rows:
        row.ended_at = now
        if row.kind == "silent" and now - row.since >= EXPECTED_MS:
            row.words = f"{row.words}{NO_LONGER_EXPECTED}"[:MAX_WORDS]
        row.save(update_fields=["ended_at", "words"])
    return rows


def _describe(
    going_on: Mapping[FindingKey, AgentFinding], findings: Mapping[FindingKey, ReportedFinding]
) -> None:
    """Store the present words of continuing findings, where they have changed."""
    for place in going_on.keys() & findings.keys():
        row, words = going_on[place], findings[place].words[:MAX_WORDS]
        if row.words != words:
            AgentFinding.objects.filter(pk=row.pk).update(words=words)
