"""The configured scenarios of this process."""

from __future__ import annotations

from functools import lru_cache

from django.conf import settings

from domain.scenario import Scenario, load_scenarios
from wire.topics import Topics


@lru_cache(maxsize=1)
def scenarios() -> dict[str, Scenario]:
    """The scenarios by name, in the file's order. Raises ScenarioError."""
    tallyboard = settings.TALLYBOARD
    return load_scenarios(tallyboard.scenarios, demo=tallyboard.demo)


def topics() -> Topics:
    """The topic names of this copy."""
    return Topics(settings.TALLYBOARD.topic_prefix)
