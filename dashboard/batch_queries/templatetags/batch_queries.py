"""Marks of the pages of batch queries."""

from __future__ import annotations

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

from dashboard.console.templatetags.console import lag
from dashboard.states.templatetags.board import icon

register = template.Library()


@register.simple_tag
def mark(word: str, shape: str, colour: str) -> SafeString:
    """Return a word that stands out, as icon, colour and word."""
    return format_html(
        '<span class="state sign c-{}">{}<span class="word">{}</span></span>',
        colour,
        icon(shape),
        word,
    )


@register.filter
def more(ms: int) -> str:
    """Return by how much longer or shorter: `+5 m 00 s`, `−0.8 s`, `the same`."""
    return f"{'+' if ms > 0 else '−'}{lag(abs(ms))}" if ms else "the same"


@register.filter
def more_of(number: int) -> str:
    """Return by how many more or fewer: `+12`, `−3`, `the same`."""
    return f"{'+' if number > 0 else '−'}{abs(number):,}" if number else "the same"
