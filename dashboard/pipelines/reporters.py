"""The shipped pipelines that report to boards."""

from __future__ import annotations

from dataclasses import dataclass

from django.conf import settings

REPORTERS = {"clients": "login-guard", "customers": "loyalty"}
"""By the scenario that they report to."""


@dataclass(frozen=True, slots=True)
class Reporter:
    """A pipeline that reports to a board; on: whether the settings say that it runs."""

    name: str
    on: bool

    @property
    def setting(self) -> str:
        """Return the setting that turns it on, besides those that run."""
        names = [name.strip() for name in settings.TALLYBOARD.pipelines.split(",")]
        running = [name for name in names if name not in ("", "none")]
        return f"TALLYBOARD_PIPELINES={','.join([*running, self.name])}"


def reporter_of(scenario: str) -> Reporter | None:
    """Return the shipped pipeline that reports to this scenario, None where there is none."""
    name = REPORTERS.get(scenario)
    if name is None:
        return None
    return Reporter(name, settings.TALLYBOARD.runs(name))
