"""Middleware that logs requests, for the topic `app-logs`."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from config.logs import REQUESTS
from dashboard.core.accounts.login_guard import client_of
from dashboard.core.api.problems import METHODS

log = logging.getLogger(REQUESTS)

PROBES = ("healthz", "readyz", "metrics")
"""Views that machines request every few seconds."""

Respond = Callable[[HttpRequest], HttpResponseBase]


def log_requests(respond: Respond) -> Respond:
    """Return middleware that logs every request except probes: the user, the route and the outcome.

    A route is the pattern of a URL, without the names of assets and users in it. Static files are
    served before this.
    """

    def middleware(request: HttpRequest) -> HttpResponseBase:
        begun = time.monotonic()
        response = respond(request)
        if log.isEnabledFor(logging.INFO):
            _log(request, response.status_code, time.monotonic() - begun)
        return response

    return middleware


def _log(request: HttpRequest, status: int, took_s: float) -> None:
    match = request.resolver_match
    if match is not None and match.url_name in PROBES:
        return
    method = request.method if request.method in METHODS else "other"
    route = match.route if match else ""
    facts = {
        "client": client_of(request),
        "method": method,
        "route": route,
        "status": status,
        "duration_ms": round(took_s * 1000),
    }
    log.info("%s /%s: %d", method, route, status, extra=facts)
