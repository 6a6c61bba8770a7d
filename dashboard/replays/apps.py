"""The replay app."""

from django.apps import AppConfig


class ReplaysConfig(AppConfig):
    """Replay: chosen, reviewed, requested, followed, reconciled."""

    name = "dashboard.replays"
    label = "replay"
    default_auto_field = "django.db.models.BigAutoField"
