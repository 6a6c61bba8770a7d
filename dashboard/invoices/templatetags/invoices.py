"""Amounts as the page of invoices shows them."""

from __future__ import annotations

from django import template

from dashboard.invoices.figures import money
from dashboard.states.templatetags.tables import MISSING
from dashboard.summaries.phrases import whole_percent

register = template.Library()
register.filter(money)


@register.filter
def share(part: float | None) -> str:
    """Return a share as a whole percentage, `49 %`."""
    return MISSING if part is None else whole_percent(part)
