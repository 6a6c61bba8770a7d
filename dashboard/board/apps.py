"""The board app."""

from django.apps import AppConfig


class BoardConfig(AppConfig):
    """Pages of the boards and of one asset."""

    name = "dashboard.board"
    label = "board_pages"
