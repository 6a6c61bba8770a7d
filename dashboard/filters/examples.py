"""Terms to show as examples: of what there is, so that each can be tried as it stands."""

from __future__ import annotations

from dashboard.agents.models import Agent
from dashboard.core.bidi import isolated
from dashboard.filter_language.terms import quoted
from dashboard.labels.queries import keys, values
from domain.scenario import Scenario


def examples(scenario: Scenario) -> list[str]:
    """Return one term of each kind that this scenario's filter knows, as it may be typed."""
    doubts = [] if scenario.life_cycle else ["is:disputed", "has:doubt", "has:silent"]
    state = f"state:{quoted(scenario.states[0].label)}"
    return [state, "since:<1h", *_agents(scenario), "override:yes", *doubts, *_labels(scenario)]


def placeholder(scenario: Scenario) -> str:
    """Return what an empty box says: a term of those who report, or of a label, and one of time."""
    likely = [*_labels(scenario), *_agents(scenario)][:1]
    return ", ".join(("a name", *map(isolated, likely), "since:<1h"))


def _agents(scenario: Scenario) -> list[str]:
    """Return a term for the agent with most live votes, or none if no agent has reported."""
    found = Agent.objects.filter(scenario=scenario.name).order_by("-votes", "agent").first()
    return [f"agent:{quoted(found.agent)}"] if found else []


def _labels(scenario: Scenario) -> list[str]:
    """Return a term for a label that some asset has, or none if no asset has one."""
    for key in keys(scenario.name):
        if of_key := values(scenario.name, key, "", 1):
            return [f"{key}:{quoted(of_key[0])}"]
    return []
