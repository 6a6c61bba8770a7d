"""The live app."""

from django.apps import AppConfig


class LiveConfig(AppConfig):
    """Changes on their way to the browsers."""

    name = "dashboard.live"
    label = "live"
    default_auto_field = "django.db.models.BigAutoField"
