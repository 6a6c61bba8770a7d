"""Marks of the pages of batch queries."""

from __future__ import annotations

from django import template

from dashboard.console.templatetags.console import lag

register = template.Library()


@register.filter
def more(ms: int) -> str:
    """Return by how much longer or shorter: `+5 m 00 s`, `−0.8 s`, `the same`."""
    return f"{'+' if ms > 0 else '−'}{lag(abs(ms))}" if ms else "the same"


@register.filter
def more_of(number: int) -> str:
    """Return by how many more or fewer: `+12`, `−3`, `the same`."""
    return f"{'+' if number > 0 else '−'}{abs(number):,}" if number else "the same"
