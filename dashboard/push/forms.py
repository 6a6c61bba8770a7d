"""How a user is reached: by a mail address, by browsers."""

from __future__ import annotations

from typing import Any

from django import forms

from dashboard.core.outbound import Refused, check
from dashboard.push.delivery import key_is_one
from dashboard.push.models import MAX_ENDPOINT


class MailForm(forms.Form):
    """The mail address that a user is reached at; empty for none."""

    email = forms.EmailField(
        required=False,
        max_length=254,
        label="Mail address",
        error_messages={"invalid": "Expected an address such as olga@example.org."},
    )


class SubscriptionForm(forms.Form):
    """A subscription as the browser's script fills it in."""

    endpoint = forms.CharField(max_length=MAX_ENDPOINT, widget=forms.HiddenInput)
    p256dh = forms.CharField(max_length=100, widget=forms.HiddenInput)
    auth = forms.CharField(max_length=40, widget=forms.HiddenInput)

    def clean_endpoint(self) -> str:
        """Return the push service's address. Raises ValidationError for what is none."""
        endpoint = str(self.cleaned_data["endpoint"])
        try:
            check(endpoint)
        except Refused as why:
            raise forms.ValidationError(str(why)) from None
        return endpoint

    def clean(self) -> dict[str, Any]:
        """Return the fields. Keys that nothing can be encrypted with are an error of the form."""
        data = super().clean() or self.cleaned_data
        if not self.errors and not key_is_one(data["p256dh"], data["auth"]):
            raise forms.ValidationError("Expected the keys that the browser made.")
        return data
