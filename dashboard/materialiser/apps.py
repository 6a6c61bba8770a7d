"""The materialiser app."""

from django.apps import AppConfig


class MaterialiserConfig(AppConfig):
    """Sink topics into the database."""

    name = "dashboard.materialiser"
    label = "materialiser"
    default_auto_field = "django.db.models.BigAutoField"
