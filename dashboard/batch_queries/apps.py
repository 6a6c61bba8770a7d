"""What the pages of batch queries share, as an app: its tags."""

from django.apps import AppConfig


class BatchQueriesConfig(AppConfig):
    """Batch queries, followed and cancelled."""

    name = "dashboard.batch_queries"
