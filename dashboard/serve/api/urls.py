"""URLs of the API, the health checks and the metrics."""

from django.contrib.auth.decorators import login_not_required
from django.urls import path

from dashboard.serve.api import health
from dashboard.serve.api.api import api

# The API authenticates each request itself; the login page is for browsers.
OPEN_TO_ALL = api.urls
for _pattern in OPEN_TO_ALL[0]:
    if _pattern.callback:
        login_not_required(_pattern.callback)

urlpatterns = [
    path("api/v1/", OPEN_TO_ALL),
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    path("metrics", health.metrics, name="metrics"),
]
