"""Middleware in front of every page."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import NON_FIELD_ERRORS
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.deprecation import MiddlewareMixin

from dashboard.core.accounts.login import detour
from dashboard.core.accounts.login_guard import Action, log_action
from dashboard.core.accounts.sessions import SessionUses, record_use
from dashboard.core.common.metrics import LIMITED

# ---- middleware ----------------------------------------------------------------------------------
# Middleware in front of every page.
#
# It refuses large forms and methods that are not allowed, records the use of sessions, and leads to
# the change of first passwords.

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
        self.seen = SessionUses()

    def process_request(self, request: HttpRequest) -> HttpResponse | None:
        """Return the redirect to the new password; None for other requests."""
        key = request.session.session_key
        if key is None or not request.user.is_authenticated:
            return None
        if self.seen.due(key):
            record_use(request)
        return detour(request)


# ---- middleware ----------------------------------------------------------------------------------
# Middleware that logs what clients do at the forms of the login.


class LoginEventsMiddleware(MiddlewareMixin):
    """Middleware that logs each post of the login form, and each refused code of a second factor.

    Loading a page is no such action, nor is what a logged-in user confirms.
    """

    def process_response(self, request: HttpRequest, response: HttpResponse) -> HttpResponse:
        """Return the response as it is."""
        match = request.resolver_match
        if request.method == "POST" and match is not None:
            action = _action(match.view_name, response)
            if action is not None:
                log_action(request, action)
        return response


def _action(view: str, response: HttpResponse) -> Action | None:
    if response.status_code == 403:  # without its CSRF token: logged by the view that says so
        return None
    if view == "account_login":
        return "login-throttled" if _is_throttled(response) else "login"
    if view == "mfa_authenticate" and response.status_code == 200:
        return "form-refused"
    return None


def _is_throttled(response: HttpResponse) -> bool:
    """Return whether a limit of the login kept the password from being tried."""
    form = (getattr(response, "context_data", None) or {}).get("form")
    return response.status_code == 429 or (
        form is not None and form.has_error(NON_FIELD_ERRORS, "too_many_login_attempts")
    )
