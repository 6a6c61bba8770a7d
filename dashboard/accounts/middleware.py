"""Forms that change a login are small, and so is what is kept of them."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.deprecation import MiddlewareMixin

from dashboard.metrics import LIMITED

MAX_FORM = 65_536
"""Largest form under /account/, bytes.

The login library keeps a form in the session until the password has been confirmed.
"""


class AccountFormsMiddleware(MiddlewareMixin):
    """Refuses a larger form (413), or one of unknown length (411), before anything reads it."""

    def process_request(self, request: HttpRequest) -> HttpResponse | None:
        """The refusal; others pass."""
        if not request.path.startswith("/account/"):
            return None
        status = _refusal(request)
        if status is None:
            return None
        LIMITED.labels("forms").inc()
        return render(request, "413.html", status=status)


def _refusal(request: HttpRequest) -> int | None:
    """The status to refuse with, if it is to be refused."""
    length = request.META.get("CONTENT_LENGTH") or "0"
    if "Transfer-Encoding" in request.headers or not length.isdecimal():
        return 411
    return 413 if int(length) > MAX_FORM else None
