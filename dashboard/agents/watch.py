"""Findings about agents, kept from their begin to their end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from django.db import transaction
from django.dispatch import Signal

from dashboard.agents.fault_counts import count_doubts
from dashboard.agents.findings import Told, told_of
from dashboard.agents.models import MAX_WORDS, AgentFinding
from dashboard.core.scenarios import scenarios
from dashboard.core.sql import lock_until_commit

findings_changed = Signal()
"""Sent in the transaction that stores them. begun, ended: the findings; now: Unix ms."""

Place = tuple[str, str, str]
"""Scenario, agent and kind of a finding."""


def watch(now: int) -> None:
    """Look what is wrong with agents at `now` (Unix ms), and note what has begun or ended."""
    count_doubts()
    told: dict[Place, Told] = {
        each.finding[:3]: each
        for scenario in scenarios().values()
        for each in told_of(scenario, now)
    }
    with transaction.atomic():
        lock_until_commit("agents", "findings")
        going_on = {_place(row): row for row in AgentFinding.objects.filter(ended_at=None)}
        begun = _begin((told[place] for place in sorted(told.keys() - going_on.keys())), now)
        ended = _end([row for place, row in going_on.items() if place not in told], now)
        _describe(going_on, told)
        if begun or ended:
            findings_changed.send(AgentFinding, begun=begun, ended=ended, now=now)


def _place(row: AgentFinding) -> Place:
    return row.scenario, row.agent, row.kind


def _begin(told: Iterable[Told], now: int) -> list[AgentFinding]:
    return [
        AgentFinding.objects.create(
            scenario=each.finding.scenario,
            agent=each.finding.agent,
            kind=each.finding.kind,
            words=each.words[:MAX_WORDS],
            since=each.finding.since or now,
            found_at=now,
        )
        for each in told
    ]


def _end(rows: list[AgentFinding], now: int) -> list[AgentFinding]:
    for row in rows:
        row.ended_at = now
        row.save(update_fields=["ended_at"])
    return rows


def _describe(going_on: Mapping[Place, AgentFinding], told: Mapping[Place, Told]) -> None:
    """Store what is said by now of what goes on, where it is something else."""
    for place in going_on.keys() & told.keys():
        row, words = going_on[place], told[place].words[:MAX_WORDS]
        if row.words != words:
            AgentFinding.objects.filter(pk=row.pk).update(words=words)
