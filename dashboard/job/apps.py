"""The job app."""

from django.apps import AppConfig


class JobConfig(AppConfig):
    """What the job tells of itself."""

    name = "dashboard.job"
    label = "job"
    default_auto_field = "django.db.models.BigAutoField"
