"""The password or the code that a logged-in user gives once more, and how often it may be wrong.

Counted by session, apart from logins: what others try at the login, under whatever name and from
wherever, keeps nobody who is logged in from an urgent action.
"""

from __future__ import annotations

from allauth.account.adapter import get_adapter as account_adapter
from allauth.core import context
from allauth.core.internal import ratelimit
from allauth.mfa.base.forms import ReauthenticateForm
from django.contrib.auth.models import User
from django.http import HttpRequest

from dashboard.accounts.code_forms import OneTimeCodeForm
from dashboard.audit.login_signals import login_failed
from dashboard.core.metrics import LIMITED

# Of the settings' rates: how many wrong ones there may be.
ACTION = "reauthenticate_failed"


def attempt(request: HttpRequest) -> ratelimit.RateLimitUsage:
    """Count an attempt of this session; one that was right is rolled back.

    Raises ValidationError after too many wrong ones.
    """
    used = ratelimit.consume(
        request, app="allauth.account", action=ACTION, key=request.session.session_key or ""
    )
    if used is None:
        LIMITED.labels("logins").inc()
        raise account_adapter().validation_error("too_many_login_attempts")
    return used


def is_password(request: HttpRequest, user: User, password: str) -> bool:
    """Return whether the password is the user's.

    Raises ValidationError after too many wrong ones.
    """
    used = attempt(request)
    if user.check_password(password):
        used.rollback()
        return True
    login_failed(request, user.get_username())
    return False


class CodeForm(OneTimeCodeForm, ReauthenticateForm):
    """A code of the second factor, given once more."""

    def clean_code(self) -> str:
        """Return the code. Raises ValidationError for a wrong one, and after too many."""
        used = attempt(context.request)
        code: str = self.cleaned_data["code"]
        self.use_code(code)
        used.rollback()
        return code
