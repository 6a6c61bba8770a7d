"""Template tags and filters for the dead letter pages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django import template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from dashboard.core.common.times import field_text
from dashboard.core.states.filter_terms import quoted
from dashboard.operate.dead_letters.diagnosis import ADVICE, TextRun
from dashboard.operate.dead_letters.queries import HOUR_MS, HistogramBar, LetterFilter

register = template.Library()

CHART_HEIGHT = 60
BAR_WIDTH = 10


@register.filter
def means(reason: str) -> str:
    """Return the meaning of a reason as a sentence; empty for an unknown reason."""
    return ADVICE[reason].means if reason in ADVICE else ""


@register.inclusion_tag("dead_letters/_counts.html")
def letter_counts(
    criteria: LetterFilter, part: str, counts: Iterable[tuple[str, int]]
) -> dict[str, Any]:
    """Return links with counts for the values that one key of the filter can have."""
    chosen = criteria.asked.value(part)
    items = [
        (value, n, f"?{criteria.changed(part, quoted(value))}", value == chosen)
        for value, n in counts
    ]
    return {"part": part, "items": items}


@register.simple_tag
def hour_query(criteria: LetterFilter, bar: HistogramBar) -> str:
    """Return the list's query string for one hour of the histogram."""
    begin, end = field_text(bar.start), field_text(bar.start + HOUR_MS)
    return f"?{criteria.changed('time', f'>{begin}', f'<{end}')}"


@register.simple_tag
def marked(parts: Iterable[TextRun]) -> SafeString:
    """Return bytes as text, with faults marked and invisible characters spelled out."""
    return format_html_join("", "{}", ((_run(part),) for part in parts))


def _run(part: TextRun) -> SafeString:
    inner = format_html('<span class="{}">{}</span>', part.kind, part.text) if part.kind else None
    text = inner if inner is not None else format_html("{}", part.text)
    return format_html('<mark class="fault">{}</mark>', text) if part.at_fault else text


@register.simple_tag
def bars(histogram: list[HistogramBar]) -> SafeString:
    """Return the histogram's bars; the table has the same figures for those who cannot see them."""
    return format_html_join(
        "",
        '<rect class="hour" x="{}" y="{}" width="{}" height="{}"></rect>',
        (
            (at * BAR_WIDTH, CHART_HEIGHT - _height(bar), BAR_WIDTH - 2, _height(bar))
            for at, bar in enumerate(histogram)
        ),
    )


@register.simple_tag
def chart_box(histogram: list[HistogramBar]) -> str:
    """Return the histogram's viewBox."""
    return f"0 0 {len(histogram) * BAR_WIDTH} {CHART_HEIGHT}"


def _height(bar: HistogramBar) -> int:
    return bar.height * CHART_HEIGHT // 100
