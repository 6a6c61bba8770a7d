"""The filters app."""

from django.apps import AppConfig


class FiltersConfig(AppConfig):
    """The filters app."""

    name = "dashboard.watch.filters"

    def ready(self) -> None:
        """Register the filter query for maintenance windows, which are in a lower package."""
        from dashboard.watch.filters.query import rows
        from dashboard.watch.incidents.models import filter_rows

        filter_rows.register(rows)
