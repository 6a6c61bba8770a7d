"""The app of retention."""

from django.apps import AppConfig


class RetentionConfig(AppConfig):
    """The app of retention."""

    name = "dashboard.retention"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Tell those below how long a scenario keeps its changes."""
        from dashboard.retention.application import own_period_of
        from dashboard.states.retention import own_period

        own_period.register(own_period_of)
