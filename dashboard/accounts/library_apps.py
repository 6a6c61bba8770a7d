"""The login library's apps, where they are to behave otherwise here."""

from __future__ import annotations

from allauth.usersessions.apps import UserSessionsConfig


class NotedSessionsConfig(UserSessionsConfig):
    """The login library's table of sessions, which this product fills itself.

    The library would note the key of a session as it is in the cookie.
    """

    def ready(self) -> None:
        """Leave the library's own listeners out."""
