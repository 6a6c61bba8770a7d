"""The rules of notifications: what they are about, and who is told when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from domain.notifications.events import BEGUN, CHANGED, Event
from domain.notifications.hours import Hours
from domain.scenario import Scenario

BY_SCENARIO, BY_ASSET = "scenario", "asset"
"""What incidents are grouped by, besides keys of labels."""

AGENTS, AGENT = "agents of", "agent"
"""How keys of groups of agents begin."""


@dataclass(frozen=True, slots=True)
class Stage:
    """Whom to tell once nobody has had the incidents in hand for `after_ms` since the first
    message. channels, rotas: their numbers in the database."""

    after_ms: int
    channels: tuple[int, ...] = ()
    rotas: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Quiet:
    """Hours in which messages wait until their end. exempt: a state that is told of all the same,
    as is any worse one; empty for none."""

    hours: Hours
    exempt: str = ""


@dataclass(frozen=True, slots=True)
class Rule:
    """Who is to know of which incidents and agents, how. All durations in ms.

    scenarios, labels, states: any of each, and where one is empty, all; labels as `key=value`;
    at_least: this state or a worse one; after_ms: told of what lasts so long in such a state;
    hours: told of in these alone; group_by: those alike in these are told of together; window_ms:
    how long a message waits for more to tell; repeat_ms: told again so often while nobody has it in
    hand; resolved: whether the end is told; incidents: whether incidents are told; tasks: whether
    runs of scheduled tasks that notify are, of any state; agents: what is told of agents, of
    AGENT_KINDS; most, per_ms: at most so many messages in so long.
    """

    stages: tuple[Stage, ...]
    scenarios: tuple[str, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    states: tuple[str, ...] = ()
    at_least: str = ""
    after_ms: int = 0
    hours: Hours | None = None
    quiet: Quiet | None = None
    group_by: tuple[str, ...] = (BY_SCENARIO,)
    window_ms: int = 30_000
    repeat_ms: int | None = None
    resolved: bool = True
    incidents: bool = True
    tasks: bool = True
    agents: tuple[str, ...] = ()
    most: int = 20
    per_ms: int = 3_600_000

    def covers(self, scenario: Scenario, state: str) -> bool:
        """Return whether it tells of an asset's state, its labels aside."""
        if not self.incidents or not state or scenario.is_good(state):
            return False
        if self.scenarios and scenario.name not in self.scenarios:
            return False
        if self.states and state not in self.states:
            return False
        return not self.at_least or reaches(scenario, state, self.at_least)

    def covers_agent(self, scenario: str, kind: str) -> bool:
        """Return whether it covers a fault of this kind of an agent of a scenario."""
        return kind in self.agents and scenario in (self.scenarios or (scenario,))

    def covers_event(self, scenario: Scenario, event: Event) -> bool:
        """Return whether it covers what an event began or changed, labels aside."""
        if event.kind not in (BEGUN, CHANGED):
            return False
        if event.finding:
            return self.covers_agent(scenario.name, event.state)
        return self.covers(scenario, event.state)

    def joins(self, scenario: Scenario, event: Event) -> bool:
        """Return whether an event begins something that it covers. An agent has no labels."""
        labelled = bool(event.finding) or self.matches_labels(event.labels)
        return labelled and self.covers_event(scenario, event)

    def covers_task(self, scenario: str, labels: Mapping[str, str]) -> bool:
        """Return whether it covers a scheduled task of an asset with these labels."""
        return (
            self.tasks
            and scenario in (self.scenarios or (scenario,))
            and self.matches_labels(labels)
        )

    def matches_labels(self, labels: Mapping[str, str]) -> bool:
        """Return whether these labels of an asset match those of the rule."""
        return not self.labels or any(labels.get(key) == value for key, value in self.labels)

    def key_of(self, event: Event) -> str:
        """Return what an event's incident is told of together with, or its agent: the agents of a
        scenario, unless each asset is told of by itself."""
        if not event.finding:
            return self.key(event.scenario, event.asset, event.labels)
        if BY_ASSET in self.group_by:
            return f"{AGENT} {event.scenario}/{event.asset}"
        return f"{AGENTS} {event.scenario}"

    def key(self, scenario: str, asset: str, labels: Mapping[str, str]) -> str:
        """Return what an asset's incident is told of together with, such as `scenario=attack`."""
        own = {BY_SCENARIO: scenario, BY_ASSET: f"{scenario}/{asset}"}
        return ", ".join(
            f"{name}={own.get(name) or labels.get(name, '')}" for name in self.group_by
        )


def reaches(scenario: Scenario, state: str, at_least: str) -> bool:
    """Return whether a state is one, or worse; never where the scenario does not know that one."""
    known = any(spec.name == at_least for spec in scenario.states)
    return known and scenario.severity(state) <= scenario.severity(at_least)
