"""Turns: when the sockets of a page are sent what waits for them, together."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Hashable

from dashboard.live.database_threads import per_loop

# So many times in a pause it is the turn of some pages.
SPREAD = 64


class Turns:
    """The turns of the pages that the sockets of a loop show: one timer for all of a page."""

    def __init__(self) -> None:
        self._coming: dict[Hashable, asyncio.Event] = {}

    async def wait(self, page: Hashable, pause: float) -> None:
        """Wait for the next turn of a page. Turns are a pause apart, s."""
        coming = self._coming.get(page)
        if coming is None:
            coming = self._coming[page] = asyncio.Event()
            wait = until_turn_s(pause, hash(page), time.monotonic())
            asyncio.get_running_loop().call_later(wait, self._come, page)
        await coming.wait()

    def _come(self, page: Hashable) -> None:
        self._coming.pop(page).set()


turns = per_loop(Turns)


def until_turn_s(pause: float, page: int, now: float) -> float:
    """Return how long it is to the next turn of a page, s.

    page: a number of its own, which spreads pages over the pause. now: of a clock that only rises.
    """
    turn = page % SPREAD / SPREAD * pause
    return pause - (now - turn) % pause
