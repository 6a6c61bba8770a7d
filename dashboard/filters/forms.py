"""The form that saves a filter."""

from __future__ import annotations

from typing import Any

from django import forms

from dashboard.filter_language.parser import MAX_TEXT
from dashboard.filters.models import MAX_TITLE


class SaveForm(forms.Form):
    """A form of a filter's name and text; `saved_filters` judges both."""

    scenario = forms.CharField(widget=forms.HiddenInput)
    title = forms.CharField(
        required=False,
        label="Name",
        widget=forms.TextInput(
            attrs={"required": True, "maxlength": MAX_TITLE, "autocomplete": "off"}
        ),
    )
    q = forms.CharField(
        required=False,
        label="Filter",
        widget=forms.TextInput(
            attrs={"maxlength": MAX_TEXT, "autocomplete": "off", "spellcheck": "false"}
        ),
    )
    shared = forms.BooleanField(required=False, label="Share it with everybody")
    default = forms.BooleanField(required=False, label="Show it when I open this board")

    def __init__(self, data: Any, error: Exception, field: str) -> None:
        """Show what was typed. error: what is wrong with it; field: of what."""
        super().__init__(data, auto_id="%s")
        self.add_error(field, f"{error}.")
