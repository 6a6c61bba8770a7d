"""An asset's labels on its page, and those of a row."""

from __future__ import annotations

from typing import Any

from django import template
from django.http import HttpRequest
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from dashboard.core.bidi import isolated
from dashboard.core.roles import may
from dashboard.filter_language.addresses import board_url
from dashboard.filter_language.terms import quoted
from dashboard.labels.models import Label
from dashboard.labels.queries import keys
from domain.scenario import Scenario

register = template.Library()


def labels_context(request: HttpRequest, scenario: Scenario, asset: str) -> dict[str, Any]:
    """Return the context of `labels/_asset.html`."""
    rows = Label.objects.filter(scenario=scenario.name, asset=asset).order_by("key", "source")
    every = list(rows)
    hidden = {row.key: row for row in every if not row.shown}
    shown = [
        {
            "is": row,
            "person": row.source == "person",
            "beneath": hidden.get(row.key),
            "address": board_url(scenario.name, f"{row.key}:{quoted(row.value)}"),
        }
        for row in every
        if row.shown
    ]
    return {
        "request": request,
        "scenario": scenario,
        "asset": asset,
        "labels": shown,
        "known": keys(scenario.name),
        "may_label": may(request.user, "command"),
    }


@register.inclusion_tag("labels/_asset.html", takes_context=True)
def asset_labels(context: dict[str, Any], scenario: Scenario, asset: str) -> dict[str, Any]:
    """Return the context of the section of an asset's labels, with its form."""
    return labels_context(context["request"], scenario, asset)


@register.simple_tag
def row_labels(row: dict[str, Any]) -> SafeString:
    """Return the labels of a row of the board. `static/js/board/badges.js` makes the same."""
    pairs = row.get("labels") or []
    if not pairs:
        return mark_safe("")
    chips = format_html_join(
        "",
        '<span class="label-chip" title="{}: {}"><span class="key">{}</span><bdi>{}</bdi></span>',
        ((key, isolated(value), key, value) for key, value in pairs),
    )
    return format_html('<span class="labels">{}</span>', chips)
