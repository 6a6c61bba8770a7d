"""Marks of the pages of bulk."""

from __future__ import annotations

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

from dashboard.bulk.models import (
    APPLIED,
    LEFT,
    NO_CHANGE,
    READY,
    REFUSED,
    SENDING,
    SENT,
    SKIPPED,
    UNSENT,
    Item,
    Run,
)
from dashboard.bulk.pins import pin_of
from dashboard.bulk.run_progress import RunProgress
from dashboard.core.bidi import isolated
from dashboard.core.scenarios import scenarios
from dashboard.core.times import duration, moment
from dashboard.states.board_rows import asset_path
from dashboard.states.templatetags.board import icon

register = template.Library()

MARKS = {
    READY: ("ring", "grey"),
    SENDING: ("clock", "blue"),
    SENT: ("clock", "blue"),
    APPLIED: ("check", "green"),
    NO_CHANGE: ("circle", "grey"),
    REFUSED: ("warning", "amber"),
    UNSENT: ("cross", "red"),
    LEFT: ("off", "grey"),
    SKIPPED: ("ring", "grey"),
}
"""Icon and colour of each fate."""


@register.simple_tag
def fate(progress: RunProgress, item: Item) -> SafeString:
    """Return what became of an asset, as icon, colour and word."""
    shape, colour = MARKS[item.fate]
    return format_html(
        '<span class="state c-{}">{}<span class="word">{}</span></span>',
        colour,
        icon(shape),
        progress.word(item.fate),
    )


@register.simple_tag
def asset_link(run: Run, item: Item) -> SafeString:
    """Return an asset's name as a link to its page."""
    return format_html(
        '<a class="asset-name" href="{}" title="{}"><bdi>{}</bdi></a>',
        asset_path(run.scenario, item.asset),
        isolated(item.asset),
        item.asset,
    )


@register.simple_tag
def pin_words(run: Run, item: Item, now: int) -> SafeString:
    """Return how an asset is pinned: to what, by whom, until when, why."""
    pin, scenario = pin_of(item), scenarios().get(run.scenario)
    if pin is None:
        return SafeString("")
    label = scenario.spec(pin.state).label if scenario else pin.state
    end = format_html("until {}", moment(pin.until, now)) if pin.until else "no end"
    return format_html(
        "pinned {} by <bdi>{}</bdi>, {}: “<bdi>{}</bdi>”", label, item.pinned_by, end, pin.reason
    )


@register.simple_tag
def took(run: Run) -> str:
    """Return how long a run took from its start to its end."""
    return duration((run.ended_at or 0) - (run.started_at or 0))
