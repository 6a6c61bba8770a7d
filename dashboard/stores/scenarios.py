"""Of which scenarios the stores keep the states, as the settings have it."""

from __future__ import annotations

from django.conf import settings

from dashboard.core.scenarios import scenarios
from stores.base import NotRun


def stored() -> tuple[str, ...]:
    """Return the scenarios that the stores keep. Raises ValueError for a setting that names an
    unknown one."""
    return tuple(settings.TALLYBOARD.stored(scenarios()))


def check_stored(scenario: str) -> None:
    """Raise NotRun unless the stores keep this scenario."""
    if scenario not in stored():
        kept = ", ".join(stored()) or "none"
        raise NotRun(
            f"The stores keep no states of {scenario}: add it to TALLYBOARD_STORES_SCENARIOS "
            f"(now {kept}), or ask the database."
        )
