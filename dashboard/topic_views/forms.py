"""The filter of a view's rows."""

from __future__ import annotations

from django import forms

from dashboard.core.filter_forms import FilterForm
from dashboard.topic_views.expressions import MAX_EXPRESSION, BadExpression, expression
from dashboard.topic_views.filters import MAX_PATTERN, Wanted


class RowFilter(FilterForm):
    """The filter in the address."""

    key = forms.CharField(
        required=False,
        max_length=MAX_PATTERN,
        label="Key",
        strip=False,
        widget=forms.TextInput(attrs={"placeholder": "name-1*", "autocomplete": "off"}),
        help_text="A whole key; * stands for anything, ? for one character.",
    )
    # A field `matches` would hide the form's own method in the browser.
    expression = forms.CharField(
        required=False,
        max_length=MAX_EXPRESSION,
        label="Regular expression",
        strip=False,
        widget=forms.TextInput(attrs={"placeholder": "name-(1|2)[0-9]+", "autocomplete": "off"}),
        help_text="Of a whole key, as RE2 has them.",
    )
    not_empty = forms.BooleanField(required=False, label="Without empty values")
    after = forms.CharField(required=False, max_length=100_000, widget=forms.HiddenInput)

    PLACES = ("after",)

    def wanted(self) -> Wanted:
        """Return which rows are asked for. The form must be valid."""
        data = self.cleaned_data
        return Wanted(data["key"], data["not_empty"], data["expression"])

    def clean_expression(self) -> str:
        """Return the expression. Raises ValidationError."""
        text: str = self.cleaned_data["expression"]
        try:
            expression(text)
        except BadExpression as error:
            raise forms.ValidationError(f"Expected {error}.") from None
        return text

    def clean_after(self) -> bytes | None:
        """Return the key after which the page begins. Raises ValidationError."""
        text = self.cleaned_data["after"]
        try:
            return bytes.fromhex(text) if text else None
        except ValueError:
            raise forms.ValidationError("Expected a page of this list.") from None
