"""Template filters for the pages of requests to the job."""

from __future__ import annotations

from django import template

from dashboard.core.common.times import duration
from dashboard.operate.console.templatetags.console import lag

# ---- batch queries -------------------------------------------------------------------------------
# Filters for the batch query pages.

register = template.Library()


@register.filter
def more(ms: int) -> str:
    """Return a difference of durations: `+5 m 00 s`, `−0.8 s`, `the same`."""
    return f"{'+' if ms > 0 else '−'}{lag(abs(ms))}" if ms else "the same"


@register.filter
def more_of(number: int) -> str:
    """Return a difference of counts: `+12`, `−3`, `the same`."""
    return f"{'+' if number > 0 else '−'}{abs(number):,}" if number else "the same"


# ---- replays -------------------------------------------------------------------------------------
# Filters for the replays page.


@register.filter
def part(value: float) -> str:
    """Return a duration given in seconds: `< 1 s`, or the usual form from 1 s on."""
    return "< 1 s" if value < 1 else duration(int(value * 1000))


@register.filter
def seconds(value: float) -> str:
    """Return an estimated duration, given in seconds: `in about 21 s`."""
    return f"in about {duration(int(value * 1000))}"
