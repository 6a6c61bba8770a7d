"""The app of incidents and maintenance windows."""

from django.apps import AppConfig


class IncidentsConfig(AppConfig):
    """The app of incidents and maintenance windows."""

    name = "dashboard.watch.incidents"

    def ready(self) -> None:
        """Record acknowledgements on their incidents, mark the rows of assets in a window or an
        incident, and count for the bar."""
        from dashboard.core.common.navigation import open_incidents
        from dashboard.watch.annotations.row_marks import case_on, marks_changed, work_on
        from dashboard.watch.incidents.cases import numbers_of, record_acknowledgements
        from dashboard.watch.incidents.maintenance import work_of
        from dashboard.watch.incidents.models import Case

        marks_changed.connect(record_acknowledgements, dispatch_uid="incidents")
        work_on.register(work_of)
        case_on.register(numbers_of)
        open_incidents.register(Case.objects.badge)
