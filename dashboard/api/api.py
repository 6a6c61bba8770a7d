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
from dashboard.api.examples import add_examples
from dashboard.api.labels import router as labels
from dashboard.api.operations import router


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
    description="Reports in, states and commands out. Commands answer 202 and can be followed.",
    urls_namespace="api-v1",
    docs_url=None,
    parser=JsonParser(),
)
api.add_router("", router)
api.add_router("", labels)
api.add_router("", agents)
api.add_router("", acknowledgements)
problems.install(api)
