"""Template tags of the scenario pages."""

from __future__ import annotations

from django import template
from django.forms.boundfield import BoundField
from django.utils.safestring import SafeString

from dashboard.core.states.templatetags.board import mark

register = template.Library()

MARKS = {
    "in force": ("check", "green"),
    "not in force yet": ("clock", "amber"),
    "another rule": ("triangle", "amber"),
    "not in the log": ("clock", "amber"),
    "unknown": ("ring", "grey"),
    "look": ("triangle", "amber"),
    "changed": ("diamond", "violet"),
    "changes": ("diamond", "violet"),
}
"""The icon and colour for each word."""


@register.simple_tag
def rule_mark(word: str) -> SafeString:
    """Return a rule's status as icon, colour and word."""
    return mark(word, *MARKS[word])


@register.simple_tag
def named_field(field: BoundField) -> SafeString:
    """Return a field with a label for screen readers only, as its row and column name it."""
    return field.as_widget(attrs={"aria-label": str(field.label)})
