"""The api app."""

from django.apps import AppConfig
from prometheus_client import disable_created_metrics


class ApiConfig(AppConfig):
    """The app of REST and health checks."""

    name = "dashboard.serve.api"

    def ready(self) -> None:
        """Leave out of the metrics when each began: that would be as many names again."""
        disable_created_metrics()
