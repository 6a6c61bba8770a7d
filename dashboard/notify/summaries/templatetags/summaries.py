"""Template tags for the figures of summaries."""

from __future__ import annotations

from zoneinfo import ZoneInfo

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

from dashboard.core.common.times import iso_second, zoned
from dashboard.core.states.templatetags.board import icon
from dashboard.notify.summaries import phrases
from dashboard.notify.summaries.phrases import FigureTrend

register = template.Library()
register.filter(phrases.percent)
register.filter("length_of", phrases.length)
register.filter(phrases.exact)
register.simple_tag(phrases.observed)


@register.simple_tag
def zone_time(at: int, zone: ZoneInfo) -> SafeString:
    """Return a time (Unix ms) in the zone of a summary."""
    return format_html('<time datetime="{}">{}</time>', iso_second(at), zoned(at, zone))


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
