"""Small marks of the dead letters' pages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django import template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from dashboard.dead_letters.byte_display import Run
from dashboard.dead_letters.models import FATES
from dashboard.dead_letters.queries import HOUR_MS, Bar, Wanted, moment_text

register = template.Library()
register.filter(moment_text)

CHART_HEIGHT = 60
BAR_WIDTH = 10


@register.simple_tag
def filtered(wanted: Wanted, **changes: Any) -> str:
    """The list's query with changes, from its first page."""
    return f"?{wanted.query(**changes)}"


@register.simple_tag
def hour_query(wanted: Wanted, bar: Bar) -> str:
    """The list's query for one hour of the histogram."""
    return filtered(wanted, start=moment_text(bar.start), end=moment_text(bar.start + HOUR_MS))


@register.simple_tag
def sort_header(wanted: Wanted, name: str, label: str, css: str = "") -> SafeString:
    """A column's head: a link that sorts by it, and the other way round when it does already."""
    down, by = wanted.sort.startswith("-"), wanted.sort.lstrip("-")
    here = by == name
    turned = not down if here else name in ("time", "size")
    state = format_html(' aria-sort="{}"', "descending" if down else "ascending") if here else ""
    return format_html(
        '<th scope="col" class="{}"{}><a class="sort" href="{}">{}{}</a></th>',
        css,
        state,
        filtered(wanted, sort=("-" if turned else "") + name),
        label,
        format_html('<span aria-hidden="true"> {}</span>', "▼" if down else "▲") if here else "",
    )


@register.simple_tag
def marked(parts: Iterable[Run]) -> SafeString:
    """Bytes as text: what is at fault is marked, what would not be seen is spelled out."""
    return format_html_join("", "{}", ((_run(part),) for part in parts))


def _run(part: Run) -> SafeString:
    inner = format_html('<span class="{}">{}</span>', part.kind, part.text) if part.kind else None
    text = inner if inner is not None else format_html("{}", part.text)
    return format_html('<mark class="fault">{}</mark>', text) if part.at_fault else text


@register.simple_tag
def bars(found: list[Bar]) -> SafeString:
    """The histogram's bars, for who sees them; the table beside tells the same."""
    return format_html_join(
        "",
        '<rect class="hour" x="{}" y="{}" width="{}" height="{}"></rect>',
        (
            (at * BAR_WIDTH, CHART_HEIGHT - _height(bar), BAR_WIDTH - 2, _height(bar))
            for at, bar in enumerate(found)
        ),
    )


@register.simple_tag
def chart_box(found: list[Bar]) -> str:
    """The histogram's viewBox."""
    return f"0 0 {len(found) * BAR_WIDTH} {CHART_HEIGHT}"


@register.filter
def fate_word(fate: str) -> str:
    """What a page calls a fate."""
    return FATES.get(fate, fate)


def _height(bar: Bar) -> int:
    return bar.height * CHART_HEIGHT // 100
