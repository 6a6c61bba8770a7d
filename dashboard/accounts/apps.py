"""The accounts app."""

from django.apps import AppConfig


class AccountsConfig(AppConfig):
    """Users, their roles and their API tokens."""

    name = "dashboard.accounts"
    label = "accounts"
    default_auto_field = "django.db.models.BigAutoField"
