"""Middleware in front of every page.

It refuses large forms and methods that are not allowed, records the use of sessions, and leads to
the change of first passwords.
"""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.deprecation import MiddlewareMixin

from dashboard.accounts.first_password import detour
from dashboard.accounts.sessions import Seen, note_use
from dashboard.core.metrics import LIMITED

# Largest form under these, bytes. The login library keeps a form in the session until the password
# has been confirmed.
MAX_FORM = 65_536
UNDER = ("/account/", "/users/")


class AccountFormsMiddleware(MiddlewareMixin):
    """Middleware that refuses a larger form (413), or one of unknown length (411), unread."""

    def process_request(self, request: HttpRequest) -> HttpResponse | None:
        """Return the refusal; None for other requests."""
        if not request.path.startswith(UNDER):
            return None
        status = _refusal(request)
        if status is None:
            return None
        LIMITED.labels("forms").inc()
        return render(request, "413.html", status=status)


def _refusal(request: HttpRequest) -> int | None:
    """Return the status to refuse the request with, or None."""
    length = request.META.get("CONTENT_LENGTH") or "0"
    if "Transfer-Encoding" in request.headers or not length.isdecimal():
        return 411
    return 413 if int(length) > MAX_FORM else None


class MethodMiddleware(MiddlewareMixin):
    """Middleware that puts a page (405) in place of an empty one where a browser uses a method that
    is not allowed."""

    def process_response(self, request: HttpRequest, response: HttpResponse) -> HttpResponse:
        """Return the page; other responses as they are."""
        if response.status_code != 405 or request.path.startswith("/api/"):
            return response
        page = render(request, "405.html", status=405)
        page["Allow"] = response["Allow"]
        return page


class SessionsMiddleware(MiddlewareMixin):
    """Middleware that notes a session's use, and redirects users who must change their password."""

    def __init__(self, get_response: Any) -> None:
        super().__init__(get_response)
        self.seen = Seen()

    def process_request(self, request: HttpRequest) -> HttpResponse | None:
        """Return the redirect to the new password; None for other requests."""
        key = request.session.session_key
        if key is None or not request.user.is_authenticated:
            return None
        if self.seen.due(key):
            note_use(request)
        return detour(request)
