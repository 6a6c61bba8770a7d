"""The console app."""

from django.apps import AppConfig


class ConsoleConfig(AppConfig):
    """Pages of the job: its queries, its partitions."""

    name = "dashboard.console"
    label = "console"
