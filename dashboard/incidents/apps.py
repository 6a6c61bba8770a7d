"""The incidents' app."""

from django.apps import AppConfig


class IncidentsConfig(AppConfig):
    """The app of incidents."""

    name = "dashboard.incidents"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Have acknowledgements noted on the incidents that they are about."""
        from dashboard.annotations.row_marks import marks_changed
        from dashboard.incidents.recorder import note_acknowledgements

        marks_changed.connect(note_acknowledgements, dispatch_uid="incidents")
