"""Read scenarios from TOML files and plain data, checking them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from domain.config_values import ConfigTable, PlainError, duration, duration_text, read_toml, whole
from domain.names import MAX_STATE, state_name_ok
from domain.python_rules import EXPECTED, rule_function
from domain.scenario import (
    ACTIONS,
    COLOURS,
    FOLD,
    ICONS,
    INCIDENT,
    KEEP,
    LEAST_PERIOD,
    LINK_PLACE,
    MAX_DETAILS,
    MAX_LINKS,
    MAX_MIN_VOTERS,
    MAX_RULE_TASKS,
    MAX_RUNS,
    MAX_WEIGHT,
    DetailSpec,
    Latest,
    LinkSpec,
    PythonRule,
    Quorum,
    Rule,
    Scenario,
    ScenarioError,
    StateSpec,
    TaskRule,
    Threshold,
)
from domain.scenario_checks import check_severity

_NAME = re.compile(r"[a-z][a-z0-9-]{0,39}\Z")
_DETAIL = re.compile(r"[a-z][a-z0-9_-]{0,31}\Z")
RESERVED = frozenset(
    ("state", "since", "agent", "override", "until", "pending", "is", "has", "unconfirmed", "ack",
     "in", "muted", "name", "asset", "votes")
)  # fmt: skip
"""Keys that no detail may have: filters and orders of a board use these words themselves."""
_NOUN = re.compile(r"[a-z]{1,24}\Z")
_LABEL = re.compile(r"label:[a-z][a-z0-9_-]{0,31}\Z")
# No name of an asset may choose the host, so a place is only behind it.
_LINK = re.compile(r"https?://[^\s{}/?#\\@]+(?:[/?#](?:[^\s{}\\]|\{[^\s{}]*\})*)?\Z")
LINK_EXPECTED = "an http or https address, with {asset} and the like only behind the host"
_FRACTION = re.compile(r"([0-9]{1,6})/([0-9]{1,6})\Z")


def load_scenarios(path: Path, demo: bool = False) -> dict[str, Scenario]:
    """Return the scenarios in scenarios.toml by name. demo: apply each scenario's `demo` table.

    Raises ScenarioError naming the file, the key and what was expected.
    """
    data = read_toml(path, ScenarioError)
    try:
        return _parse_file(data, demo)
    except PlainError as error:
        raise ScenarioError(f"{path}: {error}") from None


@dataclass(frozen=True, slots=True)
class DependsOn:
    """What a scenario's assets lie behind: an asset of another scenario, named by their label.

    grace: how long an asset may outlive the trouble of what it is behind before it counts, ms.
    """

    scenario: str
    label: str
    grace: int


GRACE_MS = 120_000


def load_dependencies(path: Path) -> dict[str, DependsOn]:
    """Return what the assets of scenarios in scenarios.toml lie behind, by scenario.

    Raises ScenarioError naming the file, the key and what was expected.
    """
    data = read_toml(path, ScenarioError)
    try:
        return _dependencies(data)
    except PlainError as error:
        raise ScenarioError(f"{path}: {error}") from None


def _dependencies(data: dict[str, Any]) -> dict[str, DependsOn]:
    tables = {name: ConfigTable(content, name) for name, content in data.items()}
    dependencies = {
        name: _dependency(name, table.table("depends_on"), tuple(tables))
        for name, table in tables.items()
        if "depends_on" in table.keys()  # noqa: SIM118 - a table has no items of its own
    }
    for name in dependencies:
        _check_circle(name, dependencies)
    return dependencies


def _dependency(name: str, table: ConfigTable, known: tuple[str, ...]) -> DependsOn:
    others = tuple(each for each in known if each != name)
    scenario, label = table.choice("scenario", others), table.text("label")
    if not _DETAIL.match(label) or label in RESERVED:
        expected = "a label's key, for example network, which is no word of the filter's own"
        raise PlainError(f"{table.path}.label", expected, label)
    grace = table.optional("grace", partial(duration, zero=True))
    table.no_more()
    return DependsOn(scenario, label, GRACE_MS if grace is None else grace)


def _check_circle(name: str, dependencies: Mapping[str, DependsOn]) -> None:
    """Raise PlainError if a scenario depends on itself through others."""
    at = name
    for _ in dependencies:
        if at not in dependencies:
            return
        at = dependencies[at].scenario
        if at == name:
            expected = f"a scenario that does not depend on {name} itself"
            raise PlainError(f"{name}.depends_on.scenario", expected, dependencies[name].scenario)


def scenario_from_plain(data: Any) -> Scenario:
    """Return the scenario written by `Scenario.to_plain`, ignoring unknown keys.

    Raises ScenarioError.
    """
    try:
        table = ConfigTable(_without_unreadable(data), "scenario")
        return parse_scenario(table.text("name"), table)
    except PlainError as error:
        raise ScenarioError(str(error)) from error


def _without_unreadable(data: Any) -> Any:
    """Return plain data without details, links and a word for incidents that are wrong.

    The kernel reads none of them: they are of what boards show, so they must not decide whether a
    record's rule counts.
    """
    if not isinstance(data, Mapping):
        return data
    kept = dict(data)
    for key, read in (("details", _details), ("links", _links), ("incident", _incident)):
        try:
            read(ConfigTable(data, "scenario"))
        except PlainError:
            del kept[key]
    return kept


def _parse_file(data: dict[str, Any], demo: bool) -> dict[str, Scenario]:
    if not data:
        raise PlainError("", "at least one scenario, for example [attack]", "an empty file")
    scenarios = {}
    _dependencies(data)
    for name, content in data.items():
        plain = ConfigTable(content, name).mapping_itself()
        plain.pop("depends_on", None)  # of the web side alone: no state rests on it
        overlay = ConfigTable(plain.pop("demo", {}), f"{name}.demo").mapping_itself()
        usual, shown = parse_whole(name, plain), parse_whole(name, {**plain, **overlay})
        scenarios[name] = shown if demo else usual
    return scenarios


def parse_whole(name: str, content: dict[str, Any]) -> Scenario:
    """Return a scenario with only known keys that passes all checks.

    Raises PlainError with the key.
    """
    table = ConfigTable(content, name)
    scenario = parse_scenario(name, table, fold=FOLD)
    table.no_more()
    _check_order(scenario, table)
    check_severity(scenario)
    return scenario


def _check_order(scenario: Scenario, table: ConfigTable) -> None:
    if scenario.open_vocabulary and table.get("severity") == "order":
        expected = '"none", as an open vocabulary has no order'
        raise PlainError(f"{scenario.name}.severity", expected, "order")


def parse_scenario(name: str, table: ConfigTable, *, fold: int = 1) -> Scenario:
    """Return the scenario in a table of plain data. Raises PlainError with the key.

    fold: the version of the fold assumed if the table does not name one.
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
        tasks=_tasks(table, known),
        details=_details(table),
        links=_links(table),
        incident=_incident(table),
    )


def _voters(table: ConfigTable) -> tuple[int, int]:
    """Return the number of live voters needed to lower and to raise a state."""
    if not isinstance(table.get("min_voters"), Mapping):
        return table.integer("min_voters", 1, low=1, high=MAX_MIN_VOTERS), 1
    both = table.table("min_voters")
    return both.integer("lower", 1, 1, MAX_MIN_VOTERS), both.integer("raise", 1, 1, MAX_MIN_VOTERS)


def _states(table: ConfigTable) -> tuple[StateSpec, ...]:
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


def _state_name(table: ConfigTable, key: str) -> str:
    name = table.text(key)
    if not state_name_ok(name) or name == KEEP:
        raise PlainError(f"{table.path}.{key}", f"a state of 1-{MAX_STATE} characters", name)
    return name


def _rule(table: ConfigTable, order: list[str], known: set[str] | None) -> Rule:
    match table.choice("kind", ("latest", "quorum", "python")):
        case "latest":
            return Latest()
        case "python":
            return _python_rule(table)
        case _:
            return _quorum(table, order, known)


def _python_rule(table: ConfigTable) -> PythonRule:
    function = table.get("function")
    if rule_function(function) is None:
        raise PlainError(f"{table.path}.function", EXPECTED, function)
    return PythonRule(function)


def _quorum(table: ConfigTable, order: list[str], known: set[str] | None) -> Quorum:
    thresholds = [_threshold(entry, known) for entry in table.tables("ladder")]
    if not thresholds:
        raise PlainError(f"{table.path}.ladder", "at least one threshold", [])
    rank = {name: place for place, name in enumerate(order)}
    thresholds.sort(key=lambda threshold: rank.get(threshold.state, len(order)))
    default = table.text("default", KEEP)
    if default != KEEP:
        _check_known(default, known, f"{table.path}.default")
    return Quorum(tuple(thresholds), default)


def _threshold(table: ConfigTable, known: set[str] | None) -> Threshold:
    state = _state_name(table, "state")
    _check_known(state, known, f"{table.path}.state")
    at_least, more_than = table.get("at_least"), table.get("more_than")
    if (at_least is None) == (more_than is None):
        raise PlainError(table.path, "either at_least or more_than", table.keys())
    if more_than is not None:
        return Threshold(
            state, *_fraction(more_than, f"{table.path}.more_than", low=0), strict=True
        )
    if isinstance(at_least, int) and not isinstance(at_least, bool):
        return Threshold(state, whole(1, MAX_WEIGHT)(at_least, f"{table.path}.at_least"))
    return Threshold(state, *_fraction(at_least, f"{table.path}.at_least", low=1))


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
    table: ConfigTable, key: str, known: set[str] | None, zero: bool = False
) -> dict[str, int] | None:
    entries = table.mapping(key)
    for state, value in entries.items():
        _check_known(state, known, f"{table.path}.{key}.{state}")
        entries[state] = duration(value, f"{table.path}.{key}.{state}", zero=zero)
    return entries or None


def _weights(table: ConfigTable) -> dict[str, int] | None:
    entries = table.mapping("weights")
    for agent, value in entries.items():
        entries[agent] = whole(0, MAX_WEIGHT)(value, f"{table.path}.weights.{agent}")
    return entries or None


def _tasks(table: ConfigTable, known: set[str] | None) -> tuple[TaskRule, ...]:
    if table.get("tasks") is None:
        return ()
    tasks = tuple(_task(entry, known) for entry in table.tables("tasks"))
    if len(tasks) > MAX_RULE_TASKS or len({task.id for task in tasks}) != len(tasks):
        expected = f"at most {MAX_RULE_TASKS} tasks, each once"
        raise PlainError(f"{table.path}.tasks", expected, len(tasks))
    return tasks


def _details(table: ConfigTable) -> tuple[DetailSpec, ...]:
    if table.get("details") is None:
        return ()
    details = tuple(_detail(entry) for entry in table.tables("details", short="key"))
    if len(details) > MAX_DETAILS or len({detail.key for detail in details}) != len(details):
        expected = f"at most {MAX_DETAILS} details, each once"
        raise PlainError(f"{table.path}.details", expected, [detail.key for detail in details])
    return details


def _detail(table: ConfigTable) -> DetailSpec:
    key = table.text("key")
    if not _DETAIL.match(key) or key in RESERVED:
        expected = "a key of a-z, 0-9, _ and -, which is no word of the filter's own"
        raise PlainError(f"{table.path}.key", expected, key)
    title = table.text("title", key.replace("_", " ").capitalize())
    return DetailSpec(key, title, table.text("unit") if table.get("unit") is not None else "")


def _links(table: ConfigTable) -> tuple[LinkSpec, ...]:
    if table.get("links") is None:
        return ()
    links = tuple(_link(entry) for entry in table.tables("links"))
    if len(links) > MAX_LINKS:
        raise PlainError(f"{table.path}.links", f"at most {MAX_LINKS} links", len(links))
    return links


def _incident(table: ConfigTable) -> str:
    word = table.text("incident", INCIDENT)
    if not _NOUN.match(word):
        raise PlainError(f"{table.path}.incident", "a word of a-z, at most 24 letters", word)
    return word


def _link(table: ConfigTable) -> LinkSpec:
    title, url = table.text("title"), table.text("url")
    if not _LINK.match(url):
        raise PlainError(f"{table.path}.url", LINK_EXPECTED, url)
    for name in LINK_PLACE.findall(url):
        if name not in ("asset", "scenario") and not _LABEL.match(name):
            expected = "only {asset}, {scenario} and {label:KEY}"
            raise PlainError(f"{table.path}.url", expected, f"{{{name}}}")
    return LinkSpec(title, url)


def _task(table: ConfigTable, known: set[str] | None) -> TaskRule:
    task = TaskRule(
        do=table.choice("do", ACTIONS),  # type: ignore[arg-type]
        on=_optional_state(table, "on", known),
        on_report=_optional_state(table, "on_report", known),
        state=_optional_state(table, "state", known),
        condition=_optional_state(table, "if", known),
        after=table.optional("after", _period),
        every=table.optional("every", _period),
        times=table.optional("times", whole(1, MAX_RUNS)),
    )
    _check_task(task, table)
    return task


def _check_task(task: TaskRule, table: ConfigTable) -> None:
    """Raise PlainError for a task that would never start, never run or never end."""
    if (task.on is None) == (task.on_report is None):
        raise PlainError(table.path, "either on or on_report", table.keys())
    if task.after is None and task.every is None:
        raise PlainError(table.path, "after, every or both", table.keys())
    if (task.do == "set") != (task.state is not None):
        raise PlainError(f"{table.path}.state", "a state where do is set, else none", task.state)
    if task.every is None and task.times is not None:
        raise PlainError(f"{table.path}.times", "none without every", task.times)
    if task.every is not None and task.times is None and task.within is None:
        expected = "the most runs, as no state that the asset leaves ends the task"
        raise PlainError(f"{table.path}.times", expected, None)


def _period(value: object, path: str) -> int:
    ms = duration(value, path)
    if ms < LEAST_PERIOD:
        raise PlainError(path, f'a duration of at least "{duration_text(LEAST_PERIOD)}"', value)
    return ms


def _optional_state(table: ConfigTable, key: str, known: set[str] | None) -> str | None:
    if table.get(key) is None:
        return None
    name = _state_name(table, key)
    _check_known(name, known, f"{table.path}.{key}")
    return name
