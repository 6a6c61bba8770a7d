"""A stop event for a loop under test, whose pauses take no time."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event


class CountedStop(Event):
    """A stop event that is set after so many waits, none of which takes time.

    asked: how long each wait was to be, s; due: what to do at a wait, by its number from 1.
    """

    def __init__(self, waits: int, due: dict[int, Callable[[], object]] | None = None) -> None:
        super().__init__()
        self._waits, self._due = waits, due or {}
        self.asked: list[float | None] = []

    def wait(self, timeout: float | None = None) -> bool:
        """Record the wait, and do what is due. Return whether it was the last."""
        self.asked.append(timeout)
        self._due.get(len(self.asked), lambda: None)()
        if len(self.asked) >= self._waits:
            self.set()
        return self.is_set()
