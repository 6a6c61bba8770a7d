"""The audit's app."""

from django.apps import AppConfig


class AuditConfig(AppConfig):
    """The app of the audit."""

    name = "dashboard.core.audit"

    def ready(self) -> None:
        """Listen to the login library, and note which lists leave as files."""
        from dashboard.core.audit.log import record_export
        from dashboard.core.audit.login_signals import connect
        from dashboard.core.common import lists

        connect()
        lists.record_export.register(record_export)
