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
# It refuses large forms, gives methods that are not allowed an error page, records the use of
# sessions, and redirects to the change of first passwords.

# Largest form under these paths, bytes. The login library keeps a form in the session until the
# password has been confirmed.
MAX_FORM = 65_536
UNDER = ("/account/", "/users/")


class AccountFormsMiddleware(MiddlewareMixin):
    """Refuses forms that are too large (413) or of unknown length (411), without reading them."""

    def process_request(self, request: HttpRequest) -> HttpResponse | None:
        """Return the refusal, or None."""
        if not request.path.startswith(UNDER):
            return None
        status = _refusal(request)
        if status is None:
            return None
        LIMITED.labels("forms").inc()
        return render(request, "413.html", status=status)


def _refusal(request: HttpRequest) -> int | None:
    """Return the status with which to refuse the request, or None."""
    length = request.META.get("CONTENT_LENGTH") or "0"
    if "Transfer-Encoding" in request.headers or not length.isdecimal():
        return 411
    return 413 if int(length) > MAX_FORM else None


class MethodMiddleware(MiddlewareMixin):
    """Gives browsers a page (405) instead of an empty response to a method that is not allowed."""

    def process_response(self, request: HttpRequest, response: HttpResponse) -> HttpResponse:
        """Return the page, or any other response unchanged."""
        if response.status_code != 405 or request.path.startswith("/api/"):
            return response
        page = render(request, "405.html", status=405)
        page["Allow"] = response["Allow"]
        return page


class SessionsMiddleware(MiddlewareMixin):
    """Records the use of sessions, and redirects users who must change their password."""

    def __init__(self, get_response: Any) -> None:
        super().__init__(get_response)
        self.seen = SessionUses()

    def process_request(self, request: HttpRequest) -> HttpResponse | None:
        """Return the redirect to the change of password, or None."""
        key = request.session.session_key
        if key is None or not request.user.is_authenticated:
            return None
        if self.seen.due(key):
            record_use(request)
        return detour(request)


# ---- middleware ----------------------------------------------------------------------------------
# Middleware that logs what clients do with the login's forms.


class LoginEventsMiddleware(MiddlewareMixin):
    """Logs each submission of the login form, and each refused code of a second factor.

    Neither loading a page nor reauthentication by a logged-in user counts.
    """

    def process_response(self, request: HttpRequest, response: HttpResponse) -> HttpResponse:
        """Log the action, if it is one, and return the response unchanged."""
        match = request.resolver_match
        if request.method == "POST" and match is not None:
            action = _action(match.view_name, response)
            if action is not None:
                log_action(request, action)
        return response


def _action(view: str, response: HttpResponse) -> Action | None:
    if response.status_code == 403:  # no CSRF token: logged by the view of CSRF failures
        return None
    if view == "account_login":
        return "login-throttled" if _is_throttled(response) else "login"
    if view == "mfa_authenticate" and response.status_code == 200:
        return "form-refused"
    return None


def _is_throttled(response: HttpResponse) -> bool:
    """Return whether a rate limit of the login kept the password from being tried."""
    form = (getattr(response, "context_data", None) or {}).get("form")
    return response.status_code == 429 or (
        form is not None and form.has_error(NON_FIELD_ERRORS, "too_many_login_attempts")
    )
