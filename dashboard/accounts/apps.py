"""The accounts app."""

from django.apps import AppConfig


class AccountsConfig(AppConfig):
    """Users, their roles and their API tokens."""

    name = "dashboard.accounts"
    label = "accounts"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Listen for logins, and for passwords that are changed."""
        from allauth.account.signals import password_changed
        from django.contrib.auth import user_logged_in

        from dashboard.accounts.first_password import changed
        from dashboard.accounts.session_store import begin_anew

        password_changed.connect(changed, dispatch_uid="first password")
        user_logged_in.connect(begin_anew, dispatch_uid="length of a session")
