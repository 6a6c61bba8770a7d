"""A scenario's keys in words, for pages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from dashboard.core.common.tables import Column, Table
from domain.config_values import duration_text
from domain.overlay import LIVE_KEYS
from domain.scenario import KEEP, Latest, PythonRule, Scenario, TaskRule, Threshold

TITLES = {
    "rule": "Rule",
    "min_voters": "Fewest voters",
    "vote_lifetime": "Vote lifetime",
    "forget_after": "Silent votes kept",
    "max_report_age": "Oldest report",
    "electorate": "Electorate",
    "holds": "Holds",
    "reminders": "Reminders",
    "purge_after": "Purge after",
    "weights": "Weights",
    "tasks": "Tasks",
}
MOST_NAMED = 40
"""Most weights that are listed."""


class DescriptionLine(NamedTuple):
    """One line of a value: a state's label or an agent's name, if it has one, and the words."""

    name: str
    words: str


Lines = tuple[DescriptionLine, ...]


def lines(scenario: Scenario, key: str) -> Lines:
    """Return the value of one of LIVE_KEYS in words."""
    match key:
        case "rule":
            return rule(scenario)
        case "min_voters":
            return _voters(scenario)
        case "vote_lifetime":
            return _one(_span(scenario.lifetime, "forever"))
        case "forget_after":
            return _one(_memory(scenario))
        case "max_report_age":
            return _one(_oldest(scenario))
        case "electorate":
            of = scenario.electorate
            return _one("the live votes" if of is None else f"weight {of:,} in all")
        case "weights":
            return _weights(scenario.weights or {})
        case "tasks":
            return tuple(_task(scenario, each) for each in scenario.tasks) or _one("none")
        case _:
            return _by_state(scenario, getattr(scenario, key) or {})


def _one(words: str) -> Lines:
    return (DescriptionLine("", words),)


def _voters(scenario: Scenario) -> Lines:
    lower, up = scenario.min_voters, scenario.raise_voters
    if lower == up == 1:
        return _one("one vote is enough")
    if scenario.life_cycle:
        return _one(f"{_agents(lower)} must vote, else it is unconfirmed")
    return (
        DescriptionLine("", f"{_agents(lower)} must vote to lower a state, else it is unconfirmed"),
        DescriptionLine("", f"{_agents(up)} must vote to raise it"),
    )


def _agents(n: int) -> str:
    return "one agent" if n == 1 else f"{n:,} agents"


def severity(scenario: Scenario) -> str:
    """Return whether the states are ordered by severity, and what follows from that."""
    if scenario.life_cycle:
        return (
            "No state is worse than another: each follows from the tally of the live votes, and "
            "a vote that has ended is forgotten."
        )
    return (
        "Live votes alone raise a state. It is lowered once enough live votes say better, and no "
        "agent that said worse has merely fallen silent."
    )


def _memory(scenario: Scenario) -> str:
    """Return how long a silent agent's last vote counts against an all-clear."""
    if scenario.life_cycle:
        return "never: no state is worse than another"
    if scenario.forget_delay is None:
        return "never: silent votes are forgotten at once"
    usual = " (three vote lifetimes, at least 15 m)" if scenario.forget_after is None else ""
    return f"{span(scenario.forget_delay)}{usual}"


def _oldest(scenario: Scenario) -> str:
    limit = scenario.report_age_limit
    if scenario.max_report_age is None and limit is not None:
        return f"{span(limit)}, as long as silent votes are kept"
    return _span(limit, "any age")


def span(ms: int) -> str:
    """Return a duration as written in scenarios.toml: `250 ms`, `90 s`, `7 d`."""
    text = duration_text(ms)
    unit = text.lstrip("0123456789")
    return f"{int(text.removesuffix(unit)):,} {unit}"


def _span(ms: int | None, without: str) -> str:
    return without if ms is None else span(ms)


def _by_state(scenario: Scenario, values: Mapping[str, int]) -> Lines:
    order = sorted(values, key=lambda state: (scenario.severity(state), state))
    entries = tuple(
        DescriptionLine(scenario.spec(state).label, span(values[state])) for state in order
    )
    return entries or _one("none")


def _weights(weights: Mapping[str, int]) -> Lines:
    if not weights:
        return _one("1 each")
    listed = [DescriptionLine(name, f"{weight:,}") for name, weight in sorted(weights.items())]
    more = len(listed) - MOST_NAMED
    rest = f"and {more:,} more; all others 1" if more > 0 else "all others 1"
    return (*listed[:MOST_NAMED], DescriptionLine("", rest))


def _task(scenario: Scenario, task: TaskRule) -> DescriptionLine:
    """Return a task in words: what starts it, when and on what condition it acts, what it does."""

    def label(state: str | None) -> str:
        return scenario.spec(state or "").label

    begins = f"in {label(task.on)}" if task.on else f"a report of {label(task.on_report)}"
    when = [f"after {span(task.after)}"] if task.after else []
    when += [f"every {span(task.every)}"] if task.every else []
    most = f", at most {task.times:,} times" if task.times else ""
    condition = f" if it is {label(task.condition)}" if task.condition else ""
    does = f"set {label(task.state)}" if task.state else task.do
    return DescriptionLine(begins, f"{', then '.join(when)}{most}{condition}: {does}")


# ---- the rule -------------------------------------------------------------------------------


def rule(scenario: Scenario) -> Lines:
    """Return how votes become a state, one sentence per threshold, from the top."""
    how = scenario.rule
    if isinstance(how, Latest):
        return _one("The latest report decides.")
    if isinstance(how, PythonRule):
        return _one(f"The Python function {how.function} decides.")
    thresholds = [
        DescriptionLine(scenario.spec(threshold.state).label, _threshold(scenario, threshold))
        for threshold in how.ladder
    ]
    if how.default == KEEP:
        return (
            *thresholds,
            DescriptionLine("", "Where none of these holds, the state stays as it is."),
        )
    return (
        *thresholds,
        DescriptionLine(scenario.spec(how.default).label, "where none of these holds."),
    )


def _threshold(scenario: Scenario, threshold: Threshold) -> str:
    electorate, it = scenario.electorate, _it(scenario, threshold.state)
    if threshold.q == 0:
        return f"when the live votes for {it} weigh {threshold.p:,} or more."
    how = "more than" if threshold.strict else "at least"
    of = (
        "the weight of all live votes" if electorate is None else f"an electorate of {electorate:,}"
    )
    if (threshold.strict, threshold.p, threshold.q) == (True, 1, 2):
        return f"when more than half of {of} is for {it}."
    are = "are" if threshold.p > 1 else "is"
    return f"when {how} {threshold.p}/{threshold.q} of {of} {are} for {it}."


def _it(scenario: Scenario, state: str) -> str:
    """Return what a threshold counts votes for: its state, or also worse ones if there are any."""
    ends = (scenario.states[0].name, scenario.mildest)
    return "it" if scenario.life_cycle or state in ends else "it or worse"


# ---- beside each other ----------------------------------------------------------------------


class KeyComparison(NamedTuple):
    """One key of several scenarios. differs: whether the first and the last value differ."""

    key: str
    title: str
    values: tuple[Lines, ...]
    differs: bool


COMPARED = Table(
    "", "Key", "scenarios.toml", "The job uses", Column.unseen("Differs"), css="compared"
)
PROPOSAL = Table(
    "", "Key", "scenarios.toml", "Now", "Proposed", Column.unseen("Differs"), css="compared"
)


def compared(*scenarios: Scenario) -> list[KeyComparison]:
    """Return every key that may be changed, with its value in each of these scenarios."""
    plain = [scenario.to_plain() for scenario in scenarios]
    return [
        KeyComparison(
            key,
            TITLES[key],
            tuple(lines(scenario, key) for scenario in scenarios),
            plain[0][key] != plain[-1][key],
        )
        for key in LIVE_KEYS
    ]
