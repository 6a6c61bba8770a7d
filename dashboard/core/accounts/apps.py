"""The accounts app, and the login library's where it needs to behave differently here."""

from allauth.usersessions.apps import UserSessionsConfig
from django.apps import AppConfig


class AccountsConfig(AppConfig):
    """Users, their roles and their API tokens."""

    name = "dashboard.core.accounts"
    default = True

    def ready(self) -> None:
        """Listen for logins, and for passwords that are changed."""
        from allauth.account.signals import password_changed
        from django.contrib.auth import user_logged_in

        from dashboard.core.accounts.login import changed
        from dashboard.core.accounts.sessions import begin_anew

        password_changed.connect(changed, dispatch_uid="first password")
        user_logged_in.connect(begin_anew, dispatch_uid="length of a session")


class NotedSessionsConfig(UserSessionsConfig):
    """The app of the login library's table of sessions, which this product fills itself.

    The library would store the key of a session as it is in the cookie.
    """

    def ready(self) -> None:
        """Leave out the library's own listeners."""
