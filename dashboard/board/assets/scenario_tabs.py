"""The tabs: every scenario, the number of its unhandled assets, and problems of its board; the
filters that an admin has made tabs. Beside them, how many incidents the bar counts.

The examples stand apart, and one whose pipeline is switched off is left out.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from django.http import HttpRequest, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dashboard.board.live.live_view import LiveView, live_view
from dashboard.board.live.snapshots import MergedSnapshot, counted, tab_badges
from dashboard.core.common.access import role_required
from dashboard.core.common.navigation import open_incidents
from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.text import isolated
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
from dashboard.watch.annotations.row_marks import Badge, handled
from dashboard.watch.filters.models import SavedFilter
from domain.scenario import Scenario

# What was counted so long ago at the most is told to another page that asks again.
SHARED_S = 1.0
_shared: tuple[float, dict[str, Any]] = (0.0, {})


class Tab(NamedTuple):
    """A scenario's tab. unhandled: how many assets are, by state; problem: what is wrong with its
    board; off: the setting that turns its pipeline on, where that is why nobody has ever reported
    on it; is_example: whether it shows how something else than the watch works."""

    scenario: Scenario
    unhandled: Mapping[str, int]
    problem: str = ""
    off: str = ""
    current: bool = False
    is_example: bool = False

    @property
    def badge(self) -> Badge:
        """Return what the tab says of its unhandled assets."""
        return Badge.of(self.scenario, self.unhandled)


class FilterTab(NamedTuple):
    """A tab that is a filter of a board. badge: what it says of its unhandled assets."""

    saved: SavedFilter
    badge: Badge
    current: bool = False

    def plain(self) -> dict[str, str]:
        """Return what an open page shows of the tab, by the names that its link has for it."""
        saved = self.saved
        return {
            "filter": str(saved.pk),
            "of": saved.scenario,
            "q": saved.text,
            "title": isolated(saved.title),
            "name": saved.title,
            "full": isolated(saved.full_title),
            "address": saved.get_absolute_url(),
        }


class Tabs(NamedTuple):
    """A page's tabs. filters: those that are filters; standstill: why no board is live, None where
    one is; incidents: how many the bar counts."""

    all: Sequence[Tab]
    filters: Sequence[FilterTab] = ()
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
    def filter_shown(self) -> SavedFilter | None:
        """Return the tab that is shown, where that is a filter."""
        return next((tab.saved for tab in self.filters if tab.current), None)

    @property
    def unhandled(self) -> int:
        """Return how many assets are unhandled on all boards."""
        return sum(tab.badge.n for tab in self.all)

    @property
    def colour(self) -> str:
        """Return the colour of the first board with unhandled assets, else of the first board."""
        return next((tab for tab in self.all if tab.badge.n), self.all[0]).badge.colour


NO_TABS = Tabs(())


def tabs(current: str = "", snapshot: MergedSnapshot | None = None, text: str = "") -> Tabs:
    """Return each scenario's tab as of now, and those that are filters.

    snapshot: what was read of the current one, if it was; text: its filter, if that is all that is
    chosen there.
    """
    view = live_view()
    filters = filter_tabs(current, text)
    whole = not any(tab.current for tab in filters)
    counts, unhandled = view.figure("counts"), view.figure("unhandled")
    if snapshot is not None:
        counts[current], unhandled[current] = snapshot.merged.counts, snapshot.unhandled
    _count(view, counts, unhandled)
    facts, now = job_signs().facts(), now_ms()
    wrong = board_problems(facts, list(scenarios().values()), now)
    off = _off(counts)
    made = [
        Tab(
            each,
            unhandled.get(name, {}),
            wrong.get(name, ""),
            off.get(name, ""),
            name == current and whole,
            each.life_cycle or reporter_of(name) is not None,
        )
        for name, each in scenarios().items()
    ]
    return Tabs(made, filters, _standstill(facts, now), open_incidents())


def filter_tabs(current: str = "", text: str = "") -> list[FilterTab]:
    """Return the tabs that are filters, with what is unhandled in each as of now. text: of the
    filter that the current board shows."""
    view, saved = live_view(), SavedFilter.objects.tabs()
    known = view.figure("tabs")
    missing = {each.scenario for each in saved if str(each.pk) not in known.get(each.scenario, {})}
    known |= {name: tab_badges(scenarios()[name], saved, view.overlay(name)) for name in missing}
    alike = (each.pk for each in saved if (each.scenario, each.text) == (current, text.strip()))
    shown = next(alike, None)  # several may have the same text
    return [FilterTab(each, known[each.scenario][str(each.pk)], each.pk == shown) for each in saved]


def counted_tab(saved: SavedFilter) -> FilterTab:
    """Return a filter as a tab, counted anew: what is known may be of the text that it had."""
    scenario, overlay = scenarios()[saved.scenario], live_view().overlay(saved.scenario)
    return FilterTab(saved, tab_badges(scenario, [saved], overlay)[str(saved.pk)])


def _standstill(facts: Facts, now: int) -> BoardProblem | None:
    """Return the problem by which no board is live, None where one is."""
    known = list(scenarios().values())
    standstills = [standstill(find_problems(facts, known, each.name, now)) for each in known]
    return standstills[0] if all(standstills) else None


def _off(known: Mapping[str, Mapping[str, int]]) -> dict[str, str]:
    """Return the setting that turns on the pipeline of each board set apart."""
    reporters = {name: reporter_of(name) for name in scenarios() if not any(known[name].values())}
    off = {name: each.setting for name, each in reporters.items() if each and not each.on}
    unreported = LastReport.objects.missing(off)
    return {name: setting for name, setting in off.items() if name in unreported}


def _count(
    view: LiveView, counts: dict[str, Mapping[str, int]], unhandled: dict[str, Mapping[str, int]]
) -> None:
    """Add the counts of scenarios that are missing, by state."""
    given = counts.keys() & unhandled.keys()
    missing = [each for name, each in scenarios().items() if name not in given]
    newer = {each.name: view.overlay(each.name) for each in missing}
    stored, now = counts_of_all() if missing else {}, now_ms()
    for scenario in missing:
        name = scenario.name
        if newer[name]:
            numbers = counted(scenario, newer[name])
            counts[name], unhandled[name] = numbers.merged.counts, numbers.unhandled
            continue
        counts[name] = known = stored.get(name, {})
        if not scenario.life_cycle:
            unhandled[name] = handled(scenario, {}, now).left(scenario, known)


def in_title(made: Tabs) -> int:
    """Return how many unhandled assets a browser tab's title counts: of the board that is shown, or
    of all together."""
    tabs: list[Tab | FilterTab] = [*made.all, *made.filters]
    current = [tab for tab in tabs if tab.current]
    return sum(tab.badge.n for tab in current or made.all)


@require_safe
@never_cache
@role_required("read")
def badges(_request: HttpRequest) -> JsonResponse:
    """Return for an open page how many assets of each scenario are unhandled, which boards of teams
    there are, how many incidents the bar counts, what is wrong with which board, and why nothing is
    live, if so."""
    global _shared  # noqa: PLW0603 - one answer for all pages of this process
    if time.monotonic() - _shared[0] > SHARED_S:
        _shared = (time.monotonic(), _plain_tabs(tabs()))
    return JsonResponse(_shared[1])


def _plain_tabs(made: Tabs) -> dict[str, Any]:
    still = made.standstill
    return {
        "badges": {t.scenario.name: t.badge for t in made.all if not t.scenario.life_cycle},
        "tabs": {str(tab.saved.pk): tab.badge for tab in made.filters},
        "filters": [tab.plain() for tab in made.filters],
        "incidents": made.incidents,
        "board_problems": {tab.scenario.name: tab.problem for tab in made.all if tab.problem},
        "standstill": still and {"kind": still["kind"], "since": still["since"]},
    }
