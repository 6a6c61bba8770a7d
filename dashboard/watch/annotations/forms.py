"""Forms of acknowledgements, notes and the handover."""

from __future__ import annotations

from typing import Any

from django import forms

from dashboard.core.common.forms import LocalTimeInput, typed_end
from dashboard.core.common.times import HOUR_MS, MINUTE_MS, exact_span
from dashboard.watch.annotations.acknowledgements import LONGEST_MS, MOST
from dashboard.watch.annotations.models import MAX_NOTE, MAX_TEXT, MAX_WHY
from domain.names import name_ok

QUICK = {"15m": 15 * MINUTE_MS, "1h": HOUR_MS}
"""Ends at one click, ms from now."""


class AckForm(forms.Form):
    """A form of an acknowledgement: until when, and what is being done. shift_ends: when the user's
    shift ends, Unix ms."""

    end = forms.ChoiceField(label="Until")
    until_at = forms.CharField(required=False, label="Time", max_length=40, widget=LocalTimeInput)
    zone = forms.CharField(required=False, max_length=64, widget=forms.HiddenInput)
    reason = forms.CharField(required=False, max_length=MAX_WHY, label="What you are doing")

    def __init__(self, now: int, shift_ends: int, data: Any = None, place: str = "ack") -> None:
        super().__init__(data, auto_id=f"{place}_%s", initial={"end": "1h"})
        self.now, self.shift_ends = now, shift_ends
        left_ms = (shift_ends - now) // MINUTE_MS * MINUTE_MS
        choice = self.fields["end"]
        assert isinstance(choice, forms.ChoiceField)
        choice.choices = [
            ("15m", "in 15 minutes"),
            ("1h", "in 1 hour"),
            ("shift", f"end of my shift, in {exact_span(left_ms)}"),
            ("at", "at a time"),
        ]

    def clean(self) -> dict[str, Any]:
        """Work out `until` (Unix ms)."""
        data = super().clean() or self.cleaned_data
        end = data.get("end", "")
        try:
            data["until"] = self._until(end, data)
        except forms.ValidationError as error:
            self.add_error("until_at", error)
        return data

    def _until(self, end: str, data: dict[str, Any]) -> int:
        if end in QUICK:
            return self.now + QUICK[end]
        if end != "at":
            return self.shift_ends
        until = typed_end(data.get("until_at", ""), data.get("zone", ""), self.now)
        if until > self.now + LONGEST_MS:
            raise forms.ValidationError("Expected a time within seven days.")
        return until


def assets_of(names: list[str]) -> list[str]:
    """Return the assets that a form names, each once. Raises ValidationError."""
    assets = list(dict.fromkeys(names))
    if not assets:
        raise forms.ValidationError("asset: expected at least one.")
    if len(assets) > MOST:
        raise forms.ValidationError(f"asset: expected at most {MOST}, got {len(assets)}.")
    if not all(map(name_ok, assets)):
        raise forms.ValidationError("asset: expected names of 1-255 printable characters.")
    return assets


class NoteForm(forms.Form):
    """A form of a note's text."""

    text = forms.CharField(
        max_length=MAX_NOTE,
        label="Note",
        widget=forms.Textarea(attrs={"rows": 3, "maxlength": MAX_NOTE}),
    )

    def __init__(self, data: Any = None, text: str = "", place: str = "note") -> None:
        super().__init__(data, auto_id=f"{place}_%s", initial={"text": text})


class HandoverForm(forms.Form):
    """A form of a text for the next shift."""

    text = forms.CharField(
        max_length=MAX_TEXT,
        label="Text",
        widget=forms.Textarea(attrs={"rows": 6, "maxlength": MAX_TEXT}),
    )

    def __init__(self, data: Any = None) -> None:
        super().__init__(data, auto_id="handover_%s")
