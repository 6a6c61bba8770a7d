"""How allauth behaves here."""

from __future__ import annotations

from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from django.core.exceptions import ValidationError
from django.http import HttpRequest

from dashboard.metrics import LIMITED, LOGINS


class ClosedAdapter(DefaultAccountAdapter):
    """Nobody signs up: users are made by an admin. Logins are counted."""

    def is_open_for_signup(self, request: HttpRequest) -> bool:  # noqa: ARG002 - allauth's form
        """Never."""
        return False

    def pre_authenticate(self, request: HttpRequest, **credentials: Any) -> None:
        """Let a password be tried. Raises ValidationError after too many wrong ones."""
        try:
            super().pre_authenticate(request, **credentials)
        except ValidationError:
            LIMITED.labels("logins").inc()
            LOGINS.labels("limited").inc()
            raise

    def authentication_failed(self, request: HttpRequest, **credentials: Any) -> None:
        """Count a wrong name or password."""
        LOGINS.labels("failed").inc()
        super().authentication_failed(request, **credentials)

    def login(self, request: HttpRequest, user: Any) -> None:
        """Count a login that has passed every step."""
        super().login(request, user)
        LOGINS.labels("ok").inc()
