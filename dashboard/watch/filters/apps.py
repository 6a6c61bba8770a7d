"""The filters' app."""

from django.apps import AppConfig


class FiltersConfig(AppConfig):
    """The app of filters."""

    name = "dashboard.watch.filters"

    def ready(self) -> None:
        """Offer a filter's query to maintenance windows, which are below."""
        from dashboard.watch.filters.query import rows
        from dashboard.watch.incidents.models import filter_rows

        filter_rows.register(rows)
