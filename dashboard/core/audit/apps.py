"""The app of the audit."""

from django.apps import AppConfig


class AuditConfig(AppConfig):
    """The audit's app."""

    name = "dashboard.core.audit"

    def ready(self) -> None:
        """Connect to the login library's signals, and register recording of exports and pruning."""
        from dashboard.core.audit.log import connect, prune, record_export
        from dashboard.core.audit.models import pruning
        from dashboard.core.common import lists

        connect()
        lists.record_export.register(record_export)
        pruning.register(prune)
