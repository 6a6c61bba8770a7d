"""Marks of the pages of requests to the job."""

from __future__ import annotations

from django import template

from dashboard.core.common.times import duration
from dashboard.operate.console.templatetags.console import lag

# ---- batch queries -------------------------------------------------------------------------------
# Marks of the pages of batch queries.

register = template.Library()


@register.filter
def more(ms: int) -> str:
    """Return by how much longer or shorter: `+5 m 00 s`, `−0.8 s`, `the same`."""
    return f"{'+' if ms > 0 else '−'}{lag(abs(ms))}" if ms else "the same"


@register.filter
def more_of(number: int) -> str:
    """Return by how many more or fewer: `+12`, `−3`, `the same`."""
    return f"{'+' if number > 0 else '−'}{abs(number):,}" if number else "the same"


# ---- replays -------------------------------------------------------------------------------------
# Marks of the page of replays.


@register.filter
def part(value: float) -> str:
    """Return a part of that: `< 1 s`, then as durations are."""
    return "< 1 s" if value < 1 else duration(int(value * 1000))


@register.filter
def seconds(value: float) -> str:
    """Return a duration that is estimated: `in about 21 s`."""
    return f"in about {duration(int(value * 1000))}"
