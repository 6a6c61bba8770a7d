"""The API put together."""

from __future__ import annotations

from typing import Any

from ninja import NinjaAPI
from ninja.openapi.schema import OpenAPISchema
from ninja.operation import Operation

from dashboard.api import problems
from dashboard.api.acknowledgements import router as acknowledgements
from dashboard.api.agents import router as agents
from dashboard.api.bodies import JsonParser
from dashboard.api.commands import router as commands
from dashboard.api.examples import add_examples
from dashboard.api.incidents import router as incidents
from dashboard.api.invoices import router as invoices
from dashboard.api.labels import router as labels
from dashboard.api.maintenance import router as maintenance
from dashboard.api.notifications import router as notifications
from dashboard.api.operations import router
from dashboard.api.orders import router as orders
from dashboard.api.schedules import router as schedules
from dashboard.api.summary import router as summary
from dashboard.api.views import router as views


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
api.add_router("", labels)
api.add_router("", agents)
api.add_router("", acknowledgements)
api.add_router("", incidents)
api.add_router("", summary)
api.add_router("", notifications)
api.add_router("", maintenance)
api.add_router("", schedules)
api.add_router("", views)
api.add_router("", orders)
api.add_router("", invoices)
problems.install(api)
