"""Times by their text, and a clock that stands still."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from dashboard.core.common import times


def at(text: str) -> int:
    """Return a time in UTC, Unix ms. text: such as `2026-03-02`, or `2026-03-02T10:17`."""
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def stop_clock(monkeypatch: pytest.MonkeyPatch, now: int) -> None:
    """Have it be this time (Unix ms) for the web side, until the test ends."""
    stopped = SimpleNamespace(now=lambda: times.utc_datetime(now))
    monkeypatch.setattr(times, "timezone", stopped)
