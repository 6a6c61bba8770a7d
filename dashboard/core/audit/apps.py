"""The audit's app."""

from django.apps import AppConfig


class AuditConfig(AppConfig):
    """The app of the audit."""

    name = "dashboard.core.audit"

    def ready(self) -> None:
        """Listen to the login library, record which lists leave as files, and prune what is old."""
        from dashboard.core.audit.log import connect, prune, record_export
        from dashboard.core.audit.models import pruning
        from dashboard.core.common import lists

        connect()
        lists.record_export.register(record_export)
        pruning.register(prune)
