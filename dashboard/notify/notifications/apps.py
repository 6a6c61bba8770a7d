"""The app of notifications."""

from django.apps import AppConfig


class NotificationsConfig(AppConfig):
    """The notifications app."""

    name = "dashboard.notify.notifications"

    def ready(self) -> None:
        """Register the kinds of channel and the messages on the pages of incidents and tasks, and
        connect to the signals of acknowledgements, incidents, what people do to these, and
        findings about agents."""
        from dashboard.core.accounts.encryption import OTHER_SECRETS
        from dashboard.notify.notifications.channels import (
            MailKind,
            WebhookKind,
            register,
            reseal_channels,
        )
        from dashboard.notify.notifications.chat import ChatKind
        from dashboard.notify.notifications.ingestion import (
            ingest_case_change,
            ingest_findings,
            ingest_incidents,
            recheck_groups,
        )
        from dashboard.notify.notifications.message_views import messages_of, task_messages_url
        from dashboard.notify.notifications.push import PushKind
        from dashboard.watch.agents.findings import findings_changed
        from dashboard.watch.annotations.row_marks import marks_changed
        from dashboard.watch.commands.models import messages_url
        from dashboard.watch.incidents.ingestion import incidents_changed
        from dashboard.watch.incidents.models import case_changed, messages_about

        for kind in (MailKind(), WebhookKind(), ChatKind(), PushKind()):
            register(kind)
        messages_about.register(messages_of)
        messages_url.register(task_messages_url)
        OTHER_SECRETS.append(reseal_channels)
        marks_changed.connect(recheck_groups, dispatch_uid="notifications")
        findings_changed.connect(ingest_findings, dispatch_uid="notifications")
        incidents_changed.connect(ingest_incidents, dispatch_uid="notifications")
        case_changed.connect(ingest_case_change, dispatch_uid="notifications")
