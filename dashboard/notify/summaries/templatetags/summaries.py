"""Template tags for the figures of summaries."""

from __future__ import annotations

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

from dashboard.core.common.times import iso_second, utc
from dashboard.core.states.templatetags.board import icon, or_none
from dashboard.notify.summaries import phrases
from dashboard.notify.summaries.phrases import FigureTrend

register = template.Library()
register.filter(phrases.percent)
register.filter("length_of", phrases.length)
register.filter(phrases.exact)
register.simple_tag(phrases.observed)


@register.simple_tag
def utc_time(at: int) -> SafeString:
    """Return a time that is shown in UTC, while the days of a summary are in their own zone."""
    return format_html('<time datetime="{}">{}</time>', iso_second(at), utc(at))


@register.simple_tag
def utc_cell(at: int | None, missing: str) -> SafeString:
    """Return a cell that shows a time in UTC."""
    shown = utc_time(at) if at else or_none("", missing)
    return format_html('<td data-value="{}">{}</td>', at or "", shown)


COLOURS = {"better": "green", "worse": "red"}


@register.simple_tag
def change(of: FigureTrend | None) -> SafeString:
    """Return how a figure differs from the period before: arrow, words, and whether it is better.

    Empty if there is nothing to compare with.
    """
    if of is None:
        return SafeString("")
    colour = COLOURS.get(of.verdict, "grey")
    verdict = format_html(", <em>{}</em>", of.verdict) if of.verdict in COLOURS else ""
    arrow = icon(of.arrow) if of.arrow else ""
    return format_html(
        '<span class="change c-{}">{}<span>{}{}</span></span>', colour, arrow, of.words, verdict
    )
