"""Warnings of a scheduled task: what it does by time alone may hide what agents say then."""

from __future__ import annotations

from dashboard.core.bidi import isolated
from domain.records import Schedule
from domain.scenario import Scenario

PURGES = "This may hide an attack: time alone will remove the row, whatever its agents say then."
PURGES_MANY = (
    "This may hide an attack: time alone will remove the rows, whatever their agents say then."
)


def may_hide(
    scenario: Scenario, do: str, state: str | None, condition: str | None, shown: str | None
) -> bool:
    """Return whether a task purges its asset, or pins it to a state milder than it shows.

    condition: what the asset must show when it runs; shown: what it shows now, None if that is not
    known. In a life cycle no state is milder than another.
    """
    if scenario.life_cycle:
        return False
    if do == "purge":
        return True
    worst = scenario.states[0].name
    # A state that nobody knows ranks as worse than the worst, which is worse than none itself.
    least = max(0, scenario.severity(condition or shown or worst))
    return do == "set" and bool(state) and scenario.severity(state or "") > least


def warning(scenario: Scenario, schedule: Schedule, state: str, shown: str | None) -> str:
    """Return what is said of a task before it is scheduled; empty where it can hide nothing.

    state: what a `set` pins; shown: what the asset shows now, None if that is not known.
    """
    if not may_hide(scenario, schedule.do, state, schedule.condition, shown):
        return ""
    return PURGES if schedule.do == "purge" else _sets(scenario, state, "it", "its")


def warning_of_many(scenario: Scenario, do: str, state: str) -> str:
    """Return what is said of a task that may hide something at several assets."""
    return PURGES_MANY if do == "purge" else _sets(scenario, state, "them", "their")


def _sets(scenario: Scenario, state: str, them: str, their: str) -> str:
    label = isolated(scenario.spec(state).label)
    return (
        f"This may hide an attack: time alone will pin {them} to {label}, "
        f"whatever {their} agents say then."
    )
