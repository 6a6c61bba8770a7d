"""The commands app."""

from django.apps import AppConfig


class CommandsConfig(AppConfig):
    """The app of commands: forms, sending, following."""

    name = "dashboard.commands"
    label = "commands"
    default_auto_field = "django.db.models.BigAutoField"
