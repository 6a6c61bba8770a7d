"""The filters app."""

from django.apps import AppConfig


class FiltersConfig(AppConfig):
    """The filters app."""

    name = "dashboard.watch.filters"

    def ready(self) -> None:
        """Register what lower packages need: the filter query for maintenance windows, and the
        board that a user begins with for the login."""
        from dashboard.core.common.navigation import first_board
        from dashboard.watch.filters.models import FirstBoard
        from dashboard.watch.filters.query import rows
        from dashboard.watch.incidents.models import filter_rows

        filter_rows.register(rows)
        first_board.register(FirstBoard.objects.address_of)
