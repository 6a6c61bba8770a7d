"""The job app."""

from django.apps import AppConfig


class JobConfig(AppConfig):
    """The app of the job's reports of itself."""

    name = "dashboard.job"
    label = "job"
    default_auto_field = "django.db.models.BigAutoField"
