"""Middleware that logs what clients do at the forms of the login."""

from __future__ import annotations

from django.core.exceptions import NON_FIELD_ERRORS
from django.http import HttpRequest, HttpResponse
from django.utils.deprecation import MiddlewareMixin

from dashboard.login_guard.events import Action, log_action


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
