"""The API put together."""

from __future__ import annotations

from typing import Any

from ninja import NinjaAPI
from ninja.openapi.schema import OpenAPISchema
from ninja.operation import Operation

from dashboard.core.api import problems
from dashboard.core.api.schemas import JsonParser
from dashboard.notify.notifications.api import router as notifications
from dashboard.notify.summaries.api import router as summary
from dashboard.operate.console.api import router as views
from dashboard.retail.api import router as invoices
from dashboard.serve.api.examples import add_examples
from dashboard.serve.api.operations import router
from dashboard.watch.agents.api import router as agents
from dashboard.watch.annotations.api import router as acknowledgements
from dashboard.watch.commands.api import router as commands
from dashboard.watch.incidents.api import router as incidents


class Api(NinjaAPI):
    """django-ninja's, with operations under their functions' names, and an example of each."""

    def get_openapi_operation_id(self, operation: Operation) -> str:
        """Return the function's name."""
        return operation.view_func.__name__

    def get_openapi_schema(self, **options: Any) -> OpenAPISchema:
        """Return the OpenAPI document."""
        document = super().get_openapi_schema(**options)
        add_examples(document)
        return document


api = Api(
    title="Tallyboard",
    version="1",
    description="Send reports, read states, give commands. Commands answer 202; follow them.",
    urls_namespace="api-v1",
    docs_url=None,
    parser=JsonParser(),
)
api.add_router("", router)
api.add_router("", commands)
api.add_router("", agents)
api.add_router("", acknowledgements)
api.add_router("", incidents)
api.add_router("", summary)
api.add_router("", notifications)
api.add_router("", views)
api.add_router("", invoices)
problems.install(api)
