"""The scenarios' app."""

from django.apps import AppConfig


class RulebookConfig(AppConfig):
    """Which rule holds where, and who changed it."""

    name = "dashboard.rules"
    label = "rulebook"
    default_auto_field = "django.db.models.BigAutoField"
