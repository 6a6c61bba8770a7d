"""The scenarios' app."""

from django.apps import AppConfig


class RulesConfig(AppConfig):
    """The app of which rule holds where, and of who changed it."""

    name = "dashboard.rules"
    label = "rulebook"
    default_auto_field = "django.db.models.BigAutoField"
