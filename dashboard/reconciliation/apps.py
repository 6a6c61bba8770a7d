"""The reconciliation app."""

from django.apps import AppConfig


class ReconciliationConfig(AppConfig):
    """The topics replayed through the fold and held against the database."""

    name = "dashboard.reconciliation"
    label = "reconciliation"
