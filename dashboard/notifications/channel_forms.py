"""The form of a channel."""

from __future__ import annotations

from typing import Any

from django import forms

from dashboard.core.fields import SpanField
from dashboard.notifications.channels import CHANNELS, Kind
from dashboard.notifications.models import MAX_TITLE, Channel


def kind_choices() -> list[tuple[str, str]]:
    """Return the kinds of which a channel can be: those with an address, or a secret with one."""
    offered = (kind for kind in CHANNELS.values() if kind.address_label or kind.secret_label)
    return [(kind.name, kind.label) for kind in offered]


class ChannelForm(forms.Form):
    """A channel of a kind. A secret that is left empty stays as it is."""

    name = forms.CharField(max_length=MAX_TITLE, label="Name")
    address = forms.CharField(max_length=2_000, label="Address")
    secret = forms.CharField(
        max_length=2_000,
        required=False,
        label="Secret",
        # What was typed goes back to its form; the secret that is kept is never shown.
        widget=forms.PasswordInput(attrs={"autocomplete": "off"}, render_value=True),
    )
    most = forms.IntegerField(
        min_value=1, max_value=10_000, label="At most so many messages", initial=60
    )
    window = SpanField(label="In", initial="1h")
    enabled = forms.BooleanField(required=False, initial=True, label="Enabled")

    def __init__(self, kind: Kind, data: Any = None, row: Channel | None = None) -> None:
        super().__init__(data, initial=_initial(row) if row else None)
        self.kind, self.row = kind, row
        for name, label in (("address", kind.address_label), ("secret", kind.secret_label)):
            if label:
                self.fields[name].label = label
            else:
                del self.fields[name]
        if row and "secret" in self.fields:
            self.fields["secret"].help_text = f"Kept: {row.address}. Empty: it stays."
        elif "secret" in self.fields:
            self.fields["secret"].required = True

    def clean_name(self) -> str:
        """Return the name. Raises ValidationError where another channel has it."""
        name = str(self.cleaned_data["name"])
        others = Channel.objects.filter(retired_at=None, name=name)
        if others.exclude(pk=self.row.pk if self.row else 0).exists():
            raise forms.ValidationError("Expected a name that no other channel has.")
        return name

    def clean(self) -> dict[str, Any]:
        """Return the fields. What the kind finds wrong is an error of its field."""
        data = super().clean() or self.cleaned_data
        address, secret = data.get("address", ""), data.get("secret", "")
        unchanged = self.row is not None and not secret and "address" not in self.fields
        if self.errors or unchanged:
            return data
        if problem := self.kind.problem(address, secret or self.kind.new_secret()):
            field = "address" if "address" in self.fields else "secret"
            self.add_error(field, f"{problem[:1].upper()}{problem[1:]}")
        return data


def _initial(row: Channel) -> dict[str, Any]:
    names = ("name", "address", "most", "enabled")
    return {name: getattr(row, name) for name in names} | {"window": row.window_ms}
