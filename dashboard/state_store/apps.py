"""The state store's app."""

from django.apps import AppConfig


class StateStoreConfig(AppConfig):
    """The app of readings of Spark's state store."""

    name = "dashboard.state_store"
    label = "statestore"
    default_auto_field = "django.db.models.BigAutoField"
