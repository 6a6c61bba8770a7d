"""The annotations' app."""

from django.apps import AppConfig


class AnnotationsConfig(AppConfig):
    """The app of annotations: acknowledgements, notes, the handover."""

    name = "dashboard.annotations"
    label = "annotations"
    default_auto_field = "django.db.models.BigAutoField"
