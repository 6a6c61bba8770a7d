"""The retention app."""

from django.apps import AppConfig


class RetentionConfig(AppConfig):
    """The retention app."""

    name = "dashboard.operate.administration"

    def ready(self) -> None:
        """Register, for lower packages, how long a scenario keeps its changes."""
        from dashboard.core.states.models import own_period
        from dashboard.operate.administration.retention import own_period_of

        own_period.register(own_period_of)
