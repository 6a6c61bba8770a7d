"""The scenarios that this process has configured."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from django.conf import settings
from django.http import Http404

from domain.scenario import Scenario, ScenarioError
from domain.scenario_parser import DependsOn, load_dependencies, load_scenarios
from wire.topics import Topics


@lru_cache(maxsize=1)
def scenarios() -> dict[str, Scenario]:
    """Return the scenarios by name, in the file's order. Raises ScenarioError."""
    tallyboard = settings.TALLYBOARD
    return load_scenarios(tallyboard.scenarios, demo=tallyboard.demo)


@lru_cache(maxsize=1)
def dependencies() -> dict[str, DependsOn]:
    """Return by scenario what its assets lie behind. Raises ScenarioError."""
    return load_dependencies(settings.TALLYBOARD.scenarios)


def dependents(name: str) -> list[str]:
    """Return the scenarios of which assets lie behind those of this one."""
    return [each for each, depends in dependencies().items() if depends.scenario == name]


def scenario_or_404(name: str) -> Scenario:
    """Return the scenario with this name. Raises Http404."""
    known = scenarios().get(name)
    if known is None:
        raise Http404
    return known


def scenario_or_first(name: str) -> Scenario:
    """Return the scenario with this name, the first in the file for "". Raises Http404."""
    return scenario_or_404(name or next(iter(scenarios())))


class FileNow(NamedTuple):
    """The scenarios as their file has them now.

    error: why they are those from the start instead.
    """

    scenarios: Mapping[str, Scenario]
    error: str = ""


def file_now() -> FileNow:
    """Return the file's scenarios, read again if it has changed.

    Changed rules do not wait for a restart.
    """
    path = settings.TALLYBOARD.scenarios
    try:
        return _file_at(path, settings.TALLYBOARD.demo, path.stat().st_mtime_ns)
    except OSError as error:
        return FileNow(scenarios(), f"{path}: cannot be read: {error.strerror}")


@lru_cache(maxsize=1)
def _file_at(path: Path, demo: bool, _changed: int) -> FileNow:
    try:
        return FileNow(load_scenarios(path, demo=demo))
    except ScenarioError as error:
        return FileNow(scenarios(), str(error))


def jobs() -> dict[str, str]:
    """Return by scenario the named job that is to carry it; the main one carries all others."""
    division = settings.TALLYBOARD.jobs
    return {name: job for job, names in division.items() for name in names}


def topics() -> Topics:
    """Return the topic names of this copy."""
    return Topics(settings.TALLYBOARD.topic_prefix)
