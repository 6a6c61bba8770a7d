"""Errors as application/problem+json, each with a reason, and the middleware of every response
of the API.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from django.core.exceptions import RequestDataTooBig
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.deprecation import MiddlewareMixin
from ninja import NinjaAPI
from ninja.errors import AuthenticationError, HttpError, ValidationError

from dashboard.core.common.access import TooMany
from dashboard.core.common.metrics import API_PROBLEMS, API_REQUESTS

# ---- problems ------------------------------------------------------------------------------------
# Errors as application/problem+json, each with a reason.

CONTENT_TYPE = "application/problem+json"

TITLES = {
    "bad-request": "The request could not be read",
    "not-authenticated": "A bearer token or a login is needed",
    "csrf-failed": "A session needs its CSRF token",
    "role-required": "The role does not allow this",
    "scope-required": "The token lacks the scope for this",
    "unknown-scenario": "There is no such scenario",
    "unknown-asset": "The board shows no such asset",
    "unknown-command": "There is no such command",
    "unknown-incident": "There is no such incident",
    "unknown-rule": "There is no such notification rule",
    "unknown-rota": "There is no such rota",
    "unknown-message": "There is no such message",
    "unknown-order": "There is no such order",
    "unknown-status-page": "There is no such status page",
    "unknown-board": "There is no such board",
    "unknown-window": "There is no such maintenance window",
    "unknown-view": "There is no such view",
    "unknown-key": "The view has no such key",
    "view-not-followed": "This process keeps no views",
    "view-catching-up": "The view has not caught up with its topic yet",
    "view-topic-absent": "The view's topic is not there",
    "view-too-large": "The view's topic is larger than a copy of it may be",
    "not-found": "There is nothing here",
    "method-not-allowed": "This cannot be done here",
    "id-taken": "The id belongs to another command",
    "too-many-mutes": "No more agents of this scenario may be muted",
    "calm": "Its state is the least severe: there is nothing to acknowledge",
    "not-now": "It is not in a state in which this can be done",
    "too-large": "The body is too large",
    "too-slow": "The request came too slowly",
    "no-room": "The server has no room for more at once",
    "unsupported-media-type": "The body has an unsupported type",
    "invalid": "The request is not what was expected",
    "too-many": "Too many requests",
    "internal-error": "The server failed; its log says why",
    "unsent": "Kafka did not accept it",
    "store-not-ready": "The store has not caught up, or its partition is moving",
    "store-unreachable": "What keeps the store does not answer",
    "store-not-run": "This copy of the product does not run that store",
}
"""Every reason, with its title."""

MAX_DETAIL = 500
"""Length of the longest detail, in characters: what was sent is not sent back at length."""

MAX_ERRORS = 100
"""Most errors in one response."""


class Problem(Exception):
    """An error response. errors: fields, and what was expected of each."""

    def __init__(
        self,
        status: int,
        reason: str,
        detail: str = "",
        *,
        errors: Sequence[Mapping[str, str]] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail or TITLES[reason])
        self.status = status
        self.reason = reason
        self.detail = detail
        self.errors = errors
        self.headers = headers or {}

    def response(self) -> HttpResponse:
        """Return the response in the form of RFC 9457, and count it."""
        API_PROBLEMS.labels(self.reason).inc()
        body: dict[str, Any] = {
            "type": f"urn:tallyboard:problem:{self.reason}",
            "title": TITLES[self.reason],
            "status": self.status,
            "reason": self.reason,
        }
        if self.detail:
            body["detail"] = _short(self.detail)
        if self.errors:
            body["errors"] = [
                {name: _short(text) for name, text in error.items()}
                for error in self.errors[:MAX_ERRORS]
            ]
        return HttpResponse(
            json.dumps(body), status=self.status, content_type=CONTENT_TYPE, headers=self.headers
        )


def _short(text: str) -> str:
    return text if len(text) <= MAX_DETAIL else f"{text[: MAX_DETAIL - 1]}…"


def invalid(field: str, expected: str) -> Problem:
    """Return a 422 for one field, with what was expected of it."""
    return Problem(
        422, "invalid", f"{field}: {expected}", errors=[{"field": field, "expected": expected}]
    )


def too_many(error: TooMany) -> Problem:
    """Return a 429 with the time to wait."""
    return Problem(429, "too-many", str(error), headers={"Retry-After": str(error.retry_after)})


def not_authenticated() -> Problem:
    """Return a 401: there is neither a valid token nor a login."""
    return Problem(401, "not-authenticated", headers={"WWW-Authenticate": "Bearer"})


def install(api: NinjaAPI) -> None:
    """Install handlers that turn every error of the API into a problem."""
    api.add_exception_handler(Problem, _problem)
    api.add_exception_handler(TooMany, _too_many)
    api.add_exception_handler(ValidationError, _validation)
    api.add_exception_handler(HttpError, _http_error)
    api.add_exception_handler(Http404, _not_found)
    api.add_exception_handler(RequestDataTooBig, _too_big)


def _problem(_request: HttpRequest, error: Any) -> HttpResponse:
    response: HttpResponse = error.response()
    return response


def _too_many(_request: HttpRequest, error: Any) -> HttpResponse:
    return too_many(error).response()


def _validation(_request: HttpRequest, error: Any) -> HttpResponse:
    errors = [{"field": _field(item["loc"]), "expected": str(item["msg"])} for item in error.errors]
    first = errors[:MAX_ERRORS]
    detail = "; ".join(f"{item['field']}: {item['expected']}" for item in first)
    return Problem(422, "invalid", detail, errors=first).response()


_OURS = ("body", "query", "path", "header", "given", "options")


def _field(location: Sequence[Any]) -> str:
    """Return the client's name of a field: `("body", "given", "state")` is the field `state`. The
    other parts of the location are internal."""
    return ".".join(str(part) for part in location if part not in _OURS) or "body"


def _http_error(_request: HttpRequest, error: Any) -> HttpResponse:
    if isinstance(error, AuthenticationError):
        return not_authenticated().response()
    if isinstance(error.__cause__, Problem):  # raised by the body parser
        return error.__cause__.response()
    if error.status_code == 403:
        return Problem(403, "csrf-failed").response()
    return Problem(error.status_code, "bad-request", str(error)).response()


def _not_found(_request: HttpRequest, _error: Any) -> HttpResponse:
    return Problem(404, "not-found").response()


def _too_big(_request: HttpRequest, error: Any) -> HttpResponse:
    return Problem(413, "too-large", str(error)).response()


_BY_STATUS = {
    401: "not-authenticated",
    403: "csrf-failed",
    404: "not-found",
    405: "method-not-allowed",
    413: "too-large",
    415: "unsupported-media-type",
}


def problem_of(response: HttpResponseBase) -> Problem:
    """Return the problem that replaces an error response of Django's or of the router's."""
    status = response.status_code
    usual = "internal-error" if status >= 500 else "bad-request"
    kept = ("Allow", "Retry-After", "WWW-Authenticate")
    headers = {name: response[name] for name in kept if name in response}
    return Problem(status, _BY_STATUS.get(status, usual), headers=headers)


_SCHEMA = {
    "type": "object",
    "required": ["type", "title", "status", "reason"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "reason": {"type": "string", "enum": sorted(TITLES)},
        "detail": {"type": "string", "maxLength": MAX_DETAIL},
        "errors": {
            "type": "array",
            "maxItems": MAX_ERRORS,
            "items": {
                "type": "object",
                "properties": {
                    "field": {"type": "string"},
                    "expected": {"type": "string"},
                    "reason": {"type": "string"},
                    "note": {"type": "string"},
                },
            },
        },
    },
}

_DESCRIPTIONS = {
    400: "Not JSON, or a request that cannot be read",
    401: "No valid token, no session",
    403: "The role, or the token's scope, does not allow it",
    404: "No such scenario, asset or command",
    408: "The request was not complete in time",
    409: "The present state does not allow it, or the Idempotency-Key belongs to another command",
    413: "The body is too large",
    415: "The body's Content-Type is not application/json",
    422: "A field is not what was expected",
    429: "Too many requests; see Retry-After",
    500: "The server failed",
    503: "Kafka did not accept it, or what would answer is not ready; try again",
}
_ALWAYS = (401, 403, 429, 500)


def documented(*statuses: int) -> dict[str, Any]:
    """Return the OpenAPI of an operation's problems, besides those that every operation has."""
    content = {CONTENT_TYPE: {"schema": _SCHEMA}}
    return {
        "responses": {
            status: {"description": _DESCRIPTIONS[status], "content": content}
            for status in sorted({*_ALWAYS, *statuses})
        }
    }


# ---- middleware ----------------------------------------------------------------------------------
# Middleware for every response under /api, whichever view it comes from.

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")

_OF_THE_BODY = ("content-type", "content-length", "content-encoding")


class ApiMiddleware(MiddlewareMixin):
    """Turns errors into problems, forbids caching, and counts requests."""

    def process_response(
        self, request: HttpRequest, response: HttpResponseBase
    ) -> HttpResponseBase:
        """Return the response. Under /api, errors become problems, and a header is added.

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
