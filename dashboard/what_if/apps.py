"""What-if's app."""

from django.apps import AppConfig


class WhatIfConfig(AppConfig):
    """Rules tried on the log."""

    name = "dashboard.what_if"
    label = "whatif"
    default_auto_field = "django.db.models.BigAutoField"
