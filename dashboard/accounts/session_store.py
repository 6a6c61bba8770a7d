"""Sessions in the database: filed under a hash of their key, sealed, ended by age and by rest.

Whoever has a copy of the database has no session: the key itself is in the browser's cookie alone.
A session ends so long after its login, whatever is done, and so long after its last use.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from hashlib import blake2s
from typing import Any

from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib.sessions.backends import db
from django.contrib.sessions.base_session import AbstractBaseSession
from django.http import HttpRequest
from django.utils import timezone

from dashboard.accounts.encryption import NoKey, seal, unseal

# In a session: when its user logged in, Unix seconds.
BEGUN = "begun"


def filed_under(key: str | None) -> str:
    """Return the name under which the database keeps the session with this key: 40 characters."""
    return blake2s((key or "").encode(errors="surrogatepass"), digest_size=20).hexdigest()


class SessionStore(db.SessionStore):
    """One session, by the key in its cookie."""

    key_salt = "tallyboard.sessions"
    ends_at: datetime | None = None
    """When it ends if it is not used again, once it was read."""

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
        """Return the same, asynchronously."""
        return await super().aexists(self._filed_under(session_key))

    def create_model_instance(self, data: dict[str, Any]) -> AbstractBaseSession:
        """Return the row to be written."""
        data.setdefault(BEGUN, time.time())
        row = super().create_model_instance(data)
        row.session_key = self._filed_under(self.session_key)
        return row

    async def acreate_model_instance(self, data: dict[str, Any]) -> AbstractBaseSession:
        """Return the same, asynchronously."""
        return await sync_to_async(self.create_model_instance)(data)

    def delete(self, session_key: str | None = None) -> None:
        """End the session with this key; by default this one."""
        if key := session_key or self.session_key:
            super().delete(self._filed_under(key))

    async def adelete(self, session_key: str | None = None) -> None:
        """Do the same, asynchronously."""
        await sync_to_async(self.delete)(session_key)

    # ---- its content ----

    def encode(self, session_dict: dict[str, Any]) -> str:
        """Return the content as the database keeps it: signed, and sealed.

        The login library puts secrets there, such as that of a second factor before its first code.
        """
        return seal(super().encode(session_dict))

    def decode(self, session_data: bytes | str) -> dict[str, Any]:
        """Return the content; an empty one unless this product sealed it with these keys."""
        try:
            return super().decode(unseal(str(session_data)))
        except NoKey:
            return {}

    # ---- how long it lasts ----

    def get_expiry_date(self, **_: Any) -> datetime:
        """Return when the session ends, if it is used now and never again."""
        begun = datetime.fromtimestamp(self.get(BEGUN, time.time()), UTC)
        length = timedelta(seconds=settings.TALLYBOARD.session_s)
        rest = timedelta(seconds=settings.TALLYBOARD.session_idle_s)
        return min(begun + length, timezone.now() + rest)

    async def aget_expiry_date(self, **_: Any) -> datetime:
        """Return the same, asynchronously."""
        return await sync_to_async(self.get_expiry_date)()

    def get_expiry_age(self, **_: Any) -> int:
        """Return the same, in seconds from now."""
        return max(0, int((self.get_expiry_date() - timezone.now()).total_seconds()))

    async def aget_expiry_age(self, **_: Any) -> int:
        """Return the same, asynchronously."""
        return await sync_to_async(self.get_expiry_age)()

    def note_use(self) -> None:
        """Put off the session's end, as it is used now.

        A session that has ended does not come back.
        """
        lasting = self.model.objects.filter(expire_date__gt=timezone.now())
        name = self._filed_under(self.session_key)
        lasting.filter(session_key=name).update(expire_date=self.get_expiry_date())

    def note_use_now_and_then(self) -> None:
        """Do the same, unless that was done within a quarter of the time that it may rest."""
        quarter = timedelta(seconds=settings.TALLYBOARD.session_idle_s / 4)
        if self.ends_at and self.get_expiry_date() - self.ends_at > quarter:
            self.note_use()


class FiledSession(SessionStore):
    """One session, by the name under which the database keeps it. Never made from a cookie."""

    def _filed_under(self, key: str | None) -> str:
        return key or ""


def begin_anew(request: HttpRequest, **_: Any) -> None:
    """Count the session's length from its login on."""
    request.session[BEGUN] = time.time()
