"""Addresses of boards with a filter."""

from __future__ import annotations

from collections.abc import Iterable

from django.http import QueryDict
from django.urls import reverse


def board_url(scenario: str, text: str, states: Iterable[str] = ()) -> str:
    """Return the address of a board with a filter's text, and its buttons."""
    query = QueryDict(mutable=True)
    query["scenario"], query["q"] = scenario, text
    query.setlist("state", list(states))
    return f"{reverse('board:board')}?{query.urlencode()}"
