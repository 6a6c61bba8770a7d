"""The tabs: every scenario, the number of its assets in the most severe state, and problems of its
board. Beside them, how many incidents are open.

The examples stand apart, and one whose pipeline is switched off is left out.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from django.http import HttpRequest, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dashboard.board.live.live_view import live_view
from dashboard.board.live.snapshots import count
from dashboard.core.common.access import role_required
from dashboard.core.common.navigation import open_incidents
from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.times import now_ms
from dashboard.core.job.freshness import (
    BoardProblem,
    Facts,
    board_problems,
    find_problems,
    standstill,
)
from dashboard.core.job.pipelines import reporter_of
from dashboard.core.job.status import job_signs
from dashboard.core.states.queries import counts_of_all
from dashboard.watch.agents.models import LastReport
from domain.scenario import Scenario, StateSpec

# What was counted so long ago at the most is told to another page that asks again.
SHARED_S = 1.0
_shared: tuple[float, dict[str, Any]] = (0.0, {})


class Tab(NamedTuple):
    """A scenario's tab. worst: its most severe state; alarms: how many assets are in it, of a life
    cycle none; trouble: what is wrong with its board; off: the setting that turns its pipeline on,
    where that is why nobody has ever reported on it; is_example: whether it shows how something
    else than the watch works."""

    scenario: Scenario
    worst: StateSpec
    alarms: int
    trouble: str = ""
    off: str = ""
    current: bool = False
    is_example: bool = False


class Tabs(NamedTuple):
    """A page's tabs. standstill: why no board is live, None where one is; incidents: how many the
    bar counts."""

    all: Sequence[Tab]
    standstill: BoardProblem | None = None
    incidents: int = 0

    @property
    def shown(self) -> list[Tab]:
        """Return the boards of what is watched."""
        return [tab for tab in self.all if not tab.is_example]

    @property
    def examples(self) -> list[Tab]:
        """Return the examples that run, and the one that is shown."""
        return [tab for tab in self.all if tab.is_example and (tab.current or not tab.off)]

    @property
    def alarms(self) -> int:
        """Return how many assets are in the most severe state of their board."""
        return sum(tab.alarms for tab in self.all)


NO_TABS = Tabs(())


def tabs(current: str = "", counts: Mapping[str, int] | None = None) -> Tabs:
    """Return each scenario's tab as of now. counts: by state, of the current one, if known."""
    known = _known({current: counts} if counts is not None else {})
    facts, now = job_signs().facts(), now_ms()
    wrong = board_problems(facts, list(scenarios().values()), now)
    off = _off(known)
    made = []
    for name, scenario in scenarios().items():
        worst = scenario.states[0]
        alarms = 0 if scenario.life_cycle else known[name].get(worst.name, 0)
        is_example = scenario.life_cycle or reporter_of(name) is not None
        trouble, setting = wrong.get(name, ""), off.get(name, "")
        made.append(Tab(scenario, worst, alarms, trouble, setting, name == current, is_example))
    return Tabs(made, _standstill(facts, now), open_incidents())


def _standstill(facts: Facts, now: int) -> BoardProblem | None:
    """Return the trouble by which no board is live, None where one is."""
    known = list(scenarios().values())
    found = [standstill(find_problems(facts, known, each.name, now)) for each in known]
    return found[0] if all(found) else None


def _off(known: Mapping[str, Mapping[str, int]]) -> dict[str, str]:
    """Return the setting that turns on the pipeline of each board set apart."""
    reporters = {name: reporter_of(name) for name in scenarios() if not any(known[name].values())}
    off = {name: each.setting for name, each in reporters.items() if each and not each.on}
    unreported = LastReport.objects.missing(off)
    return {name: setting for name, setting in off.items() if name in unreported}


def _known(given: Mapping[str, Mapping[str, int]]) -> dict[str, Mapping[str, int]]:
    """Return each scenario's counts by state: those passed in, cached, or counted now."""
    view = live_view()
    known = {**view.counts(), **given}
    missing = [name for name in scenarios() if name not in known]
    if missing:
        newer = {name: view.overlay(name) for name in missing}
        stored = counts_of_all()
        for name in missing:
            over = newer[name]
            known[name] = count(scenarios()[name], over) if over else stored.get(name, {})
    return known


def alarms(made: Tabs) -> int:
    """Return the count in a browser tab's title: of the board that is shown, or of all together.

    A life cycle has no state that is worse than another.
    """
    current = [tab for tab in made.all if tab.current]
    return sum(tab.alarms for tab in current or made.all)


@require_safe
@never_cache
@role_required("read")
def worst(_request: HttpRequest) -> JsonResponse:
    """Return for an open page how many assets of each scenario are in its most severe state, how
    many incidents the bar counts, what is wrong with which board, and why nothing is live, if so.
    """
    global _shared  # noqa: PLW0603 - one answer for all pages of this process
    if time.monotonic() - _shared[0] > SHARED_S:
        _shared = (time.monotonic(), _plain_tabs(tabs()))
    return JsonResponse(_shared[1])


def _plain_tabs(made: Tabs) -> dict[str, Any]:
    still = made.standstill
    return {
        "worst": {t.scenario.name: t.alarms for t in made.all if not t.scenario.life_cycle},
        "incidents": made.incidents,
        "board_troubles": {tab.scenario.name: tab.trouble for tab in made.all if tab.trouble},
        "standstill": still and {"kind": still["kind"], "since": still["since"]},
    }
