"""This process's copies of the views."""

from __future__ import annotations

from functools import lru_cache

from bus.base import Bus
from dashboard.core.times import now_ms
from dashboard.topic_views.declaration import declared_views
from dashboard.topic_views.table import State, ViewTable
from dashboard.topic_views.tailer import ViewTailer

STALE_MS = 10_000
"""A copy that has not compared itself with the topic for so long may be out of date."""


@lru_cache(maxsize=1)
def copies() -> dict[str, ViewTable]:
    """Return the copy of each declared view, by its name. Raises ViewError."""
    return {name: ViewTable(view) for name, view in declared_views().items()}


def tailer(bus: Bus) -> ViewTailer:
    """Return what keeps the copies of this process. Raises ViewError."""
    return ViewTailer(bus, copies().values(), now_ms)


def missing_views() -> list[str]:
    """Return the views that have not caught up with their topics yet, in words."""
    states = {name: table.state() for name, table in copies().items()}
    return [
        f"view {name}: {state.read} of {state.wanted} records read"
        for name, state in states.items()
        if state.status == "catching-up"
    ]


def why_not(table: ViewTable, state: State) -> str:
    """Return why a copy that is not ready gives no answer, and what to do, in words."""
    view = table.view
    reasons = {
        "not-followed": "This process keeps no views: only `manage.py serve` does.",
        "catching-up": f"{state.read:,} of {state.wanted:,} records of {view.topic} are read.",
        "topic-absent": f"There is no topic {view.topic}. It is looked for every second.",
        "too-large": (
            f"{view.topic} has more than {view.max_records:,} keys or {view.max_bytes:,} bytes: "
            f"raise max_records or max_bytes of [{view.name}], and restart."
        ),
    }
    return reasons[state.status]


def is_stale(state: State) -> bool:
    """Return whether a copy has long not been compared with its topic, as without a broker."""
    return state.as_of is None or now_ms() - state.as_of > STALE_MS
