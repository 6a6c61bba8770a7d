"""The Django app of labels."""

from django.apps import AppConfig


class LabelsConfig(AppConfig):
    """The app of labels; see the package."""

    name = "dashboard.labels"
    label = "labels"
    default_auto_field = "django.db.models.BigAutoField"
