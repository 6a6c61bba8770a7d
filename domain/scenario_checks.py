"""What a scenario with severity may not contain: time or silence alone must not hide a bad state.

Only scenarios being written are checked. A rule in the log is read as it is.
"""

from __future__ import annotations

from dataclasses import replace

from domain.config_values import PlainError, duration_text
from domain.scenario import FOLD, KEEP, Quorum, Scenario, TaskRule

NO_PURGE = (
    "no purge, as time alone would remove a red row: "
    "use purge_after for the mildest state, or schedule a purge by hand"
)
LIFETIME = (
    'a duration such as "10m": with severity a vote without an end would confirm a green for ever'
)


def check_severity(scenario: Scenario) -> None:
    """Raise PlainError with the key if time or silence could hide a bad state of the scenario.

    A life cycle may contain anything, as none of its states is worse than another.
    """
    if scenario.life_cycle:
        return
    _check_lifetime(scenario)
    _check_purges(scenario)
    _check_memory(scenario)
    _check_default(scenario)
    for at, task in enumerate(scenario.tasks):
        _check_task(scenario, task, f"{scenario.name}.tasks[{at}]")


def _check_lifetime(scenario: Scenario) -> None:
    if scenario.vote_lifetime is None:
        raise PlainError(f"{scenario.name}.vote_lifetime", LIFETIME, None)


def _check_purges(scenario: Scenario) -> None:
    for state in scenario.purge_after or {}:
        if state != scenario.mildest:
            expected = f'only {scenario.mildest}, the mildest state, or severity = "none"'
            raise PlainError(f"{scenario.name}.purge_after", expected, state)


def _check_memory(scenario: Scenario) -> None:
    """Raise PlainError unless `max_report_age` is at most `forget_after`.

    An equally old report must not bring back a vote whose agent was forgotten long ago.
    """
    limit = scenario.report_age_limit
    if scenario.max_report_age is not None and limit != scenario.max_report_age:
        expected = f'at most forget_after, which is "{duration_text(limit or 0)}"'
        text = duration_text(scenario.max_report_age)
        raise PlainError(f"{scenario.name}.max_report_age", expected, text)


def _check_default(scenario: Scenario) -> None:
    """Raise PlainError if a threshold is milder than the default.

    Votes for a worse state count towards a milder threshold, so they would make the tally milder
    than it is without them. The threshold of the mildest state counts only that state.
    """
    rule = scenario.rule
    if not isinstance(rule, Quorum) or rule.default == KEEP:
        return
    for threshold in rule.ladder:
        milder = scenario.severity(threshold.state) > scenario.severity(rule.default)
        if milder and threshold.state != scenario.mildest:
            expected = f"keep, or a state no worse than the threshold {threshold.state}"
            raise PlainError(f"{scenario.name}.rule.default", expected, rule.default)


def _check_task(scenario: Scenario, task: TaskRule, path: str) -> None:
    # Whichever version of the fold the scenario names, new scenarios must satisfy the current one.
    if replace(scenario, fold=FOLD).task_fault(task) is None:
        return
    if task.do == "purge":
        raise PlainError(f"{path}.do", NO_PURGE, task.do)
    raise PlainError(f"{path}.state", _settable(scenario, task), task.state)


def _settable(scenario: Scenario, task: TaskRule) -> str:
    """Describe the states that a task may set."""
    worst = scenario.states[0].name
    shown = task.condition or task.on
    states = f"{shown} or a worse state" if shown and shown != worst else worst
    # A report says nothing about the state shown when its task runs.
    hint = "" if shown else f", or an if no worse than {task.state}"
    return f"{states}{hint}, as time alone must not make a state milder: pin it by hand"
