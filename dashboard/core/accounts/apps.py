"""The accounts app, and the login library's app where it must behave differently here."""

from allauth.usersessions.apps import UserSessionsConfig
from django.apps import AppConfig


class AccountsConfig(AppConfig):
    """Users, their roles and their API tokens."""

    name = "dashboard.core.accounts"
    default = True

    def ready(self) -> None:
        """Connect to the signals of logins and password changes."""
        from allauth.account.signals import password_changed
        from django.contrib.auth import user_logged_in

        from dashboard.core.accounts.login import changed
        from dashboard.core.accounts.sessions import begin_anew

        password_changed.connect(changed, dispatch_uid="first password")
        user_logged_in.connect(begin_anew, dispatch_uid="length of a session")


class NotedSessionsConfig(UserSessionsConfig):
    """The app for allauth's table of sessions, which this product fills itself.

    Allauth would store session keys as they are in cookies.
    """

    def ready(self) -> None:
        """Do not connect allauth's own receivers."""
