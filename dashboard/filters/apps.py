"""The filters' app."""

from django.apps import AppConfig


class FiltersConfig(AppConfig):
    """The app of filters."""

    name = "dashboard.filters"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Offer a filter's query to maintenance windows, which are below."""
        from dashboard.filters.query import rows
        from dashboard.maintenance.selection import filter_rows

        filter_rows.register(rows)
