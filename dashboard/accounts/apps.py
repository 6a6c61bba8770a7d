"""The accounts app."""

from django.apps import AppConfig


class AccountsConfig(AppConfig):
    """Users, their roles and their API tokens."""

    name = "dashboard.accounts"
    label = "accounts"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Listen for passwords that are changed."""
        from allauth.account.signals import password_changed

        from dashboard.accounts.first_password import changed

        password_changed.connect(changed, dispatch_uid="first password")
