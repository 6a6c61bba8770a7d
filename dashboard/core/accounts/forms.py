"""The forms for logins, one-time codes and API tokens."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import Any

from allauth.account.forms import LoginForm
from allauth.mfa.adapter import get_adapter
from allauth.mfa.base.forms import AuthenticateForm, BaseAuthenticateForm
from allauth.mfa.base.internal.flows import check_rate_limit
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.forms import ActivateTOTPForm
from allauth.mfa.totp.views import ActivateTOTPView
from django import forms
from django.db import transaction
from django.forms.widgets import Script
from django.http import HttpResponse

from dashboard.core.accounts.encryption import accepts, counter_of, use
from dashboard.core.accounts.login_guard import (
    CaptchaRefused,
    Reason,
    client_of,
    is_challenged,
    log_verified,
    new_challenge,
    redeem,
    verify,
)
from dashboard.core.accounts.tokens import SCOPES
from dashboard.core.common.access import Action
from dashboard.core.common.metrics import CAPTCHAS
from dashboard.core.common.times import now_ms

# ---- accounts ------------------------------------------------------------------------------------
# The form that creates an API token.

LIFETIMES = {"30": "30 days", "90": "90 days", "365": "one year", "never": "no end"}
"""The lifetimes that a token may have, by days."""

USUAL_LIFETIME = "90"


class TokenForm(forms.Form):
    """The purpose, scopes and lifetime of a token."""

    label = forms.CharField(
        required=False,
        max_length=100,
        label="Purpose",
        widget=forms.TextInput(attrs={"placeholder": "for example: deploy script"}),
    )
    scopes = forms.MultipleChoiceField(
        widget=forms.CheckboxSelectMultiple,
        initial=["read"],
        label="Scopes",
        error_messages={"required": "Expected at least one choice."},
    )
    days = forms.ChoiceField(
        required=False, choices=LIFETIMES, initial=USUAL_LIFETIME, label="Valid for"
    )

    def __init__(self, allowed: Collection[Action], data: Mapping[str, Any] | None = None) -> None:
        """Limit the scopes to `allowed`.

        allowed: the scopes of the user's role; a token may have any of them.
        """
        super().__init__(data, auto_id="%s")
        offered = [(scope, f"{scope}: {text}") for scope, text in SCOPES.items()]
        field = self.fields["scopes"]
        assert isinstance(field, forms.MultipleChoiceField)
        field.choices = [(scope, text) for scope, text in offered if scope in allowed]

    def clean_label(self) -> str:
        """Return the label, which must be printable: a character that reverses the direction of the
        line would mislead readers."""
        label: str = self.cleaned_data["label"]
        if not label.isprintable():
            raise forms.ValidationError("Expected printable characters.")
        return label

    def expires_at(self, now: datetime) -> datetime | None:
        """Return when the requested token expires, or None. The form must be valid."""
        days = self.cleaned_data["days"] or USUAL_LIFETIME
        return None if days == "never" else now + timedelta(days=int(days))


# ---- code forms ----------------------------------------------------------------------------------
# The forms for one-time codes, at the login and while setting up a second factor.


class OneTimeCodeForm(BaseAuthenticateForm):
    """Accepts a code of one of the user's factors, once."""

    def use_code(self, code: str) -> None:
        """Use up a code and store its factor in the form.

        Raises ValidationError if the code is wrong or already used.
        """
        factors = list(Authenticator.objects.filter(user=self.user).order_by("-type"))
        for factor in factors:
            if accepts(factor, code):
                factor.user = self.user
                self.authenticator = factor
                return
        if factors:
            self._emit_authentication_failed(factors[0])
        raise get_adapter().validation_error("incorrect_code")


class LoginCodeForm(OneTimeCodeForm, AuthenticateForm):
    """The code at the login."""

    def clean_code(self) -> str:
        """Return the code. Raises ValidationError if it is wrong, or after too many attempts."""
        forget_wrong_ones = check_rate_limit(self.user)
        code: str = self.cleaned_data["code"]
        self.use_code(code)
        forget_wrong_ones()
        return code


class SetUpCodeForm(ActivateTOTPForm):
    """The code that proves that the user's device has the secret. counter: of that code."""

    counter: int

    def clean_code(self) -> str:
        """Return the code. Raises ValidationError if it is wrong, or after too many attempts."""
        code: str = super().clean_code()
        counter = counter_of(self.secret, code)
        if counter is None:  # it expired just now
            raise get_adapter().validation_error("incorrect_code")
        self.counter = counter
        return code


class SetUpView(ActivateTOTPView):
    """Sets up a second factor. The code used for that does not work for a login."""

    @transaction.atomic
    def form_valid(self, form: SetUpCodeForm) -> HttpResponse:
        """Store the factor, and mark the code it was set up with as used."""
        response: HttpResponse = super().form_valid(form)
        factor = Authenticator.objects.get(user=self.request.user, type=Authenticator.Type.TOTP)
        use(factor, form.counter)
        return response


# ---- login guard ---------------------------------------------------------------------------------
# The login form, with a captcha for challenged clients.

REFUSALS: dict[Reason, str] = {
    "wrong": "The check of this browser has failed. It runs again: wait until it is done.",
    "expired": "The check of this browser has expired. It runs again: wait until it is done.",
    "replayed": "The check of this browser was used already. It runs again: wait until it is done.",
}
MISSING = "This browser has not been checked. Wait until the check is done, then log in."


class CaptchaWidget(forms.Widget):
    """A challenge that the browser solves by itself, and the status shown meanwhile."""

    template_name = "accounts/login_guard/captcha.html"

    class Media:
        js = (Script("js/account/captcha.js", type="module"),)

    def __init__(self, client: str) -> None:
        super().__init__()
        self.client = client

    def use_required_attribute(self, _initial: Any) -> bool:
        """Return False: users do not fill in the field."""
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
        """Return the solution, which is then used up. Raises ValidationError."""
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
    """Allauth's login form. For a challenged client the password is tried only once the captcha is
    solved; the rate limits of the login apply as they do to everybody."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.client = client_of(self.request)
        if is_challenged(self.client, now_ms()):
            self.fields["captcha"] = CaptchaField(self.client)

    def clean_captcha(self) -> str:
        """Return the solution, and verify the client, whatever else is wrong with the form."""
        verify(self.client)
        log_verified(self.request)
        CAPTCHAS.labels("solved").inc()
        solution: str = self.cleaned_data["captcha"]
        return solution

    def clean(self) -> Any:
        """Try the password. If the form is shown again, a solved captcha is not asked for again."""
        if "captcha" in self.cleaned_data:
            del self.fields["captcha"]
        return super().clean()
