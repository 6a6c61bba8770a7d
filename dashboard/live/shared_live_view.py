"""The one LiveView of a web process."""

from __future__ import annotations

from functools import lru_cache

from dashboard.live.live_view import LiveView


@lru_cache(maxsize=1)
def live_view() -> LiveView:
    """Return what this process knows beyond the database; empty where no tailer runs."""
    return LiveView()
