"""The forms of the login, of one-time codes and of API tokens."""

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
# The form that makes an API token.

LIFETIMES = {"30": "30 days", "90": "90 days", "365": "one year", "never": "no end"}
"""How long a token may be good for, in days."""

USUAL_LIFETIME = "90"


class TokenForm(forms.Form):
    """A form for the purpose, the scopes and the lifetime of a token."""

    label = forms.CharField(
        required=False,
        max_length=100,
        label="Purpose of the new token",
        widget=forms.TextInput(attrs={"placeholder": "for example: deploy script"}),
    )
    scopes = forms.MultipleChoiceField(
        widget=forms.CheckboxSelectMultiple,
        initial=["read"],
        label="What it may be used for",
        error_messages={"required": "Expected at least one choice."},
    )
    days = forms.ChoiceField(
        required=False, choices=LIFETIMES, initial=USUAL_LIFETIME, label="How long it is good for"
    )

    def __init__(self, allowed: Collection[Action], data: Mapping[str, Any] | None = None) -> None:
        """Limit the scopes to `allowed`.

        allowed: those of the user's role, of which a token may have a part.
        """
        super().__init__(data, auto_id="%s")
        offered = [(scope, f"{scope}: {text}") for scope, text in SCOPES.items()]
        field = self.fields["scopes"]
        assert isinstance(field, forms.MultipleChoiceField)
        field.choices = [(scope, text) for scope, text in offered if scope in allowed]

    def clean_label(self) -> str:
        """Return the label, of printable characters alone: a name that turns the line around
        misleads its reader."""
        label: str = self.cleaned_data["label"]
        if not label.isprintable():
            raise forms.ValidationError("Expected printable characters.")
        return label

    def expires_at(self, now: datetime) -> datetime | None:
        """Return when the token that the valid form requests ends."""
        days = self.cleaned_data["days"] or USUAL_LIFETIME
        return None if days == "never" else now + timedelta(days=int(days))


# ---- code forms ----------------------------------------------------------------------------------
# The forms of one-time codes: at the login, and where a second factor is set up.


class OneTimeCodeForm(BaseAuthenticateForm):
    """A form that takes a code of one of the user's factors, once."""

    def use_code(self, code: str) -> None:
        """Use a code, and keep the factor it is of. Raises ValidationError for one that does not
        count, or not any more."""
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
    """A code at the login."""

    def clean_code(self) -> str:
        """Return the code. Raises ValidationError for a wrong one, and after too many."""
        forget_wrong_ones = check_rate_limit(self.user)
        code: str = self.cleaned_data["code"]
        self.use_code(code)
        forget_wrong_ones()
        return code


class SetUpCodeForm(ActivateTOTPForm):
    """The code that shows that the user's device has the secret. counter: of the code."""

    counter: int

    def clean_code(self) -> str:
        """Return the code. Raises ValidationError for a wrong one, and after too many."""
        code: str = super().clean_code()
        counter = counter_of(self.secret, code)
        if counter is None:  # its time ended just now
            raise get_adapter().validation_error("incorrect_code")
        self.counter = counter
        return code


class SetUpView(ActivateTOTPView):
    """The page that sets a second factor up. The code that it takes does not log in."""

    @transaction.atomic
    def form_valid(self, form: SetUpCodeForm) -> HttpResponse:
        """Store the factor, with the code that it was set up with as a used one."""
        response: HttpResponse = super().form_valid(form)
        factor = Authenticator.objects.get(user=self.request.user, type=Authenticator.Type.TOTP)
        use(factor, form.counter)
        return response


# ---- login guard ---------------------------------------------------------------------------------
# The login form, with a captcha for a client that is challenged.

REFUSALS: dict[Reason, str] = {
    "wrong": "The check of this browser has failed. It runs once more: wait for its end.",
    "expired": "The check of this browser was too long ago. It runs once more: wait for its end.",
    "replayed": "The check of this browser counted before. It runs once more: wait for its end.",
}
MISSING = "This browser has not been checked. Wait for the end of the check, then log in."


class CaptchaWidget(forms.Widget):
    """A challenge that the browser solves by itself, and what it says of that."""

    template_name = "accounts/login_guard/captcha.html"

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
