"""When anybody last reported on a scenario, kept for good.

Times in Unix ms of the broker's clock: a log that is read again gives the same ones.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from dashboard.agents.models import LastReport
from dashboard.core.sql import execute_many

NEWEST = """\
INSERT INTO agentry_lastreport (scenario, at) VALUES (%s, %s)
ON CONFLICT (scenario) DO UPDATE SET at = excluded.at WHERE excluded.at > agentry_lastreport.at"""


def keep(*newest: Mapping[str, int]) -> None:
    """Store when the newest report of each scenario came, where that is newer than what is kept."""
    times: dict[str, int] = {}
    for each in newest:
        for scenario, at in each.items():
            times[scenario] = max(at, times.get(scenario, 0))
    execute_many(NEWEST, sorted(times.items()))  # in order, so that there is no deadlock


def never_reported(scenarios: Collection[str]) -> set[str]:
    """Return those of these scenarios on which nobody has ever reported."""
    if not scenarios:
        return set()
    rows = LastReport.objects.filter(scenario__in=scenarios)
    return set(scenarios) - set(rows.values_list("scenario", flat=True))
