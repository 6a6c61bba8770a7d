"""Sessions: encrypted in the database, listed for their user, and ended."""

from __future__ import annotations

import time
from collections import OrderedDict
from datetime import UTC, datetime, timedelta
from hashlib import blake2s
from threading import Lock
from types import SimpleNamespace
from typing import Any, NamedTuple

import structlog
from allauth.account.adapter import get_adapter
from allauth.core.internal.httpkit import HTTP_USER_AGENT_MAX_LENGTH
from allauth.usersessions.models import UserSession
from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib.auth import get_user
from django.contrib.auth.models import User
from django.contrib.sessions.backends import db
from django.contrib.sessions.backends.base import SessionBase
from django.contrib.sessions.base_session import AbstractBaseSession
from django.contrib.sessions.models import Session
from django.core.exceptions import PermissionDenied
from django.db import DatabaseError
from django.db.models import QuerySet
from django.http import HttpRequest, QueryDict
from django.utils import timezone

from dashboard.core.accounts.encryption import NoKey, seal, unseal
from dashboard.core.common.tables import Column, Table

# ---- session store -------------------------------------------------------------------------------
# Sessions in the database: stored under a hash of their key, encrypted, with a limited lifetime.
#
# A copy of the database gives no access to a session: the key itself is only in the browser's
# cookie. A session ends a fixed time after its login, and a fixed time after its last use.

# The session item with the time of the login, Unix seconds.
BEGUN = "begun"


def filed_under(key: str | None) -> str:
    """Return the name under which the database stores the session with this key: 40 characters."""
    return blake2s((key or "").encode(errors="surrogatepass"), digest_size=20).hexdigest()


class SessionStore(db.SessionStore):
    """A session, identified by the key in its cookie."""

    key_salt = "tallyboard.sessions"
    ends_at: datetime | None = None
    """When the session ends unless it is used again; set once it has been read."""

    def _filed_under(self, key: str | None) -> str:
        return filed_under(key)

    def _get_session_from_db(self) -> AbstractBaseSession | None:
        name = self._filed_under(self.session_key)
        row = self.model.objects.filter(session_key=name, expire_date__gt=timezone.now()).first()
        if row is None:
            self._session_key = None
        else:
            self.ends_at = row.expire_date
        return row

    async def _aget_session_from_db(self) -> AbstractBaseSession | None:
        return await sync_to_async(self._get_session_from_db)()

    def exists(self, session_key: str) -> bool:
        """Return whether there is a session with this key."""
        return super().exists(self._filed_under(session_key))

    async def aexists(self, session_key: str) -> bool:
        """Return whether there is a session with this key."""
        return await super().aexists(self._filed_under(session_key))

    def create_model_instance(self, data: dict[str, Any]) -> AbstractBaseSession:
        """Return the row to write."""
        data.setdefault(BEGUN, time.time())
        row = super().create_model_instance(data)
        row.session_key = self._filed_under(self.session_key)
        return row

    async def acreate_model_instance(self, data: dict[str, Any]) -> AbstractBaseSession:
        """Return the row to write."""
        return await sync_to_async(self.create_model_instance)(data)

    def delete(self, session_key: str | None = None) -> None:
        """End the session with this key, by default this one."""
        if key := session_key or self.session_key:
            super().delete(self._filed_under(key))

    async def adelete(self, session_key: str | None = None) -> None:
        """End the session with this key, by default this one."""
        await sync_to_async(self.delete)(session_key)

    # ---- its content ----

    def encode(self, session_dict: dict[str, Any]) -> str:
        """Return the content as the database stores it, signed and encrypted.

        The login library puts secrets there, such as that of a second factor being set up.
        """
        return seal(super().encode(session_dict))

    def decode(self, session_data: bytes | str) -> dict[str, Any]:
        """Return the content; empty unless this product encrypted it with one of these keys."""
        try:
            return super().decode(unseal(str(session_data)))
        except NoKey:
            return {}

    # ---- how long it lasts ----

    def get_expiry_date(self, **_: Any) -> datetime:
        """Return when the session ends if it is used now and never again."""
        begun = datetime.fromtimestamp(self.get(BEGUN, time.time()), UTC)
        length = timedelta(seconds=settings.TALLYBOARD.session_s)
        rest = timedelta(seconds=settings.TALLYBOARD.session_idle_s)
        return min(begun + length, timezone.now() + rest)

    async def aget_expiry_date(self, **_: Any) -> datetime:
        """Return when the session ends if it is used now and never again."""
        return await sync_to_async(self.get_expiry_date)()

    def get_expiry_age(self, **_: Any) -> int:
        """Return the time until the session ends, in seconds."""
        return max(0, int((self.get_expiry_date() - timezone.now()).total_seconds()))

    async def aget_expiry_age(self, **_: Any) -> int:
        """Return the time until the session ends, in seconds."""
        return await sync_to_async(self.get_expiry_age)()

    def record_use(self) -> None:
        """Extend the session, as it is being used now.

        A session that has ended stays ended.
        """
        lasting = self.model.objects.filter(expire_date__gt=timezone.now())
        name = self._filed_under(self.session_key)
        lasting.filter(session_key=name).update(expire_date=self.get_expiry_date())

    def record_use_at_intervals(self) -> None:
        """Extend the session, unless that was done within a quarter of the allowed idle time."""
        quarter = timedelta(seconds=settings.TALLYBOARD.session_idle_s / 4)
        if self.ends_at and self.get_expiry_date() - self.ends_at > quarter:
            self.record_use()


class FiledSession(SessionStore):
    """A session, identified by its name in the database. Never created from a cookie."""

    def _filed_under(self, key: str | None) -> str:
        return key or ""


def begin_anew(request: HttpRequest, **_: Any) -> None:
    """Count the session's lifetime from its login."""
    request.session[BEGUN] = time.time()


# ---- sessions ------------------------------------------------------------------------------------
# Sessions: listing where a user is logged in and since when, and ending them.

log = structlog.get_logger(__name__)

SEEN_EVERY_S = 60.0
"""Granularity of a session's last use, so that a page that refreshes itself writes little."""
REMEMBERED = 10_000
"""Most sessions for which a process remembers when it recorded their use."""
SESSIONS = Table("", "Device", "Address", "Since", "Last seen", Column.unseen("End"))

BROWSERS = (("Edg", "Edge"), ("OPR/", "Opera"), ("Firefox/", "Firefox"), ("CriOS", "Chrome"),
            ("FxiOS", "Firefox"), ("Chrome/", "Chrome"), ("Safari/", "Safari"))  # fmt: skip
SYSTEMS = (("Android", "Android"), ("iPhone", "iPhone"), ("iPad", "iPad"), ("Windows", "Windows"),
           ("Mac OS X", "macOS"), ("CrOS", "ChromeOS"), ("Linux", "Linux"))  # fmt: skip
"""Substrings of User-Agent that identify a browser or a system, and its name. The first match
counts."""


class LoginSession(NamedTuple):
    """A session of a user, as the user's list shows it."""

    pk: int
    device: str
    user_agent: str
    address: str
    since: datetime
    seen: datetime
    current: bool


def places(user: User, current: str | None = None) -> list[LoginSession]:
    """Return the user's sessions, the most recently used first.

    current: the key of the session that sends the request.
    """
    noted = UserSession.objects.filter(user=user).order_by("-last_seen_at", "-pk")
    lasting = {row.pk for row in noted if _lasts(row)}
    noted.exclude(pk__in=lasting).delete()
    return [_place(row, current) for row in noted if row.pk in lasting]


def _lasts(row: UserSession) -> bool:
    """Return whether the user is still logged in there, including by the current password."""
    asking: Any = SimpleNamespace(session=FiledSession(row.session_key))
    return bool(get_user(asking).is_authenticated)


def _place(row: UserSession, current: str | None) -> LoginSession:
    return LoginSession(
        row.pk,
        device(row.user_agent),
        row.user_agent,
        row.ip,
        row.created_at,
        row.last_seen_at,
        row.session_key == filed_under(current),
    )


def device(user_agent: str) -> str:
    """Return the browser and system of a User-Agent, as far as it names them."""
    browser = next((name for mark, name in BROWSERS if mark in user_agent), "")
    system = next((name for mark, name in SYSTEMS if mark in user_agent), "")
    return f"{browser} on {system}" if browser and system else browser or system or "unknown"


def open_sessions() -> QuerySet[UserSession]:
    """Return the sessions of all users that have not expired."""
    lasting = Session.objects.filter(expire_date__gt=timezone.now()).values("session_key")
    rows: QuerySet[UserSession] = UserSession.objects.filter(session_key__in=lasting)
    return rows


def end(user: User, number: int, but: str | None = None) -> bool:
    """End one of the user's sessions and return True.

    Return False if there is none with this number, or if its key is `but`.
    """
    noted = UserSession.objects.filter(user=user, pk=number)
    row = noted.exclude(session_key=filed_under(but)).first()
    if row is None:
        return False
    FiledSession().delete(row.session_key)
    row.delete()
    return True


def end_all(user: User, but: str | None = None) -> int:
    """End the user's sessions except the one with the key `but`, and return how many ended.

    This includes sessions that began before sessions were recorded: all sessions are searched.
    """
    user_id, spared, store = str(user.pk), filed_under(but), SessionStore()
    ended = 0
    for session in Session.objects.filter(expire_date__gt=timezone.now()).iterator(500):
        if session.session_key == spared:
            continue
        if store.decode(session.session_data).get("_auth_user_id") == user_id:
            session.delete()
            ended += 1
    UserSession.objects.filter(user=user).exclude(session_key=spared).delete()
    return ended


def forget_ended(_now: int) -> int:
    """Delete the records of sessions that have ended, and return how many."""
    SessionStore.clear_expired()
    lasting = Session.objects.values("session_key")
    return int(UserSession.objects.exclude(session_key__in=lasting).delete()[0])


def end_chosen(user: User, form: QueryDict, but: str | None) -> int:
    """End the session that a form names, or with `all` all of them; return how many ended."""
    if "all" in form:
        return end_all(user, but)
    number = form.get("session") or ""
    known = number.isascii() and number.isdigit() and len(number) < 19
    return int(known and end(user, int(number), but))


# ---- when they were last used -------------------------------------------------------------


class SessionUses:
    """When this process last recorded the use of each session."""

    def __init__(self) -> None:
        self._every_s = min(SEEN_EVERY_S, settings.TALLYBOARD.session_idle_s / 4)
        self._at: OrderedDict[str, float] = OrderedDict()
        self._lock = Lock()

    def due(self, key: str) -> bool:
        """Return whether to record the session's use now.

        If so, it is not due again for a while.
        """
        now = time.monotonic()
        with self._lock:
            if now - self._at.get(key, -self._every_s) < self._every_s:
                return False
            self._at[key] = now
            self._at.move_to_end(key)
            if len(self._at) > REMEMBERED:
                self._at.popitem(last=False)
            return True


def record_use(request: HttpRequest) -> None:
    """Record that the session of a request is being used. A failure is logged, not raised."""
    try:
        _record_session(request)
        keep_open(request.session)
    except (DatabaseError, PermissionDenied) as error:
        log.warning("a session's use could not be noted", error=str(error))


def _record_session(request: HttpRequest) -> None:
    UserSession.objects.update_or_create(
        session_key=filed_under(request.session.session_key),
        defaults={
            "user": request.user,
            "ip": get_adapter().get_client_ip(request),
            "user_agent": request.headers.get("User-Agent", "")[:HTTP_USER_AGENT_MAX_LENGTH],
            "last_seen_at": timezone.now(),
        },
    )


def keep_open(session: SessionBase) -> None:
    """Extend a session that is being used now. Raises DatabaseError."""
    assert isinstance(session, SessionStore)
    session.record_use()
