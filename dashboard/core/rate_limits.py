"""How much one user may send in a while."""

from __future__ import annotations

from dataclasses import dataclass

from django.core.cache import caches

from dashboard.core.metrics import LIMITED


class TooMany(Exception):
    """A user sent too much; `retry_after`: seconds until the next window."""

    def __init__(self, what: str, limit: int, window: int, retry_after: int) -> None:
        super().__init__(
            f"At most {limit} {what} in {window} seconds; try again in {retry_after} s."
        )
        self.retry_after = retry_after


@dataclass(frozen=True, slots=True)
class Limit:
    """At most `count` of `what` per user in each window of `window` seconds.

    Counted in a cache that nothing else fills, so that no other's entries push a count out: per
    process, unless the processes share one through Redis.
    """

    what: str
    count: int
    window: int = 60

    def take(self, user_id: int, now_ms: int, amount: int = 1) -> None:
        """Count `amount`; raises TooMany, and counts the refusal, when that is over the limit."""
        window, passed = divmod(now_ms // 1000, self.window)
        cache = caches["limits"]
        key = f"limit:{self.what}:{user_id}:{window}"
        cache.add(key, 0, timeout=2 * self.window)
        if cache.incr(key, amount) > self.count:
            cache.decr(key, amount)
            LIMITED.labels(self.what).inc()
            raise TooMany(self.what, self.count, self.window, self.window - passed)


COMMANDS = Limit("commands", 600)
REPORTS = Limit("reports", 600_000)
