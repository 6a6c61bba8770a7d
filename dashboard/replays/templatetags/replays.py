"""Marks of the page of replays."""

from __future__ import annotations

from django import template

from dashboard.core.times import duration

register = template.Library()


@register.filter
def part(value: float) -> str:
    """Return a part of that: `< 1 s`, then as durations are."""
    return "< 1 s" if value < 1 else duration(int(value * 1000))


@register.filter
def seconds(value: float) -> str:
    """Return a duration that is estimated: `in about 21 s`."""
    return f"in about {duration(int(value * 1000))}"
