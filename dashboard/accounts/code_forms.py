"""The forms of one-time codes: at the login, and where a second factor is set up."""

from __future__ import annotations

from allauth.mfa.adapter import get_adapter
from allauth.mfa.base.forms import AuthenticateForm, BaseAuthenticateForm
from allauth.mfa.base.internal.flows import check_rate_limit
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.forms import ActivateTOTPForm
from allauth.mfa.totp.views import ActivateTOTPView
from django.db import transaction
from django.http import HttpResponse

from dashboard.accounts.one_time_codes import accepts, counter_of, use


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
