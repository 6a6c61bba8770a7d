"""The app of push notifications."""

from django.apps import AppConfig


class PushConfig(AppConfig):
    """The app of users' browsers."""

    name = "dashboard.push"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Offer push messages as a kind of channel."""
        from dashboard.notifications.channels import register
        from dashboard.push.kind import PushKind

        register(PushKind())
