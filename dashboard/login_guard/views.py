"""The page that refuses a form without the token of its page."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.views import csrf

from dashboard.login_guard.events import log_action


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """Log the refusal of a form, and return its page (403)."""
    log_action(request, "form-refused")
    return csrf.csrf_failure(request, reason)
