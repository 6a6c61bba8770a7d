"""What the pages of dead letters are given: a filter, an edited record, a reason, a choice."""

from __future__ import annotations

from typing import Any

from django import forms

from dashboard.core.fields import scenario_choices
from dashboard.core.filter_forms import PeriodForm
from dashboard.core.times import unix_ms
from dashboard.dead_letters.models import FATES, OPEN
from dashboard.dead_letters.queries import ORDERS, Wanted
from domain.records import LETTER_REASONS
from wire.source import MAX_RECORD

MAX_MANY = 1_000
"""Most letters that are dealt with at once."""
MAX_WHY = 500
ANY = "any"
"""Of a letter, whatever has become of it."""


class FilterForm(PeriodForm):
    """The filter, order and page in a URL. Times in UTC."""

    reason = forms.ChoiceField(required=False)
    scenario = forms.ChoiceField(required=False, label="Source")
    fate = forms.ChoiceField(required=False)
    q = forms.CharField(required=False, max_length=255, label="Asset or agent")
    sort = forms.ChoiceField(required=False, widget=forms.HiddenInput)
    after = forms.IntegerField(
        required=False, min_value=1, max_value=2**63 - 1, widget=forms.HiddenInput
    )

    field_order = ("reason", "scenario", "fate", "q")

    def __init__(self, data: Any) -> None:
        super().__init__(data)
        self.offer("reason", [("", "any"), *((each, each) for each in LETTER_REASONS)])
        self.offer("scenario", [("", "any"), *scenario_choices()])
        self.offer("fate", [*FATES.items(), (ANY, "any")])
        self.offer("sort", [(way + name, name) for name in ORDERS for way in ("", "-")])
        self.fields["q"].widget.attrs["type"] = "search"

    def wanted(self) -> Wanted:
        """Return the filter of a valid form."""
        data = self.cleaned_data
        return Wanted(
            reason=data["reason"],
            scenario=data["scenario"],
            q=data["q"].strip(),
            fate=data["fate"] or OPEN,
            start=unix_ms(data["start"]),
            end=unix_ms(data["end"]),
            sort=data["sort"] or "-time",
            after=data["after"],
        )


class RecordForm(forms.Form):
    """A record's key and value as they are to be sent."""

    key = forms.CharField(max_length=4_096, strip=False, label="Key: the asset", required=False)
    value = forms.CharField(
        max_length=MAX_RECORD,
        strip=False,
        required=False,
        widget=forms.Textarea(attrs={"rows": 12, "spellcheck": "false"}),
    )

    def record(self) -> tuple[bytes, bytes]:
        """Return the key and value of a valid form. A browser ends lines in its own way."""
        key = self.cleaned_data["key"].encode(errors="replace")
        value = self.cleaned_data["value"].replace("\r\n", "\n")
        return key, value.encode(errors="replace")


class WhyForm(forms.Form):
    """Why letters are discarded."""

    why = forms.CharField(max_length=MAX_WHY, label="Reason")


class ManyForm(forms.Form):
    """Which letters: their numbers, or all that a filter finds, the oldest first."""

    ids = forms.CharField(required=False, max_length=20 * MAX_MANY, widget=forms.HiddenInput)
    all = forms.BooleanField(required=False)

    def clean_ids(self) -> list[int]:
        """Return the numbers in ascending order. Raises ValidationError."""
        parts = [part for part in self.cleaned_data["ids"].split(",") if part]
        if len(parts) > MAX_MANY or not all(p.isascii() and p.isdigit() for p in parts):
            raise forms.ValidationError(f"ids: expected at most {MAX_MANY:,} numbers")
        return sorted({int(part) for part in parts if len(part) < 19})
