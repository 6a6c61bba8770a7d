"""The app of scheduled tasks."""

from django.apps import AppConfig


class SchedulesConfig(AppConfig):
    """The app of scheduled tasks."""

    name = "dashboard.schedules"
    default_auto_field = "django.db.models.BigAutoField"
