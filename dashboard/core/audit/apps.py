"""The audit's app."""

from django.apps import AppConfig


class AuditConfig(AppConfig):
    """The app of the audit."""

    name = "dashboard.core.audit"

    def ready(self) -> None:
        """Listen to the login library."""
        from dashboard.core.audit.login_signals import connect

        connect()
