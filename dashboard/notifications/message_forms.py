"""The filter of messages."""

from __future__ import annotations

import uuid
from typing import Any

from django import forms

from dashboard.core.filter_forms import PeriodForm
from dashboard.core.times import unix_ms
from dashboard.notifications.message_list import ALL_KINDS, Wanted, place_of
from dashboard.notifications.models import STATUSES, Rule
from domain.names import MAX_NAME


class MessageFilter(PeriodForm):
    """The filter in the address. Times in UTC."""

    status = forms.ChoiceField(required=False)
    kind = forms.ChoiceField(required=False)
    rule = forms.ChoiceField(required=False)
    q = forms.CharField(required=False, max_length=MAX_NAME, label="Part of subject or recipient")
    group = forms.CharField(required=False, max_length=32, widget=forms.HiddenInput)
    before = forms.CharField(required=False, max_length=60, widget=forms.HiddenInput)

    PLACES = ("before",)
    field_order = ("status", "kind", "rule", "q")

    def __init__(self, data: Any) -> None:
        super().__init__(data)
        self.offer("status", [("", "all"), *STATUSES.items()])
        self.offer("kind", [("", "all"), *((name, name) for name in ALL_KINDS)])
        rules = Rule.objects.order_by("name").values_list("pk", "name")
        self.offer("rule", [("", "all"), *((str(number), name) for number, name in rules)])

    def clean_before(self) -> tuple[int, uuid.UUID] | None:
        """Return after which message the page begins. Raises ValidationError."""
        text = self.cleaned_data["before"]
        try:
            return place_of(text) if text else None
        except ValueError:
            raise forms.ValidationError("Expected the place of a message.") from None

    def wanted(self) -> Wanted:
        """Return the filter of a valid form."""
        data = self.cleaned_data
        return Wanted(
            data["status"],
            data["kind"],
            int(data["rule"]) if data["rule"] else None,
            data["q"],
            unix_ms(data["start"]),
            unix_ms(data["end"]),
            data["group"],
        )
