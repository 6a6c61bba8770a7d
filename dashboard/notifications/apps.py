"""The notifications' app."""

from django.apps import AppConfig


class NotificationsConfig(AppConfig):
    """The app of notifications."""

    name = "dashboard.notifications"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Offer the kinds of channel, and the messages to the pages of incidents and tasks; have
        groups looked at once somebody acknowledges, and findings about agents stored."""
        from dashboard.accounts.encryption import OTHER_SECRETS
        from dashboard.agents.watch import findings_changed
        from dashboard.annotations.row_marks import marks_changed
        from dashboard.incidents.messages import messages_about
        from dashboard.notifications.channels import register
        from dashboard.notifications.chat import ChatKind
        from dashboard.notifications.ingestion import take_in_findings, wake_groups
        from dashboard.notifications.mail import MailKind
        from dashboard.notifications.message_list import messages_of, task_messages_url
        from dashboard.notifications.secrets import reseal_channels
        from dashboard.notifications.webhook import WebhookKind
        from dashboard.schedules.messages import messages_url

        for kind in (MailKind(), WebhookKind(), ChatKind()):
            register(kind)
        messages_about.register(messages_of)
        messages_url.register(task_messages_url)
        OTHER_SECRETS.append(reseal_channels)
        marks_changed.connect(wake_groups, dispatch_uid="notifications")
        findings_changed.connect(take_in_findings, dispatch_uid="notifications")
