"""Scenarios: one kind of thing watched, as data, checked on load."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from domain.functions import EXPECTED, rule_function
from domain.names import MAX_STATE, USER_PREFIX, state_name_ok
from domain.plain import PlainError, Table, duration, duration_text, whole

FOLD = 3
"""The version of the fold that this is: a scenario record names the one that it needs."""

KEEP = "keep"
"""The ladder's default that leaves the state as it is."""

UNKNOWN = "unknown"
"""What an asset shows that exists, but that nothing has tallied yet."""

LEAST_MEMORY = 15 * 60_000
"""Silent votes are kept for three lifetimes, but at least so long, ms."""

COLOURS = ("red", "orange", "amber", "green", "teal", "blue", "violet", "grey")
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
MAX_WEIGHT = 1_000_000
"""Largest weight of an agent, of an electorate, or that a rung may ask for."""

_NAME = re.compile(r"[a-z][a-z0-9-]{0,39}\Z")
_FRACTION = re.compile(r"([0-9]{1,6})/([0-9]{1,6})\Z")


class ScenarioError(ValueError):
    """A scenario that cannot be used: names the file, the key, and what was expected."""


@dataclass(frozen=True, slots=True)
class StateSpec:
    """How a state is shown. Colour and icon are names of COLOURS and ICONS."""

    name: str
    label: str
    colour: str
    icon: str


@dataclass(frozen=True, slots=True)
class Rung:
    """One step of the ladder: `state` holds when its votes weigh enough.

    q = 0: at least weight p. Otherwise at least (strict: more than) p/q of the whole weight.
    """

    state: str
    p: int
    q: int = 0
    strict: bool = False

    def met(self, weight: int, whole_weight: int) -> bool:
        """Whether `weight` of `whole_weight` is enough."""
        if self.q == 0:
            return weight >= self.p
        if self.strict:
            return weight * self.q > self.p * whole_weight
        return weight > 0 and weight * self.q >= self.p * whole_weight

    def plain(self) -> dict[str, Any]:
        """As it stands in scenarios.toml."""
        if self.q == 0:
            return {"state": self.state, "at_least": self.p}
        return {
            "state": self.state,
            "more_than" if self.strict else "at_least": f"{self.p}/{self.q}",
        }


@dataclass(frozen=True, slots=True)
class Latest:
    """The latest live vote, by its place in the log, is the tally."""


@dataclass(frozen=True, slots=True)
class Quorum:
    """A ladder read from the most severe state down; `default` is a state or KEEP."""

    ladder: tuple[Rung, ...]
    default: str = KEEP


@dataclass(frozen=True, slots=True)
class PythonRule:
    """The function `tally` of the module `rules/<function>.py`; see domain/functions.py."""

    function: str


Rule = Latest | Quorum | PythonRule


@dataclass(frozen=True)
class Scenario:
    """One kind of thing watched. All durations in ms; states run from most to least severe.

    life_cycle: its states follow each other and none is worse than another; min_voters: live voters
    that it takes to lower a state, raise_voters: to raise it; forget_after: for how long a silent
    vote is kept, None for the usual; fold: the version of the fold that it is written for;
    signed_commands: whether what commands something counts only with a signature.
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

    def severity(self, state: str) -> int:
        """0 for the most severe state of the vocabulary.

        One outside it ranks last where the vocabulary is open; in a closed one, which a change of
        rule may leave behind, it is worse than all others: nobody knows what it meant.
        """
        return self._ranks.get(state, len(self.states) if self.open_vocabulary else -1)

    @cached_property
    def mildest(self) -> str:
        """The least severe state of the vocabulary."""
        return self.states[-1].name

    @cached_property
    def forget_delay(self) -> int | None:
        """How long a silent vote is kept, ms; None: silent votes are not kept."""
        if self.life_cycle:
            return None
        if self.forget_after is None:
            return max(3 * (self.vote_lifetime or 0), LEAST_MEMORY)
        return self.forget_after or None

    @cached_property
    def report_age_limit(self) -> int | None:
        """The age up to which a report is looked at, ms, or None for any."""
        if self.vote_lifetime is None or self.forget_delay is None:
            return self.max_report_age
        limit = self.max_report_age
        return self.forget_delay if limit is None else min(limit, self.forget_delay)

    def spec(self, state: str) -> StateSpec:
        """How to show `state`; one outside the vocabulary is shown grey, under its own name."""
        rank = self._ranks.get(state)
        return StateSpec(state, state, "grey", "ring") if rank is None else self.states[rank]

    def knows(self, state: str) -> bool:
        """Whether a report may claim `state`."""
        return state in self._ranks or (self.open_vocabulary and state_name_ok(state))

    def weight(self, agent: str) -> int:
        """An agent's weight: by its name, else by the longest `prefix*` that fits, else 1."""
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
        """How long a new tally for `state` must last before it becomes the state, ms."""
        return (self.holds or {}).get(state, 0)

    def reminder(self, state: str) -> int | None:
        """How often a record is repeated while an asset stays in `state`, ms, or None."""
        return (self.reminders or {}).get(state)

    def purge_delay(self, state: str) -> int | None:
        """How long an asset may stay in `state` before it purges itself, ms, or None."""
        return (self.purge_after or {}).get(state)

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
        """The scenario as JSON-able data; `from_plain` reads it back, equal."""
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
            "fold": self.fold,
        }

    def _plain_voters(self) -> int | dict[str, int]:
        if self.raise_voters == 1:
            return self.min_voters
        return {"lower": self.min_voters, "raise": self.raise_voters}

    @classmethod
    def from_plain(cls, data: Any) -> Scenario:
        """Read what `to_plain` wrote; unknown keys are ignored. Raises ScenarioError."""
        try:
            table = Table(data, "scenario")
            return parse_scenario(table.text("name"), table)
        except PlainError as error:
            raise ScenarioError(str(error)) from None


def load_scenarios(path: Path, demo: bool = False) -> dict[str, Scenario]:
    """Read scenarios.toml. `demo`: apply each scenario's `demo` table on top.

    Raises ScenarioError, which names the file, the key and what was expected.
    """
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ScenarioError(f"{path}: cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ScenarioError(f"{path}: expected TOML in UTF-8: {error}") from None
    try:
        return _parse_file(data, demo)
    except PlainError as error:
        raise ScenarioError(f"{path}: {error}") from None


def _parse_file(data: dict[str, Any], demo: bool) -> dict[str, Scenario]:
    if not data:
        raise PlainError("", "at least one scenario, for example [attack]", "an empty file")
    scenarios = {}
    for name, content in data.items():
        plain = Table(content, name).mapping_itself()
        overlay = Table(plain.pop("demo", {}), f"{name}.demo").mapping_itself()
        usual, shown = parse_whole(name, plain), parse_whole(name, {**plain, **overlay})
        scenarios[name] = shown if demo else usual
    return scenarios


def parse_whole(name: str, content: dict[str, Any]) -> Scenario:
    """Read one scenario that holds known keys alone and is safe. Raises PlainError with the key."""
    table = Table(content, name)
    scenario = parse_scenario(name, table, fold=FOLD)
    table.no_more()
    _check_severity(scenario, table)
    _check_memory(scenario, name)
    _check_default(scenario)
    return scenario


def _check_severity(scenario: Scenario, table: Table) -> None:
    if scenario.open_vocabulary and table.get("severity") == "order":
        expected = '"none", as an open vocabulary has no order'
        raise PlainError(f"{scenario.name}.severity", expected, "order")
    if scenario.life_cycle:
        return
    for state in scenario.purge_after or {}:
        if state != scenario.mildest:
            expected = f'only {scenario.mildest}, the mildest state, or severity = "none"'
            raise PlainError(f"{scenario.name}.purge_after", expected, state)


def _check_memory(scenario: Scenario, name: str) -> None:
    """A vote whose agent has long been forgotten must not come back by a report as old."""
    limit = scenario.report_age_limit
    if scenario.max_report_age is not None and limit != scenario.max_report_age:
        expected = f'at most forget_after, which is "{duration_text(limit or 0)}"'
        given = duration_text(scenario.max_report_age)
        raise PlainError(f"{name}.max_report_age", expected, given)


def _check_default(scenario: Scenario) -> None:
    """Votes for a worse state count towards a milder rung: it must not be milder than what holds
    without it, or they would make the tally milder. The mildest state's rung counts it alone."""
    rule = scenario.rule
    if scenario.life_cycle or not isinstance(rule, Quorum) or rule.default == KEEP:
        return
    for rung in rule.ladder:
        milder = scenario.severity(rung.state) > scenario.severity(rule.default)
        if milder and rung.state != scenario.mildest:
            expected = f"keep, or a state no worse than the rung {rung.state}"
            raise PlainError(f"{scenario.name}.rule.default", expected, rule.default)


def parse_scenario(name: str, table: Table, *, fold: int = 1) -> Scenario:
    """Read one scenario from a table of plain data. Raises PlainError with the key.

    fold: the version of the fold that one is written for which does not name it.
    """
    if not _NAME.match(name):
        raise PlainError(table.path, "a name of a-z, 0-9 and -, at most 40 characters", name)
    states = _states(table)
    open_vocabulary = table.choice("vocabulary", ("closed", "open"), "closed") == "open"
    known = None if open_vocabulary else {spec.name for spec in states}
    severity = table.choice("severity", ("order", "none"), "none" if open_vocabulary else "order")
    min_voters, raise_voters = _voters(table)
    return Scenario(
        name=name,
        title=table.text("title", name.capitalize()),
        noun=table.text("noun", "asset"),
        states=states,
        open_vocabulary=open_vocabulary,
        rule=_rule(table.table("rule"), [spec.name for spec in states], known),
        partitions=table.integer("partitions", 4, low=1, high=1000),
        life_cycle=open_vocabulary or severity == "none",
        min_voters=min_voters,
        raise_voters=raise_voters,
        vote_lifetime=table.optional("vote_lifetime", duration),
        max_report_age=table.optional("max_report_age", duration),
        electorate=table.optional("electorate", whole(1, MAX_WEIGHT)),
        holds=_by_state(table, "holds", known, zero=True),
        reminders=_by_state(table, "reminders", known),
        purge_after=_by_state(table, "purge_after", known),
        weights=_weights(table),
        forget_after=table.optional("forget_after", partial(duration, zero=True)),
        fold=table.integer("fold", fold, low=1, high=FOLD),
        signed_commands=table.choice("commands", ("any", "signed"), "any") == "signed",
    )


def _voters(table: Table) -> tuple[int, int]:
    """The live voters that lowering and raising a state takes."""
    if not isinstance(table.get("min_voters"), Mapping):
        return table.integer("min_voters", 1, low=1, high=MAX_MIN_VOTERS), 1
    both = table.table("min_voters")
    return both.integer("lower", 1, 1, MAX_MIN_VOTERS), both.integer("raise", 1, 1, MAX_MIN_VOTERS)


def _states(table: Table) -> tuple[StateSpec, ...]:
    specs = [
        StateSpec(
            name=_state_name(entry, "name"),
            label=entry.text("label", str(entry.get("name"))),
            colour=entry.choice("colour", COLOURS, "grey"),
            icon=entry.choice("icon", ICONS, "ring"),
        )
        for entry in table.tables("states")
    ]
    names = [spec.name for spec in specs]
    if not names or len(set(names)) != len(names):
        raise PlainError(f"{table.path}.states", "at least one state, each name once", names)
    return tuple(specs)


def _state_name(table: Table, key: str) -> str:
    name = table.text(key)
    if not state_name_ok(name) or name == KEEP:
        raise PlainError(f"{table.path}.{key}", f"a state of 1-{MAX_STATE} characters", name)
    return name


def _rule(table: Table, order: list[str], known: set[str] | None) -> Rule:
    match table.choice("kind", ("latest", "quorum", "python")):
        case "latest":
            return Latest()
        case "python":
            return _python_rule(table)
        case _:
            return _quorum(table, order, known)


def _python_rule(table: Table) -> PythonRule:
    function = table.get("function")
    if rule_function(function) is None:
        raise PlainError(f"{table.path}.function", EXPECTED, function)
    return PythonRule(function)


def _quorum(table: Table, order: list[str], known: set[str] | None) -> Quorum:
    rungs = [_rung(entry, known) for entry in table.tables("ladder")]
    if not rungs:
        raise PlainError(f"{table.path}.ladder", "at least one rung", [])
    rank = {name: place for place, name in enumerate(order)}
    rungs.sort(key=lambda rung: rank.get(rung.state, len(order)))
    default = table.text("default", KEEP)
    if default != KEEP:
        _check_known(default, known, f"{table.path}.default")
    return Quorum(tuple(rungs), default)


def _rung(table: Table, known: set[str] | None) -> Rung:
    state = _state_name(table, "state")
    _check_known(state, known, f"{table.path}.state")
    at_least, more_than = table.get("at_least"), table.get("more_than")
    if (at_least is None) == (more_than is None):
        raise PlainError(table.path, "either at_least or more_than", table.keys())
    if more_than is not None:
        return Rung(state, *_fraction(more_than, f"{table.path}.more_than", low=0), strict=True)
    if isinstance(at_least, int) and not isinstance(at_least, bool):
        return Rung(state, whole(1, MAX_WEIGHT)(at_least, f"{table.path}.at_least"))
    return Rung(state, *_fraction(at_least, f"{table.path}.at_least", low=1))


def _fraction(value: object, path: str, low: int) -> tuple[int, int]:
    match = _FRACTION.match(value) if isinstance(value, str) else None
    p, q = (int(match[1]), int(match[2])) if match else (0, 0)
    if q == 0 or not low <= p <= q - (1 - low):
        form = "an integer of 1 or more, or a fraction" if low else "a fraction below 1,"
        raise PlainError(path, f'{form} as "1/2"', value)
    return p, q


def _check_known(state: str, known: Iterable[str] | None, path: str) -> None:
    if known is not None and state not in known:
        raise PlainError(path, f"one of the scenario's states ({', '.join(sorted(known))})", state)


def _by_state(
    table: Table, key: str, known: set[str] | None, zero: bool = False
) -> dict[str, int] | None:
    entries = table.mapping(key)
    for state, value in entries.items():
        _check_known(state, known, f"{table.path}.{key}.{state}")
        entries[state] = duration(value, f"{table.path}.{key}.{state}", zero=zero)
    return entries or None


def _weights(table: Table) -> dict[str, int] | None:
    entries = table.mapping("weights")
    for agent, value in entries.items():
        entries[agent] = whole(0, MAX_WEIGHT)(value, f"{table.path}.weights.{agent}")
    return entries or None


def _plain_rule(rule: Rule) -> dict[str, Any]:
    if isinstance(rule, Latest):
        return {"kind": "latest"}
    if isinstance(rule, PythonRule):
        return {"kind": "python", "function": rule.function}
    return {
        "kind": "quorum",
        "ladder": [rung.plain() for rung in rule.ladder],
        "default": rule.default,
    }
