"""Labels and acknowledgements, which filters and rows need of an asset besides its records."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping

from dashboard.annotations.row_marks import Mark, calm_of, in_force
from dashboard.labels.queries import State, labels_of, states
from dashboard.live.entries import Entry
from dashboard.live.live_view import LiveView
from domain.scenario import Scenario

# How often it is looked whether labels have changed: each time boards are read anew.
LOOK_S = 2.0
_NONE = State()


class Beside:
    """The labels and acknowledgements, for the thread that applies records."""

    def __init__(self, scenarios: Mapping[str, Scenario], view: LiveView) -> None:
        self._scenarios, self._view = scenarios, view
        self._states: dict[str, State] | None = None
        self._next = 0.0

    def tell(self, scenario: str, entries: Collection[Entry]) -> None:
        """Set on records which nobody has been sent yet what else is known of their assets."""
        if self._states is None:
            self._states = states()
        state = self._states.get(scenario, _NONE)
        names = {entry.asset for entry in entries}
        labels = labels_of(scenario, names) if state.n else {}
        marks, now = self._view.marks(scenario), time.time_ns() // 1_000_000
        for entry in entries:
            mark = marks.get(entry.asset)
            by = self._by(scenario, entry, mark, now)
            works = mark is not None and mark.works(now)
            entry.tell(labels.get(entry.asset, {}), state.chips, by, works)

    def _by(self, scenario: str, entry: Entry, mark: Mark | None, now: int) -> str | None:
        if mark is None or mark.ack is None or entry.row is None:
            return None
        calm = calm_of(self._scenarios[scenario])
        return mark.ack.by if in_force(mark.ack, entry.row["severity"], calm, now) else None

    def look(self, at: float) -> None:
        """Invalidate boards where labels have changed. at: of a clock that only rises, s."""
        if at < self._next:
            return
        self._next = at + LOOK_S
        before, self._states = self._states, states()
        for name, state in self._states.items():
            if before is not None and name in self._scenarios and state != before.get(name):
                self.tell(name, list(self._view.overlay(name).values()))
                self._view.invalidate(name)
