"""The app of maintenance windows."""

from django.apps import AppConfig


class MaintenanceConfig(AppConfig):
    """The app of maintenance windows."""

    name = "dashboard.maintenance"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Say to a board's rows which assets are in a window."""
        from dashboard.annotations.row_marks import work_on
        from dashboard.maintenance.coverage import work_of

        work_on.register(work_of)
