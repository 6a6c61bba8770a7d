"""The form that asks where an order is."""

from __future__ import annotations

from django import forms

from dashboard.core.filter_forms import FilterForm
from domain.names import MAX_NAME, name_ok


class WhereForm(FilterForm):
    """The order that is asked for; empty for none."""

    order = forms.CharField(required=False, max_length=MAX_NAME, label="Order")

    def clean_order(self) -> str:
        """Return the name. Raises ValidationError for one that no order can have."""
        order: str = self.cleaned_data["order"]
        if order and not name_ok(order):
            raise forms.ValidationError("Expected a name without control characters.")
        return order
