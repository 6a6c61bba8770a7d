"""The board app."""

from django.apps import AppConfig


class BoardConfig(AppConfig):
    """The live board: states and their history."""

    name = "dashboard.board"
    label = "board"
    default_auto_field = "django.db.models.BigAutoField"
