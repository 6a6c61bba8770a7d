"""How many messages the boards of one user may send."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable


class TooFast(Exception):
    """The refusal of a message; it says of what there is too much."""


class Rates:
    """A token bucket for each user, whatever the number of the user's boards in this process.

    per_s: tokens that come in a second, each for one message; burst: the most that a bucket holds.
    """

    def __init__(
        self, per_s: float, burst: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._per_s, self._burst, self._clock = per_s, burst, clock
        self._used: dict[Hashable, tuple[float, float]] = {}
        """Of each user the tokens that are missing, and as of when."""

    def take(self, user: Hashable) -> None:
        """Take a token of a user. Raises TooFast where there is none."""
        now = self._clock()
        used, at = self._used.get(user, (0.0, now))
        used = max(0.0, used - (now - at) * self._per_s) + 1
        if used > self._burst:
            most = f"{self._per_s:g} messages a second"
            raise TooFast(f"the boards of this user send more than {most}: wait a little")
        self._used[user] = (used, now)
