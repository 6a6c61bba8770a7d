"""Middleware of every response under /api, whichever view it is from."""

from __future__ import annotations

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.deprecation import MiddlewareMixin

from dashboard.api.problems import CONTENT_TYPE, problem_of
from dashboard.core.metrics import API_REQUESTS

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")

_OF_THE_BODY = ("content-type", "content-length", "content-encoding")


class ApiMiddleware(MiddlewareMixin):
    """Middleware that makes errors problems, keeps caches from storing, and counts requests."""

    def process_response(
        self, request: HttpRequest, response: HttpResponseBase
    ) -> HttpResponseBase:
        """Return the response; one of the API with problem, header and count.

        Other responses are returned unchanged.
        """
        if request.path.split("/", 2)[1:2] != ["api"]:
            return response
        if response.status_code >= 400 and response.get("Content-Type") != CONTENT_TYPE:
            response = _as_problem(response)
        response.setdefault("Cache-Control", "no-store")
        match = request.resolver_match
        method = request.method if request.method in METHODS else "other"
        API_REQUESTS.labels(method, match.route if match else "", response.status_code).inc()
        return response


def _as_problem(response: HttpResponseBase) -> HttpResponseBase:
    made = problem_of(response).response()
    for name, value in response.headers.items():
        if name.lower() not in _OF_THE_BODY:
            made.setdefault(name, value)
    made["Content-Length"] = str(len(made.content))
    return made
