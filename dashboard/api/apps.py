"""The api app."""

from django.apps import AppConfig


class ApiConfig(AppConfig):
    """REST and health checks."""

    name = "dashboard.api"
    label = "api"
    default_auto_field = "django.db.models.BigAutoField"
