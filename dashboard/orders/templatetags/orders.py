"""Times of an answer, as the page shows them."""

from __future__ import annotations

from django import template

register = template.Library()


@register.filter
def seconds(ms: int | None) -> str | None:
    """Return milliseconds as seconds with one decimal: `12.3`."""
    return None if ms is None else f"{ms / 1000:,.1f}"


@register.filter
def milliseconds(ms: float) -> str:
    """Return milliseconds with two decimals: `0.85`."""
    return f"{ms:,.2f}"
