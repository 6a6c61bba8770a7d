"""Admission to boards: whether a session still holds, looked up once for all its sockets."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any, Literal, NamedTuple

import structlog
from django.contrib.auth import get_user
from django.db import DatabaseError

from dashboard.accounts.first_password import FLAG
from dashboard.accounts.session_store import SessionStore
from dashboard.core.roles import may
from dashboard.live.database_threads import per_loop, read_in_thread

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
    _note_use(session)
    if asking.session.get(FLAG):  # nothing is shown before the password is changed
        return "no role"
    return "reader" if may(user, "read") else "no role"


def _note_use(session: SessionStore) -> None:
    """Record the use of a session: an open board is use.

    What cannot be recorded now is tried again at the next look.
    """
    try:
        session.note_use_now_and_then()
    except DatabaseError as error:
        log.warning("a session's use could not be noted", error=str(error))


admissions = per_loop(Admissions)
