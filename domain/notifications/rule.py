"""The rules of notifications: which incidents they are about, and who is told when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from domain.notifications.hours import Hours
from domain.scenario import Scenario

BY_SCENARIO, BY_ASSET = "scenario", "asset"
"""What incidents are grouped by, besides keys of labels."""


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
    """Who is to know of which incidents, how. All durations in ms.

    scenarios, labels, states: any of each, and where one is empty, all; labels as `key=value`;
    at_least: this state or a worse one; after_ms: told of what lasts so long in such a state;
    hours: told of in these alone; group_by: those alike in these are told of together; window_ms:
    how long a message waits for more to tell; repeat_ms: told again so often while nobody has it in
    hand; resolved: whether the end is told; tasks: whether runs of scheduled tasks that notify are
    told, of any state; most, per_ms: at most so many messages in so long.
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
    tasks: bool = True
    most: int = 20
    per_ms: int = 3_600_000

    def covers(self, scenario: Scenario, state: str) -> bool:
        """Return whether it tells of an asset's state, its labels aside."""
        if not state or scenario.is_good(state):
            return False
        if self.scenarios and scenario.name not in self.scenarios:
            return False
        if self.states and state not in self.states:
            return False
        return not self.at_least or reaches(scenario, state, self.at_least)

    def tells_task(self, scenario: str, labels: Mapping[str, str]) -> bool:
        """Return whether it tells of a scheduled task of an asset with these labels."""
        return self.tasks and scenario in (self.scenarios or (scenario,)) and self.wants(labels)

    def wants(self, labels: Mapping[str, str]) -> bool:
        """Return whether it tells of an asset with these labels."""
        return not self.labels or any(labels.get(key) == value for key, value in self.labels)

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
