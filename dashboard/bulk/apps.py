"""The bulk app."""

from django.apps import AppConfig


class BulkConfig(AppConfig):
    """The app of bulk runs: choosing, reviewing, carrying out, stale assets."""

    name = "dashboard.bulk"
    label = "bulk"
    default_auto_field = "django.db.models.BigAutoField"
