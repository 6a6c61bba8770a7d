"""Notification rules: what they cover, and who is notified when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from domain.notifications.events import BEGUN, BUDGET_KINDS, CHANGED, Event
from domain.notifications.hours import Hours
from domain.scenario import Scenario

BY_SCENARIO, BY_ASSET = "scenario", "asset"
"""What incidents can be grouped by, besides label keys."""

AGENTS, AGENT = "agents of", "agent"
"""Prefixes of the keys of agent groups."""

BUDGET = "error budget of"
"""Prefix of the keys of groups about an error budget."""


@dataclass(frozen=True, slots=True)
class Stage:
    """Who is notified when nobody has had the incidents in hand for `after_ms` since the first
    message.

    channels, rotas: their ids in the database.
    """

    after_ms: int
    channels: tuple[int, ...] = ()
    rotas: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Quiet:
    """Hours in which messages wait until the hours end.

    exempt: this state and any worse one are reported anyway; empty for none.
    """

    hours: Hours
    exempt: str = ""


@dataclass(frozen=True, slots=True)
class Rule:
    """Who is notified of which incidents and agents, and how. All durations are in ms.

    scenarios, labels, states: any of these match, and an empty one matches all; labels are
    `key=value`, or `key=>number` and `key=<number`; at_least: this state or a worse one; after_ms:
    report only what lasts this long in such a state; hours: report only in these hours; group_by:
    incidents that agree in these are reported together; window_ms: how long a message waits for
    more to report; repeat_ms: repeat a message this often while nobody has the group in hand;
    resolved: whether to report the end; incidents: whether to report incidents; tasks: whether to
    report runs of scheduled tasks that notify, in any state; agents: the agent faults to report,
    from AGENT_KINDS; budgets: whether to report error budgets that burn too fast; most, per_ms:
    send at most `most` messages in `per_ms`.
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
    budgets: bool = False
    most: int = 20
    per_ms: int = 3_600_000

    def covers(self, scenario: Scenario, state: str) -> bool:
        """Return whether the rule covers an asset's state, ignoring labels."""
        if not self.incidents or not state or scenario.is_good(state):
            return False
        if self.scenarios and scenario.name not in self.scenarios:
            return False
        if self.states and state not in self.states:
            return False
        return not self.at_least or reaches(scenario, state, self.at_least)

    def covers_finding(self, scenario: str, kind: str) -> bool:
        """Return whether the rule covers a finding of this kind about an agent, or about the error
        budget, of a scenario."""
        reported = kind in self.agents or (self.budgets and kind in BUDGET_KINDS)
        return reported and scenario in (self.scenarios or (scenario,))

    def covers_event(self, scenario: Scenario, event: Event) -> bool:
        """Return whether the rule covers what an event began or changed, ignoring labels."""
        if event.kind not in (BEGUN, CHANGED):
            return False
        if event.finding:
            return self.covers_finding(scenario.name, event.state)
        return self.covers(scenario, event.state)

    def joins(self, scenario: Scenario, event: Event) -> bool:
        """Return whether an event begins something that the rule covers. An agent has no labels."""
        labelled = bool(event.finding) or self.matches_labels(event.labels)
        return labelled and self.covers_event(scenario, event)

    def covers_task(self, scenario: str, labels: Mapping[str, str]) -> bool:
        """Return whether the rule covers a scheduled task of an asset with these labels."""
        return (
            self.tasks
            and scenario in (self.scenarios or (scenario,))
            and self.matches_labels(labels)
        )

    def matches_labels(self, labels: Mapping[str, str]) -> bool:
        """Return whether an asset's labels, or what agents add, match those of the rule."""
        return not self.labels or any(_fits(labels.get(key), value) for key, value in self.labels)

    def key_of(self, event: Event) -> str:
        """Return the key of the group that an event's incident or agent belongs to.

        The agents of a scenario form one group, unless the rule groups by asset.
        """
        if not event.finding:
            return self.key(event.scenario, event.asset, event.labels)
        if event.state in BUDGET_KINDS:
            return f"{BUDGET} {event.scenario}"
        if BY_ASSET in self.group_by:
            return f"{AGENT} {event.scenario}/{event.asset}"
        return f"{AGENTS} {event.scenario}"

    def key(self, scenario: str, asset: str, labels: Mapping[str, str]) -> str:
        """Return the key of the group that an asset's incident belongs to, such as
        `scenario=attack`."""
        own = {BY_SCENARIO: scenario, BY_ASSET: f"{scenario}/{asset}"}
        return ", ".join(
            f"{name}={own.get(name) or labels.get(name, '')}" for name in self.group_by
        )


def _fits(label: str | None, expected: str) -> bool:
    """Return whether a label has this value, or is a number above or below the one expected."""
    if label is None or label == expected:
        return label is not None
    try:
        number, least = float(label), float(expected[1:])
    except ValueError:
        return False
    return number > least if expected[0] == ">" else expected[0] == "<" and number < least


def reaches(scenario: Scenario, state: str, at_least: str) -> bool:
    """Return whether `state` is `at_least` or worse; False if the scenario does not know
    `at_least`."""
    known = any(spec.name == at_least for spec in scenario.states)
    return known and scenario.severity(state) <= scenario.severity(at_least)
