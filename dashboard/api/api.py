"""The API put together."""

from ninja import NinjaAPI

from dashboard.api import problems
from dashboard.api.operations import router

api = NinjaAPI(
    title="Tallyboard",
    version="1",
    description="Reports in, states and commands out. Commands answer 202 and can be followed.",
    urls_namespace="api-v1",
    docs_url=None,
)
api.add_router("", router)
problems.install(api)
