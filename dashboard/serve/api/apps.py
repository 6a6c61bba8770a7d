"""The api app."""

from django.apps import AppConfig
from prometheus_client import disable_created_metrics


class ApiConfig(AppConfig):
    """The app of REST and health checks."""

    name = "dashboard.serve.api"

    def ready(self) -> None:
        """Leave creation times out of the metrics; they would double the number of names."""
        disable_created_metrics()
