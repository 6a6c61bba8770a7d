"""Scenarios: each describes one kind of thing to watch. `domain/scenario_parser.py` reads them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import md5
from typing import Any, Literal
from urllib.parse import quote
from uuid import UUID

from domain.names import USER_PREFIX, state_name_ok

# The version of the fold implemented here; a scenario record names the version it needs.
FOLD = 6

# The first version in which a report that could not be taken makes its agent doubted.
DOUBT_FOLD = 5

# The first version that orders an agent's reports by what they claim, loses no word by a change of
# rule, and reads each field of a report by itself.
CLAIM_FOLD = 6

# The ladder's default that leaves the state unchanged.
KEEP = "keep"

# What an asset shows that exists but has not been tallied yet.
UNKNOWN = "unknown"

# Silent votes are kept for three lifetimes, and at least this long, ms.
LEAST_MEMORY = 15 * 60_000

# Lifetime of a vote under a rule with severity that sets none, ms.
LONGEST_LIFE = 86_400_000

COLOURS = ("red", "orange", "amber", "green", "teal", "blue", "violet", "grey")
ALARMING = ("red", "amber")
"""Colours that mark trouble among the states of a life cycle, where no state is worse than
another."""
ICONS = (
    "octagon",
    "triangle",
    "diamond",
    "circle",
    "square",
    "ring",
    "check",
    "cross",
    "arrow-up",
    "arrow-down",
    "box",
    "truck",
    "flag",
    "clock",
)
MAX_MIN_VOTERS = 1000
# Largest weight of an agent or an electorate, and largest weight that a threshold may require.
MAX_WEIGHT = 1_000_000


Action = Literal["emit", "notify", "set", "release", "purge"]
ACTIONS: tuple[Action, ...] = ("emit", "notify", "set", "release", "purge")
"""What a scheduled task does to its asset."""

LEAST_PERIOD = 1_000
"""Shortest delay of a task's first run, and shortest interval between runs, ms."""

MAX_RUNS = 1_000_000
"""Highest limit on the number of a task's runs."""

# Largest number of tasks that a scenario may start on an asset.
MAX_RULE_TASKS = 16

INCIDENT = "incident"
"""Word for the incidents of several scenarios together, and of those that name none."""

MAX_LINKS = 8
"""Most links of a scenario."""

MAX_DETAILS = 4
"""Most details of a scenario that have a column."""


class ScenarioError(ValueError):
    """A scenario that cannot be used: names the file, the key, and what was expected."""


@dataclass(frozen=True, slots=True)
class StateSpec:
    """How a state is shown. Colour and icon are names from COLOURS and ICONS."""

    name: str
    label: str
    colour: str
    icon: str


@dataclass(frozen=True, slots=True)
class DetailSpec:
    """A key of the details that agents add, which has a column. unit: shown behind a number."""

    key: str
    title: str
    unit: str = ""

    def plain(self) -> dict[str, str]:
        """Return the detail as written in scenarios.toml."""
        return {"key": self.key, "title": self.title, **({"unit": self.unit} if self.unit else {})}


@dataclass(frozen=True, slots=True)
class LinkSpec:
    """A link of every asset to another program. url: with {asset}, {scenario}, {label:KEY}."""

    title: str
    url: str

    def address(self, scenario: str, asset: str, labels: Mapping[str, str]) -> str | None:
        """Return the link's address for an asset, or None if it lacks a label that is named."""
        known = {"asset": asset, "scenario": scenario}
        known |= {f"label:{key}": value for key, value in labels.items()}
        names = LINK_PLACE.findall(self.url)
        if not all(name in known for name in names):
            return None
        return LINK_PLACE.sub(lambda match: quote(known[match[1]], safe=""), self.url)

    def plain(self) -> dict[str, str]:
        """Return the link as written in scenarios.toml."""
        return {"title": self.title, "url": self.url}


LINK_PLACE = re.compile(r"\{([^{}]*)\}")
"""A place in a link's address, by what stands there."""


@dataclass(frozen=True, slots=True)
class Threshold:
    """One step of the ladder: `state` holds if its votes weigh enough.

    If q = 0, they must weigh at least p. Otherwise they must weigh at least (strict: more than) p/q
    of the total weight.
    """

    state: str
    p: int
    q: int = 0
    strict: bool = False

    def met(self, weight: int, whole_weight: int) -> bool:
        """Return whether `weight` out of `whole_weight` is enough."""
        if self.q == 0:
            return weight >= self.p
        if self.strict:
            return weight * self.q > self.p * whole_weight
        return weight > 0 and weight * self.q >= self.p * whole_weight

    def plain(self) -> dict[str, Any]:
        """Return the threshold as written in scenarios.toml."""
        if self.q == 0:
            return {"state": self.state, "at_least": self.p}
        return {
            "state": self.state,
            "more_than" if self.strict else "at_least": f"{self.p}/{self.q}",
        }


@dataclass(frozen=True, slots=True)
class Latest:
    """The tally is the latest live vote, by its place in the log."""


@dataclass(frozen=True, slots=True)
class Quorum:
    """A ladder, evaluated from the most severe state down; `default` is a state or KEEP."""

    ladder: tuple[Threshold, ...]
    default: str = KEEP


@dataclass(frozen=True, slots=True)
class PythonRule:
    """The function `tally` of the module `rules/<function>.py`; see domain/python_rules.py."""

    function: str


Rule = Latest | Quorum | PythonRule


@dataclass(frozen=True)
class TaskRule:
    """A task that a scenario starts when an asset enters `on`, or on a report of `on_report`.

    condition: the state that the asset must be in at a run; state: what it sets; after: delay of
    the first run, ms; every: interval between runs, ms; times: largest number of runs.
    """

    do: Action
    on: str | None = None
    on_report: str | None = None
    state: str | None = None
    condition: str | None = None
    after: int | None = None
    every: int | None = None
    times: int | None = None

    @cached_property
    def id(self) -> str:
        """The id of the task it starts: a UUID derived from all its fields."""
        said = (self.do, self.on, self.on_report, self.state, self.condition)
        numbers = (self.after, self.every, self.times)
        text = "\n".join("" if part is None else str(part) for part in (*said, *numbers))
        digest = md5(text.encode(), usedforsecurity=False).digest()
        return str(UUID(bytes=digest, version=3))

    @property
    def delay(self) -> int:
        """Time from the start to the first run, ms."""
        return self.after or self.every or 0

    @property
    def within(self) -> str | None:
        """The state whose end also ends the task, or None if the task outlives it."""
        return self.on if self.condition in (None, self.on) else None

    def plain(self) -> dict[str, Any]:
        """Return the task as written in scenarios.toml."""
        fields = {
            "on": self.on,
            "on_report": self.on_report,
            "after": self.after,
            "every": self.every,
            "times": self.times,
            "if": self.condition,
            "do": self.do,
            "state": self.state,
        }
        return {key: value for key, value in fields.items() if value is not None}


@dataclass(frozen=True)
class Scenario:
    """One kind of thing to watch. All durations are in ms; states run from most to least severe.

    life_cycle: states follow each other and none is worse than another; min_voters, raise_voters:
    number of live voters needed to lower and to raise a state; forget_after: how long a silent vote
    is kept, None for the default; fold: the version of the fold it was written for;
    signed_commands: whether commands count only with a signature; tasks: the tasks that it starts;
    details: what of agents' details has a column; links: from each asset to other programs;
    incident: word for an unbroken time that is not good.
    """

    name: str
    title: str
    noun: str
    states: tuple[StateSpec, ...]
    rule: Rule
    partitions: int = 4
    open_vocabulary: bool = False
    min_voters: int = 1
    vote_lifetime: int | None = None
    max_report_age: int | None = None
    electorate: int | None = None
    holds: Mapping[str, int] | None = None
    reminders: Mapping[str, int] | None = None
    purge_after: Mapping[str, int] | None = None
    weights: Mapping[str, int] | None = None
    life_cycle: bool = False
    raise_voters: int = 1
    forget_after: int | None = None
    fold: int = FOLD
    signed_commands: bool = False
    tasks: tuple[TaskRule, ...] = ()
    details: tuple[DetailSpec, ...] = ()
    links: tuple[LinkSpec, ...] = ()
    incident: str = INCIDENT

    @cached_property
    def lenient(self) -> bool:
        """Whether a report is taken although its time is ahead or its detail unusable."""
        return self.fold >= DOUBT_FOLD

    @cached_property
    def doubting(self) -> bool:
        """Whether agents can be doubted: only with severity, and from DOUBT_FOLD on."""
        return self.lenient and not self.life_cycle

    @cached_property
    def piecewise(self) -> bool:
        """Whether a report is taken although the rest of its record cannot be read."""
        return self.fold >= CLAIM_FOLD

    @cached_property
    def by_claim(self) -> bool:
        """Whether an agent's reports are ordered by their claims: doubting, and from CLAIM_FOLD."""
        return self.doubting and self.piecewise

    @cached_property
    def lifetime(self) -> int | None:
        """Lifetime of a vote, ms, or None if votes never expire."""
        return LONGEST_LIFE if self.vote_lifetime is None and self.doubting else self.vote_lifetime

    def severity(self, state: str) -> int:
        """Return a state's rank: 0 for the most severe one of the vocabulary.

        In an open vocabulary, an unlisted state ranks last. In a closed one, where a change of rule
        may leave one behind, it ranks worse than all others, because nobody knows what it meant.
        """
        return self._ranks.get(state, len(self.states) if self.open_vocabulary else -1)

    def is_good(self, state: str) -> bool:
        """Return whether a state is no incident.

        With severity, the least severe state is good, and so are green ones; a state that a closed
        vocabulary does not know is not. In a life cycle, every state without an alarming colour is
        good: an order received a second ago is no trouble.
        """
        colour = self.spec(state).colour
        if self.life_cycle:
            return colour not in ALARMING
        return self.severity(state) >= len(self.states) - 1 or colour == "green"

    def folds_like(self, other: Scenario) -> bool:
        """Return whether all is alike but what boards alone read: details, links, a word."""
        alike = replace(self, details=other.details, links=other.links, incident=other.incident)
        return alike == other

    def is_alarming(self, state: str) -> bool:
        """Return whether somebody has to see to an asset in a state: with severity, if not good."""
        return not self.life_cycle and not self.is_good(state)

    @cached_property
    def alarming(self) -> frozenset[int]:
        """The severities of the states that somebody has to see to."""
        severities = {
            self.severity(spec.name) for spec in self.states if self.is_alarming(spec.name)
        }
        unknown = set() if self.life_cycle or self.open_vocabulary else {-1}
        return frozenset(severities | unknown)

    @cached_property
    def detail_keys(self) -> tuple[str, ...]:
        """The keys of the details that have a column, in order."""
        return tuple(detail.key for detail in self.details)

    def links_of(self, asset: str, labels: Mapping[str, str]) -> list[dict[str, str]]:
        """Return title and address of each link that an asset with these labels has."""
        links = ((link.title, link.address(self.name, asset, labels)) for link in self.links)
        return [{"title": title, "url": url} for title, url in links if url is not None]

    @cached_property
    def good_states(self) -> list[str]:
        """The good states of the vocabulary."""
        return [spec.name for spec in self.states if self.is_good(spec.name)]

    @cached_property
    def mildest(self) -> str:
        """The least severe state of the vocabulary."""
        return self.states[-1].name

    @cached_property
    def forget_delay(self) -> int | None:
        """How long a silent vote is kept, ms, or None if silent votes are not kept."""
        if self.life_cycle:
            return None
        if self.forget_after is None:
            return max(3 * (self.lifetime or 0), LEAST_MEMORY)
        return self.forget_after or None

    @cached_property
    def report_age_limit(self) -> int | None:
        """The largest age at which a report is still considered, ms, or None for no limit."""
        if self.lifetime is None or self.forget_delay is None:
            return self.max_report_age
        limit = self.max_report_age
        return self.forget_delay if limit is None else min(limit, self.forget_delay)

    def spec(self, state: str) -> StateSpec:
        """Return how to show `state`. An unknown state is shown grey, under its own name."""
        rank = self._ranks.get(state)
        return StateSpec(state, state, "grey", "ring") if rank is None else self.states[rank]

    def knows(self, state: str) -> bool:
        """Return whether a report may claim `state`."""
        return state in self._ranks or (self.open_vocabulary and state_name_ok(state))

    def weight(self, agent: str) -> int:
        """Return an agent's weight: by name, else by the longest matching `prefix*`, else 1."""
        if agent.startswith(USER_PREFIX):
            return 1
        exact = self._weights.get(agent)
        if exact is not None:
            return exact
        for prefix, weight in self._prefixes:
            if agent.startswith(prefix):
                return weight
        return 1

    def hold(self, state: str) -> int:
        """Return how long a new tally for `state` must last before it becomes the state, ms."""
        return (self.holds or {}).get(state, 0)

    def reminder(self, state: str) -> int | None:
        """Return how often a record is repeated while an asset stays in `state`, ms, or None."""
        return (self.reminders or {}).get(state)

    def purge_delay(self, state: str) -> int | None:
        """Return how long an asset may stay in `state` before it purges itself, ms, or None."""
        return (self.purge_after or {}).get(state)

    @cached_property
    def task_ids(self) -> frozenset[str]:
        """The ids of the tasks that the scenario starts."""
        return frozenset(task.id for task in self.tasks)

    @cached_property
    def purge_memory(self) -> int:
        """How long a purge must be remembered, ms: as long as an older report could be taken."""
        return max(self.report_age_limit or 0, (self.lifetime or 0) if self.doubting else 0)

    def task_fault(self, task: TaskRule) -> str | None:
        """Return why a task of the scenario may not run, or None if it may.

        With severity, time alone must not make a state milder or remove a row.
        """
        if not self.doubting:
            return None
        if task.do == "purge":
            return "a task of the scenario may not purge"
        if task.state is None:
            return None
        within = task.condition or task.on or self.states[0].name
        milder = self.severity(task.state) > self.severity(within)
        return "a task of the scenario may not set a milder state" if milder else None

    @cached_property
    def task_faults(self) -> dict[str, str]:
        """Why tasks of the scenario may not run, by id."""
        faults = {task.id: self.task_fault(task) for task in self.tasks}
        return {id_: fault for id_, fault in faults.items() if fault is not None}

    @cached_property
    def _ranks(self) -> dict[str, int]:
        return {spec.name: rank for rank, spec in enumerate(self.states)}

    @cached_property
    def _weights(self) -> dict[str, int]:
        return {name: w for name, w in (self.weights or {}).items() if not name.endswith("*")}

    @cached_property
    def _prefixes(self) -> list[tuple[str, int]]:
        prefixes = [(n[:-1], w) for n, w in (self.weights or {}).items() if n.endswith("*")]
        return sorted(prefixes, key=lambda item: -len(item[0]))

    def to_plain(self) -> dict[str, Any]:
        """Return the scenario as JSON-compatible data; `scenario_from_plain` restores it."""
        return {
            "name": self.name,
            "title": self.title,
            "noun": self.noun,
            "partitions": self.partitions,
            "vocabulary": "open" if self.open_vocabulary else "closed",
            "states": [
                {"name": s.name, "label": s.label, "colour": s.colour, "icon": s.icon}
                for s in self.states
            ],
            "rule": _plain_rule(self.rule),
            "severity": "none" if self.life_cycle else "order",
            "min_voters": self._plain_voters(),
            "vote_lifetime": self.vote_lifetime,
            "forget_after": self.forget_after,
            "max_report_age": self.max_report_age,
            "electorate": self.electorate,
            "holds": dict(self.holds or {}),
            "reminders": dict(self.reminders or {}),
            "purge_after": dict(self.purge_after or {}),
            "weights": dict(self.weights or {}),
            "commands": "signed" if self.signed_commands else "any",
            "tasks": [task.plain() for task in self.tasks],
            **({"details": [detail.plain() for detail in self.details]} if self.details else {}),
            **({"links": [link.plain() for link in self.links]} if self.links else {}),
            **({} if self.incident == INCIDENT else {"incident": self.incident}),
            "fold": self.fold,
        }

    def _plain_voters(self) -> int | dict[str, int]:
        if self.raise_voters == 1:
            return self.min_voters
        return {"lower": self.min_voters, "raise": self.raise_voters}


def _plain_rule(rule: Rule) -> dict[str, Any]:
    if isinstance(rule, Latest):
        return {"kind": "latest"}
    if isinstance(rule, PythonRule):
        return {"kind": "python", "function": rule.function}
    return {
        "kind": "quorum",
        "ladder": [threshold.plain() for threshold in rule.ladder],
        "default": rule.default,
    }
