"""The app of the shared parts of the pages of batch queries: its tags."""

from django.apps import AppConfig


class BatchQueriesConfig(AppConfig):
    """The app of batch queries, followed and cancelled."""

    name = "dashboard.batch_queries"
