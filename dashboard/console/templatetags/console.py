"""What the pages of the console share: figures as text, and what stands out as marks."""

from __future__ import annotations

from typing import Literal

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

from dashboard.core.navigation import Place, places
from dashboard.core.roles import Role
from dashboard.core.times import duration, span
from dashboard.job.throughput import Sign, Trend
from dashboard.states.templatetags.board import icon, mark

register = template.Library()

NOTHING = "–"
"""What is shown where something is not known."""

SIGNS: dict[Sign, tuple[str, str, str]] = {
    "unknown": ("question", "grey", "no heartbeat has come from here yet"),
    "silent": ("off", "red", "no heartbeat for five seconds or more"),
    "ahead": ("warning", "red", "its clock is ahead of the job's own: no time passes until then"),
    "behind": ("warning", "amber", "its clock is ten seconds or more behind"),
    "hot": ("flame", "orange", "twice its even share of the scenario's load, or more"),
    "idle": ("ring", "grey", "nothing but ticks in the last minute"),
    "well": ("check", "green", "nothing unusual"),
}
"""By sign: its icon, its colour and what it means."""

TRENDS: dict[Trend, tuple[str, str]] = {
    "rising": ("arrow-up", "red"),
    "falling": ("arrow-down", "green"),
}


@register.simple_tag
def console_places(role: Role | None) -> list[tuple[str, list[Place]]]:
    """Return the console's pages that `role` may open, by group."""
    return places(role)


Unknown = Literal[""] | None
"""What a template gives for a part of what is None."""


@register.filter
def figure(value: int | Unknown) -> str:
    """Return a whole number in groups of three digits: `12,345`."""
    return NOTHING if value is None or value == "" else f"{value:,}"


@register.filter
def rate(value: float | Unknown) -> str:
    """Return a number per second as text: `0.4`, `12.3`, `1,234`."""
    if value is None or value == "":
        return NOTHING
    return f"{value:.1f}" if value < 100 else f"{value:,.0f}"


@register.filter
def lag(ms: int | None) -> str:
    """Return a lag in ms as text: `0.8 s` below ten seconds, then as durations are."""
    if ms is None:
        return NOTHING
    return f"{ms / 1000:.1f} s" if ms < 10_000 else duration(ms)


register.filter(span)


@register.filter
def share(value: float | None) -> str:
    """Return a multiple of the even share as text: `1.3 ×`."""
    return NOTHING if value is None else f"{value:.1f} ×"


@register.filter
def raw(value: float | Unknown) -> str:
    """Return a number as tables sort by it; empty where it is not known."""
    return "" if value is None else str(value)


@register.simple_tag
def sign(name: Sign, count: int | None = None) -> SafeString:
    """Return what stands out, as icon, colour and word. count: in how many partitions."""
    shape, colour, meaning = SIGNS[name]
    words = name if count is None else f"{count} {name}"
    return mark(words, shape, colour, meaning, "sign calm" if name == "well" else "")


@register.simple_tag
def trend(name: Trend | None) -> SafeString | str:
    """Return a mark for a lag that grows or shrinks; empty where it does neither."""
    if name not in TRENDS:
        return ""
    shape, colour = TRENDS[name]
    return format_html('<span class="trend c-{}">{}{}</span>', colour, icon(shape), name)
