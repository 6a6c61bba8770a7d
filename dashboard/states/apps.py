"""The states app."""

from django.apps import AppConfig


class StatesConfig(AppConfig):
    """States and how they came about; `board` names its tables."""

    name = "dashboard.states"
    label = "board"
    default_auto_field = "django.db.models.BigAutoField"
