"""JSON bodies, read strictly and within bounds.

Of a repeated key the last counts, as it does in the log: what is checked is what is sent on.
"""

from __future__ import annotations

from typing import Any

import msgspec
from django.http import HttpRequest
from ninja.parser import Parser

from dashboard.api.problems import Problem

JSON = "application/json"


class JsonParser(Parser):
    """The parser of the bodies that django-ninja reads itself."""

    def parse_body(self, request: HttpRequest) -> Any:
        """Return the body's data. Raises Problem 400 or 415."""
        require_json(request)
        return decode(request.body)


def require_json(request: HttpRequest) -> None:
    """Raise Problem 415 unless the request says that its body is JSON."""
    if request.content_type != JSON:
        content_type = repr(request.content_type or "none")
        raise Problem(
            415, "unsupported-media-type", f"Content-Type: expected {JSON}, got {content_type}."
        )


def read_json(request: HttpRequest, limit: int) -> Any:
    """Return a body of at most `limit` bytes as data. Raises Problem 400, 413 or 415."""
    require_json(request)
    body = request.read(limit + 1)
    if len(body) > limit:
        raise Problem(413, "too-large", f"Expected at most {limit} bytes.")
    return decode(body)


def decode(body: bytes) -> Any:
    """Return data from JSON. Raises Problem 400."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Problem(400, "bad-request", f"Expected JSON: {error}") from error
