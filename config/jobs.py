"""Which job carries which scenario: named jobs, and the main one, which carries all others."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

MAIN = ""
"""Name of the job that carries every scenario which no named job carries."""
FORMAT = "shop: orders, invoices; edge: attack"
"""An example of the setting."""

_JOB = re.compile(r"[a-z][a-z0-9-]{0,29}")
_SCENARIO = re.compile(r"[a-z][a-z0-9-]{0,39}")

Division = Mapping[str, Sequence[str]]
"""The scenarios of each named job."""


def read_division(text: str) -> dict[str, tuple[str, ...]]:
    """Return the scenarios of each named job, in the order given. Raises ValueError.

    No job and no scenario may be named twice, so no two jobs carry one scenario.
    """
    groups = [_group(each) for each in text.split(";") if each.strip()]
    _once([job for job, _ in groups], "list all scenarios of a job in one place")
    _once([name for _, names in groups for name in names], "one job carries a scenario")
    return dict(groups)


def _group(text: str) -> tuple[str, tuple[str, ...]]:
    """Return a job with its scenarios. Raises ValueError."""
    name, _, listed = text.partition(":")
    job, scenarios = name.strip(), tuple(each.strip() for each in listed.split(","))
    if not _JOB.fullmatch(job) or not all(map(_SCENARIO.fullmatch, scenarios)):
        raise ValueError(f"expected jobs with their scenarios, such as {FORMAT!r}")
    return job, scenarios


def _once(names: Sequence[str], why: str) -> None:
    """Raise ValueError if a name is there twice."""
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{name} is named twice: {why}")


def _named(division: Division) -> list[str]:
    return [scenario for scenarios in division.values() for scenario in scenarios]


def division_problem(division: Division, known: Collection[str]) -> str:
    """Return what is wrong with a division of these scenarios, or ''."""
    for job, scenarios in division.items():
        for name in scenarios:
            if name not in known:
                return (
                    f"{name!r} of the job {job} is no scenario: expected some of {', '.join(known)}"
                )
    if division and not set(known) - set(_named(division)):
        return "every scenario is named: leave at least one to the main job, which carries the rest"
    return ""


def job_of(division: Division, scenario: str) -> str:
    """Return the job that carries a scenario, MAIN where none is named for it."""
    return next((job for job, scenarios in division.items() if scenario in scenarios), MAIN)


def process_of(job: str, role: str = "job") -> str:
    """Return the name of a job's process: `job`, or `job-shop`."""
    return f"{role}-{job}" if job else role


def words_of(job: str) -> str:
    """Return the job as the subject of a sentence: `the job`, or `the job shop`."""
    return f"the job {job}" if job else "the job"
