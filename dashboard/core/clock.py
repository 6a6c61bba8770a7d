"""The time, as the web side reads it."""

from __future__ import annotations

from collections.abc import Callable

from django.utils import timezone

Clock = Callable[[], int]
"""Returns the time, Unix ms."""


def now_ms() -> int:
    """Return the time, Unix ms."""
    return int(timezone.now().timestamp() * 1000)
