"""Forms of a rota and of its shifts. Times in UTC."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib.auth.models import User

from dashboard.core.fields import UtcTimeField
from dashboard.core.times import DAY_MS, unix_ms
from dashboard.notifications.channels import CHANNELS
from dashboard.notifications.models import MAX_TITLE, Rota

LONGEST_SHIFT_MS = 31 * DAY_MS
MOST_SHIFTS = 1_000
"""Most shifts of a rota that are not over."""


class RotaForm(forms.Form):
    """A rota: its name, and how who is on call is reached."""

    name = forms.CharField(max_length=MAX_TITLE, label="Name")
    kinds = forms.MultipleChoiceField(
        label="Reached by",
        widget=forms.CheckboxSelectMultiple,
        error_messages={"required": "Expected at least one way."},
    )

    def __init__(self, data: Any = None, row: Rota | None = None) -> None:
        initial = {"name": row.name, "kinds": row.kinds} if row else {"kinds": ["mail"]}
        super().__init__(data, initial=initial)
        self.row = row
        kinds = self.fields["kinds"]
        assert isinstance(kinds, forms.ChoiceField)
        kinds.choices = [
            (name, CHANNELS[name].label) for name in ("mail", "push") if name in CHANNELS
        ]

    def clean_name(self) -> str:
        """Return the name. Raises ValidationError where another rota has it."""
        name = str(self.cleaned_data["name"])
        others = Rota.objects.filter(retired_at=None, name=name)
        if others.exclude(pk=self.row.pk if self.row else 0).exists():
            raise forms.ValidationError("Expected a name that no other rota has.")
        return name


class ShiftForm(forms.Form):
    """A user's time on call."""

    who = forms.ModelChoiceField(User.objects.none(), label="Who")
    begins = UtcTimeField(label="From (UTC)")
    ends = UtcTimeField(label="Until (UTC)")
    override = forms.BooleanField(required=False, label="Override: stands before other shifts")

    def __init__(self, data: Any = None) -> None:
        super().__init__(data)
        who = self.fields["who"]
        assert isinstance(who, forms.ModelChoiceField)
        who.queryset = User.objects.filter(is_active=True).order_by("username")
        self.fields["begins"].required = self.fields["ends"].required = True

    def clean(self) -> dict[str, Any]:
        """Return the fields. An end not after the beginning, or too late, is an error of it."""
        data = super().clean() or self.cleaned_data
        begins, ends = unix_ms(data.get("begins")), unix_ms(data.get("ends"))
        if begins is not None and ends is not None and not 0 < ends - begins <= LONGEST_SHIFT_MS:
            self.add_error("ends", "Expected a time after From, within 31 days.")
        return data
