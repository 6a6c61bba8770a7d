"""Troubles of boards' freshness, as this process has heard, or else as the database has it."""

from __future__ import annotations

from dashboard.core.scenarios import scenarios
from dashboard.job.freshness import Trouble, standing
from dashboard.job.liveness import process_signs
from dashboard.job.stored_status import recall


def troubles(now: int, current: str = "") -> list[Trouble]:
    """Return every trouble at `now` (Unix ms); those of the scenario `current` first."""
    signs = process_signs()
    if signs.facts().reached is None:
        recall(signs)
    return standing(signs.facts(), list(scenarios().values()), current, now)
