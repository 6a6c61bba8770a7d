"""The dead letters' app."""

from django.apps import AppConfig


class DeadLettersConfig(AppConfig):
    """What the job refused, and what became of it."""

    name = "dashboard.deadletters"
    label = "deadletters"
    default_auto_field = "django.db.models.BigAutoField"
