"""The wall: every board with severity on one screen, for a room to read."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dashboard.board.live.live_view import live_view
from dashboard.board.live.page_filter import PageFilter
from dashboard.board.live.snapshots import MergedSnapshot, read
from dashboard.core.common.access import is_fragment, role_required, takes
from dashboard.core.common.scenarios import scenario_or_404, scenarios
from dashboard.core.common.times import now_ms
from dashboard.core.job.freshness import BoardProblem
from dashboard.core.job.status import problems
from dashboard.core.states.board_rows import Row
from dashboard.core.states.caveats import NAMED, CountedTerm
from dashboard.watch.annotations.row_marks import NO_HAND, RowMark
from domain.scenario import Scenario, StateSpec

MOST = 120
"""Most assets of one board that the wall names."""


@dataclass(frozen=True)
class WallBoard:
    """A board on the wall. snapshot: its first page, where what is not good comes first; problem:
    why its rows are not live, None where they are."""

    scenario: Scenario
    snapshot: MergedSnapshot
    problem: BoardProblem | None

    @classmethod
    def of(cls, scenario: Scenario, now: int) -> WallBoard:
        """Return a scenario's board as of `now` (Unix ms)."""
        snapshot = read(scenario, PageFilter(), live_view().overlay(scenario.name))
        stale = (each for each in problems(now, scenario.name) if each["stale"])
        return cls(scenario, snapshot, next(stale, None))

    @property
    def counts(self) -> list[tuple[StateSpec, int]]:
        """How many assets are in each state, the most severe first."""
        known = self.snapshot.merged.counts
        others = sorted(known.keys() - {spec.name for spec in self.scenario.states})
        specs = [*map(self.scenario.spec, others), *self.scenario.states]
        return [(spec, known.get(spec.name, 0)) for spec in specs]

    @property
    def n(self) -> int:
        """How many assets are unhandled."""
        return sum(self.snapshot.unhandled.values())

    @property
    def marks(self) -> dict[str, RowMark]:
        """What people have said of assets, by name."""
        return {mark.asset: mark for mark in self.snapshot.marks}

    @cached_property
    def named(self) -> list[Row]:
        """The rows that are not good, or of which somebody says so: unhandled ones first."""
        rows = self.snapshot.merged.rows
        return [row for row in rows if row["alarming"] or row["disputed"]][:MOST]

    @property
    def unhandled(self) -> list[Row]:
        """The rows of unhandled assets."""
        return [row for row in self.named if row["alarming"] and not self._is_handled(row)]

    @property
    def others(self) -> list[Row]:
        """The named rows of all other assets."""
        return [row for row in self.named if not row["alarming"] or self._is_handled(row)]

    def _is_handled(self, row: Row) -> bool:
        return self.snapshot.handled.hands.get(row["asset"], NO_HAND).holds

    @property
    def more(self) -> int:
        """How many assets that are not good are not named."""
        alarming = sum(n for state, n in self.snapshot.merged.counts.items() if self._alarms(state))
        return max(0, alarming - len([row for row in self.named if row["alarming"]]))

    @property
    def rest(self) -> list[tuple[StateSpec, int]]:
        """How many assets are in each good state, without those named."""
        named = Counter(row["state"] for row in self.named)
        left = ((spec, n - named[spec.name]) for spec, n in self.counts)
        return [(spec, n) for spec, n in left if n > 0 and not self._alarms(spec.name)]

    def _alarms(self, state: str) -> bool:
        return self.scenario.is_alarming(state)

    @property
    def doubts(self) -> list[tuple[CountedTerm, int]]:
        """How many assets that are not named there is each doubt of."""
        named = Counter(doubt for row in self.named for doubt in row["doubts"])
        left = ((term, self.snapshot.merged.doubts[term.name] - named[term.name]) for term in NAMED)
        return [(term, n) for term, n in left if n > 0]


@require_safe
@never_cache
@role_required("read")
@takes("scenario")
def wall(request: HttpRequest) -> HttpResponse:
    """Render the wall of all boards with severity, or of those that the address names."""
    chosen = [scenario_or_404(name) for name in request.GET.getlist("scenario")[:20]]
    shown = chosen or [each for each in scenarios().values() if not each.life_cycle]
    now = now_ms()
    context = {
        "boards": [WallBoard.of(scenario, now) for scenario in shown],
        "now": now,
        "address": request.get_full_path(),
    }
    template = "wall/_boards.html" if is_fragment(request) else "wall/wall.html"
    return render(request, template, context)
