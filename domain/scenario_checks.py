"""What a scenario with severity may not say: time and silence alone must not hide a bad state.

Only what is written is held to it. A rule in the log is read as it stands.
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

    In a life cycle no state is worse than another, so everything may be said of one.
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

    A vote whose agent has long been forgotten must not come back by a report as old.
    """
    limit = scenario.report_age_limit
    if scenario.max_report_age is not None and limit != scenario.max_report_age:
        expected = f'at most forget_after, which is "{duration_text(limit or 0)}"'
        text = duration_text(scenario.max_report_age)
        raise PlainError(f"{scenario.name}.max_report_age", expected, text)


def _check_default(scenario: Scenario) -> None:
    """Raise PlainError if a threshold is milder than the default.

    Votes for a worse state count towards a milder threshold, so they would make the tally milder
    than it is without them. The mildest state's threshold counts that state alone.
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
    # Whichever version of the fold the scenario names, what is written now keeps to this one.
    if replace(scenario, fold=FOLD).task_fault(task) is None:
        return
    if task.do == "purge":
        raise PlainError(f"{path}.do", NO_PURGE, task.do)
    raise PlainError(f"{path}.state", _settable(scenario, task), task.state)


def _settable(scenario: Scenario, task: TaskRule) -> str:
    """Return which states a task may set."""
    worst = scenario.states[0].name
    shown = task.condition or task.on
    states = f"{shown} or a worse state" if shown and shown != worst else worst
    # A report tells nothing of the state that is shown when its task runs.
    hint = "" if shown else f", or an if no worse than {task.state}"
    return f"{states}{hint}, as time alone must not make a state milder: pin it by hand"
