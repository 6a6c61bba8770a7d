"""What the pages of errands share, as an app: its tags."""

from django.apps import AppConfig


class ErrandsConfig(AppConfig):
    """Errands, followed and cancelled."""

    name = "dashboard.batch_queries"
    label = "errands"
