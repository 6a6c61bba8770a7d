"""The lists that make up the figures of a summary, by address."""

from __future__ import annotations

from django.urls import reverse
from django.utils.http import urlencode

from dashboard.core.times import field_text
from dashboard.incidents.queries import BEGAN, ENDED
from dashboard.summaries.alarms import FALSE
from dashboard.summaries.figures import Question, Summary
from dashboard.summaries.forms import scenario_parts
from domain.history.periods import Span

Parts = list[tuple[str, str]]


class Links:
    """Addresses of what a summary's figures are made of. A period that goes on is open to the end,
    so that the list is as new as whoever opens it."""

    def __init__(self, found: Summary, whole: Span) -> None:
        self.question: Question = found.question
        self._time: Parts = [("start", field_text(whole.begin)), ("end", field_text(whole.end))]

    def incidents(self, *, scenario: str = "") -> str:
        """Return the list of the incidents that were going on in the period."""
        return self._incidents(scenario)

    def acknowledged(self, *, scenario: str = "") -> str:
        """Return the list of the incidents whose delay to the acknowledgement counts."""
        return self._incidents(scenario, of_time=BEGAN, status="acknowledged")

    def cleared(self, *, scenario: str = "") -> str:
        """Return the list of the incidents whose delay to the all-clear counts."""
        return self._incidents(scenario, of_time=ENDED)

    def flapping(self, *, scenario: str = "") -> str:
        """Return the list of the incidents that flapped."""
        return self._incidents(scenario, of_time=BEGAN, flapping="on")

    def of_label(self, value: str) -> str:
        """Return the list of the groups of a label's value; without a value, or of several
        scenarios, of the incidents."""
        if not value or len(self.question.scenarios) != 1:
            return self._incidents("", label=f"{self.question.label}:{value}")
        own = [
            ("scenario", self.question.scenarios[0]),
            ("label", self.question.label),
            ("value", value),
        ]
        return f"{reverse('incidents:groups')}?{urlencode(own + self._time)}"

    def of_asset(self, scenario: str, asset: str) -> str:
        """Return the list of the incidents of one asset."""
        return self._incidents(scenario, asset=asset)

    def records(self, kind: str, *, scenario: str = "") -> str:
        """Return the list of the spans of history of a kind."""
        parts = [("kind", kind), *self._scenarios(scenario), *self._time]
        return f"{reverse('summaries:spans')}?{urlencode(parts)}"

    def false_alarms(self, *, scenario: str = "") -> str:
        """Return the list of the alarms that ended in the period and came to nothing."""
        parts = [("outcome", FALSE), *self._scenarios(scenario), *self._time]
        return f"{reverse('summaries:alarms')}?{urlencode(parts)}"

    def _incidents(self, scenario: str, **more: str) -> str:
        parts = [*self._scenarios(scenario), *self._time, *more.items()]
        return f"{reverse('incidents:incidents')}?{urlencode(parts)}"

    def _scenarios(self, scenario: str) -> Parts:
        return [("scenario", scenario)] if scenario else scenario_parts(self.question)
