"""Admission to boards: sessions that hold, room for connections, and how much each may send."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Hashable
from functools import partial
from types import SimpleNamespace
from typing import Any, Literal, NamedTuple

import structlog
from django.contrib.auth import get_user
from django.db import DatabaseError

from dashboard.board.live.threads import per_loop, read_in_thread
from dashboard.core.accounts.login import FLAG
from dashboard.core.accounts.sessions import SessionStore
from dashboard.core.common.access import may

# ---- session checks ------------------------------------------------------------------------------
# Admission to boards: whether a session still holds, looked up once for all its sockets.

Access = Literal["reader", "no role", "anonymous"]

log = structlog.get_logger(__name__)

# A finding may be as old as this for a socket that is open already.
FRESH_S = 2.5


class _Look(NamedTuple):
    begun: float
    finding: asyncio.Future[Access]

    def failed(self) -> bool:
        """Return whether there is no finding to come."""
        return self.finding.done() and self.finding.exception() is not None


class Admissions:
    """The admissions for the sockets of one event loop.

    `look` is called in a thread with a session's key.
    """

    def __init__(
        self,
        look: Callable[[str], Access] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._look, self._clock = look or access_of, clock
        self._known: dict[str, _Look] = {}

    async def of(self, session_key: str | None, *, anew: bool) -> Access:
        """Return what the session gives access to. Raises DatabaseError.

        anew: not as it was a moment ago.
        """
        if not session_key:
            return "anonymous"
        known = self._known.get(session_key)
        if anew or known is None or known.failed() or self._clock() - known.begun > FRESH_S:
            known = self._begin(session_key)
        return await asyncio.shield(known.finding)

    def _begin(self, session_key: str) -> _Look:
        now = self._clock()
        for key in [key for key, look in self._known.items() if now - look.begun > FRESH_S]:
            del self._known[key]
        finding = asyncio.ensure_future(read_in_thread(partial(self._look, session_key)))
        self._known[session_key] = _Look(now, finding)
        return self._known[session_key]


def access_of(session_key: str) -> Access:
    """Return what the session gives access to now. Raises DatabaseError."""
    session = SessionStore(session_key)
    asking: Any = SimpleNamespace(session=session)
    user = get_user(asking)
    if not user.is_authenticated:
        return "anonymous"
    _record_use(session)
    if asking.session.get(FLAG):  # nothing is shown before the password is changed
        return "no role"
    return "reader" if may(user, "read") else "no role"


def _record_use(session: SessionStore) -> None:
    """Record the use of a session: an open board is use.

    What cannot be recorded now is tried again at the next look.
    """
    try:
        session.record_use_at_intervals()
    except DatabaseError as error:
        log.warning("a session's use could not be noted", error=str(error))


admissions = per_loop(Admissions)


# ---- connection slots ----------------------------------------------------------------------------
# Room for open boards: in a web process, of a session, of a user.


class NoRoom(Exception):
    """There is no room; the message says of what there is too much."""


class ConnectionLimit(NamedTuple):
    """A limit: how many at most, and the message beyond."""

    most: int
    words: str


class ConnectionCounts:
    """The counts of open boards by whose they are."""

    def __init__(self, all_: int, session: int, user: int) -> None:
        self._kinds = (
            ConnectionLimit(all_, "this server has no room for more open boards"),
            ConnectionLimit(session, f"{session} boards are open in this login: close some"),
            ConnectionLimit(user, f"{user} boards are open under this user's name: close some"),
        )
        self._taken: Counter[tuple[int, Hashable]] = Counter()

    def take(self, session: str, user: Hashable) -> list[tuple[int, Hashable]]:
        """Reserve a place and return it, for `give_back`. Raises NoRoom."""
        place = list(enumerate(("", session, user)))
        for number, whose in place:
            kind = self._kinds[number]
            if self._taken[number, whose] >= kind.most:
                raise NoRoom(kind.words)
        self._taken.update(place)
        return place

    def give_back(self, place: list[tuple[int, Hashable]]) -> None:
        """Free the place."""
        self._taken.subtract(place)
        for key in place:
            if not self._taken[key]:
                del self._taken[key]


# ---- message rates -------------------------------------------------------------------------------
# How many messages the boards of one user may send.


class TooFast(Exception):
    """A message came too fast; the error says of what there is too much."""


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
        """Consume a token of a user. Raises TooFast if none is left."""
        now = self._clock()
        used, at = self._used.get(user, (0.0, now))
        used = max(0.0, used - (now - at) * self._per_s) + 1
        if used > self._burst:
            most = f"{self._per_s:g} messages a second"
            raise TooFast(f"the boards of this user send more than {most}: wait a little")
        self._used[user] = (used, now)
