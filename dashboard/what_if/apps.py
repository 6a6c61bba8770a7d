"""What-if's app."""

from django.apps import AppConfig


class WhatIfConfig(AppConfig):
    """The app of rules tried on the log."""

    name = "dashboard.what_if"
    label = "whatif"
    default_auto_field = "django.db.models.BigAutoField"
