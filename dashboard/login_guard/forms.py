"""The login form, with a captcha for a client that is challenged."""

from __future__ import annotations

import json
from typing import Any

from allauth.account.forms import LoginForm
from django import forms
from django.forms.widgets import Script

from dashboard.core.metrics import CAPTCHAS
from dashboard.core.times import now_ms
from dashboard.login_guard.captcha import CaptchaRefused, Reason, new_challenge, redeem
from dashboard.login_guard.challenge import is_challenged, verify
from dashboard.login_guard.client import client_of
from dashboard.login_guard.events import log_verified

REFUSALS: dict[Reason, str] = {
    "wrong": "The check of this browser has failed. It runs once more: wait for its end.",
    "expired": "The check of this browser was too long ago. It runs once more: wait for its end.",
    "replayed": "The check of this browser counted before. It runs once more: wait for its end.",
}
MISSING = "This browser has not been checked. Wait for the end of the check, then log in."


class CaptchaWidget(forms.Widget):
    """A challenge that the browser solves by itself, and what it says of that."""

    template_name = "login_guard/captcha.html"

    class Media:
        js = (Script("js/account/captcha.js", type="module"),)

    def __init__(self, client: str) -> None:
        super().__init__()
        self.client = client

    def use_required_attribute(self, _initial: Any) -> bool:
        """Return False: it is no field of HTML that is filled in."""
        return False

    def get_context(self, name: str, value: Any, attrs: dict[str, Any] | None) -> dict[str, Any]:
        """Return the template's context, with a new challenge."""
        challenge = json.dumps(new_challenge(self.client))
        return super().get_context(name, value, attrs) | {"challenge": challenge}


class CaptchaField(forms.CharField):
    """The solution of a captcha for one client."""

    def __init__(self, client: str) -> None:
        super().__init__(
            label="Check of this browser",
            max_length=4_000,
            widget=CaptchaWidget(client),
            error_messages={"required": MISSING},
        )
        self.client = client

    def clean(self, value: Any) -> str:
        """Return the solution, which counts from now on. Raises ValidationError."""
        try:
            text: str = super().clean(value)
            redeem(self.client, text)
        except CaptchaRefused as refusal:
            CAPTCHAS.labels(refusal.reason).inc()
            raise forms.ValidationError(REFUSALS[refusal.reason], refusal.reason) from None
        except forms.ValidationError:
            CAPTCHAS.labels("missing" if value in self.empty_values else "wrong").inc()
            raise
        return text


class GuardedLoginForm(LoginForm):
    """The login library's form. A challenged client's password is tried only once the captcha is
    solved; the limits of the login hold for it as for anybody."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.client = client_of(self.request)
        if is_challenged(self.client, now_ms()):
            self.fields["captcha"] = CaptchaField(self.client)

    def clean_captcha(self) -> str:
        """Return the solution; its client is verified, whatever else is wrong with the form."""
        verify(self.client)
        log_verified(self.request)
        CAPTCHAS.labels("solved").inc()
        solution: str = self.cleaned_data["captcha"]
        return solution

    def clean(self) -> Any:
        """Try the password. A form that is shown again asks for no captcha that has been solved."""
        if "captcha" in self.cleaned_data:
            del self.fields["captcha"]
        return super().clean()
