"""The login library's apps, where they need to behave differently here."""

from __future__ import annotations

from allauth.usersessions.apps import UserSessionsConfig


class NotedSessionsConfig(UserSessionsConfig):
    """The app of the login library's table of sessions, which this product fills itself.

    The library would store the key of a session as it is in the cookie.
    """

    def ready(self) -> None:
        """Leave out the library's own listeners."""
