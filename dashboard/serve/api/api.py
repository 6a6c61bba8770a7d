"""The API put together."""

from __future__ import annotations

from typing import Any

from ninja import NinjaAPI
from ninja.openapi.schema import OpenAPISchema
from ninja.operation import Operation

from dashboard.core.api import problems
from dashboard.core.api.schemas import JsonParser
from dashboard.serve.api.examples import add_examples

ROUTERS = (
    "dashboard.board.assets.api.router",
    "dashboard.watch.agents.reporting.router",
    "dashboard.watch.agents.alertmanager.router",
    "dashboard.operate.console.api.router",
    "dashboard.watch.commands.api.router",
    "dashboard.watch.agents.api.router",
    "dashboard.watch.annotations.api.router",
    "dashboard.watch.incidents.api.router",
    "dashboard.notify.summaries.api.router",
    "dashboard.notify.notifications.api.router",
    "dashboard.operate.console.api.views",
    "dashboard.retail.api.router",
)
"""The operations of each package, in the order of the OpenAPI document."""


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
for _router in ROUTERS:
    api.add_router("", _router)
problems.install(api)
