"""Template filters for durations and amounts."""

from __future__ import annotations

from django import template

from dashboard.core.common.text import whole_percent
from dashboard.core.states.templatetags.board import MISSING
from dashboard.retail.views import money

# ---- orders --------------------------------------------------------------------------------------
# Response times, as the page shows them.

register = template.Library()


@register.filter
def seconds(ms: int | None) -> str | None:
    """Return milliseconds as seconds with one decimal: `12.3`."""
    return None if ms is None else f"{ms / 1000:,.1f}"


@register.filter
def milliseconds(ms: float) -> str:
    """Return milliseconds with two decimals: `0.85`."""
    return f"{ms:,.2f}"


# ---- invoices ------------------------------------------------------------------------------------
# Amounts, as the page of invoices shows them.

register.filter(money)


@register.filter
def share(part: float | None) -> str:
    """Return a share as a whole percentage, `49 %`."""
    return MISSING if part is None else whole_percent(part)
