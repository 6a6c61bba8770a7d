"""The checkpoints app."""

from django.apps import AppConfig


class CheckpointsConfig(AppConfig):
    """The app of the database's progress in the logs; `materialiser` names its tables."""

    name = "dashboard.checkpoints"
    label = "materialiser"
    default_auto_field = "django.db.models.BigAutoField"
