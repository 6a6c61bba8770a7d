"""The form that makes an API token."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import Any

from django import forms

from dashboard.accounts.tokens import SCOPES
from dashboard.core.roles import Action

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
