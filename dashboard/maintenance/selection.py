"""Which assets a window's filter finds: by names and labels, never by what state they are in."""

from __future__ import annotations

from django.db.models import QuerySet

from dashboard.core.extension_point import Provider
from dashboard.filter_language.parser import FilterError, parse
from dashboard.filter_language.terms import WORD, Filter
from dashboard.maintenance.models import Window
from dashboard.states.models import AssetState
from domain.scenario import Scenario


def _nothing(wanted: Filter, scenario: Scenario, now: int) -> QuerySet[AssetState]:  # noqa: ARG001
    return AssetState.objects.none()


filter_rows = Provider(_nothing)
"""Returns the visible assets of a scenario that a filter finds at a time (Unix ms)."""


def read_filter(text: str, scenario: Scenario, now: int) -> Filter:
    """Return a window's filter. now: Unix ms. Raises FilterError."""
    wanted = parse(text, scenario, now)
    if not wanted.terms:
        raise FilterError("expected a name or a label, such as site:berlin", 0, 0)
    for term in wanted.terms:
        if term.own and term.key not in (WORD, "name"):
            at = text.lower().find(f"{term.key}:")
            message = f"a window covers assets by name and label; {term.key}: is neither"
            raise FilterError(message, max(at, 0), max(at, 0) + len(term.key))
    return wanted


def covered_by_filter(window: Window, scenario: Scenario, now: int) -> QuerySet[AssetState]:
    """Return the visible assets of a scenario that a window's filter finds at `now` (Unix ms)."""
    try:
        wanted = read_filter(window.filter, scenario, now)
    except FilterError:  # it was written for another file of scenarios
        return AssetState.objects.none()
    return filter_rows(wanted, scenario, now)
