"""Marks of the pages of bulk."""

from __future__ import annotations

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

from dashboard.core.common.times import moment
from dashboard.core.states.templatetags.board import mark
from dashboard.watch.bulk.models import (
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
from dashboard.watch.commands.forms import words_of
from domain.records import Schedule

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
"""Icon and colour of each outcome."""


@register.simple_tag
def outcome(run: Run, item: Item) -> SafeString:
    """Return the outcome of an asset as icon, colour and word."""
    return mark(run.outcome_text(item.outcome), *MARKS[item.outcome])


@register.simple_tag
def pin_words(run: Run, item: Item, now: int) -> SafeString:
    """Return how an asset is pinned: to what, by whom, until when, why."""
    pin, scenario = item.pinned, run.configured_scenario
    if pin is None:
        return SafeString("")
    label = scenario.spec(pin.state).label if scenario else pin.state
    end = format_html("until {}", moment(pin.until, now)) if pin.until else "no end"
    return format_html(
        "pinned {} by <bdi>{}</bdi>, {}: “<bdi>{}</bdi>”", label, item.pinned_by, end, pin.reason
    )


@register.filter
def schedule_words(run: Run) -> str:
    """Return the schedule of a run in words."""
    return words_of(Schedule(**run.schedule), run.until)
