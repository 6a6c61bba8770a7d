"""Marks of acknowledgements, notes and labels on asset pages and rows."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from django import template
from django.contrib.auth.models import User
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from dashboard.core.common.access import may
from dashboard.core.common.navigation import agent_path
from dashboard.core.common.scenarios import dependencies, scenarios
from dashboard.core.common.text import isolated
from dashboard.core.common.times import until
from dashboard.core.states.board_rows import asset_path
from dashboard.core.states.filter_parser import board_url
from dashboard.core.states.filter_terms import quoted
from dashboard.core.states.models import AssetState
from dashboard.core.states.templatetags.board import icon, name_link, state
from dashboard.watch.annotations.acknowledgements import shift_ends
from dashboard.watch.annotations.forms import AckForm, NoteForm
from dashboard.watch.annotations.labels import causes_of, keys, labels_of
from dashboard.watch.annotations.models import NUMBER, Acknowledgement, Label, Note
from dashboard.watch.annotations.row_marks import NO_HAND, RowMark, calm_of, in_force
from dashboard.watch.annotations.views import forms_of
from domain.scenario import Scenario
from wire.sink import StateValue

# ---- annotations ---------------------------------------------------------------------------------
# Marks of acknowledgements and notes on asset pages and rows.

register = template.Library()

LISTED = 30
"""Most notes that an asset's page lists."""

_LINK = re.compile(r"https?://[^\s<>\"'`\\\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]+")
_TAIL = re.compile(r"[.,;:!?)\]}]+\Z")


@register.filter
def agent_url(agent: str, scenario: str) -> str:
    """Return the address of an agent's page."""
    return agent_path(scenario, agent)


@register.simple_tag
def row_marks(
    scenario: Scenario, row: dict[str, Any], known: Mapping[str, RowMark], now: int
) -> SafeString:
    """Return who has it in hand, its maintenance, its notes and its incident, as
    `js/board/badges.js` does."""
    mark = known.get(row["asset"])
    if mark is None:
        return mark_safe("")
    badges = []
    if in_force(mark.ack, row["severity"], calm_of(scenario), now):
        assert mark.ack is not None
        badges.append(_ack(mark))
    if mark.works(now):
        badges.append(_work(mark, now))
    if mark.notes:
        words = "1 note" if mark.notes == 1 else f"{mark.notes} notes"
        badges.append(
            format_html(
                '<span class="badge notes" title="{}">{}<span class="n">{}</span>'
                '<span class="visually-hidden"> {}</span></span>',
                words,
                icon("note"),
                mark.notes,
                "note" if mark.notes == 1 else "notes",
            )
        )
    if mark.case is not None:
        badges.append(case_link(mark.case, on_board=True))
    return format_html_join("", "{}", ((badge,) for badge in badges))


@register.simple_tag
def row_behind(row: dict[str, Any], causes: Mapping[str, str]) -> SafeString:
    """Return what a row lies behind, where that is not well. causes: the states of what is not, by
    name. `static/js/board/badges.js` makes the same."""
    name = row.get("behind", "")
    if not causes or name not in causes:
        return mark_safe("")
    return format_html(
        '<span class="badge behind" title="lies behind {}, which is {}">{}'
        '<span class="word">behind </span><bdi class="said">{}</bdi></span>',
        isolated(name),
        isolated(causes[name]),
        icon("behind"),
        name,
    )


@register.simple_tag
def row_handled(
    scenario: Scenario, row: dict[str, Any], known: Mapping[str, RowMark], now: int
) -> str:
    """Return the class of an alarming row, handled or not, after a space; of others nothing."""
    mark = known.get(row["asset"])
    hand = mark.hand(scenario, row["state"], now) if mark is not None else NO_HAND
    if not row["alarming"]:
        return ""
    return " is-handled" if hand.holds else " is-unhandled"


@register.simple_tag
def case_link(number: int, on_board: bool = False) -> SafeString:
    """Return the link to the incident of this number. on_board: where the key `i` follows it."""
    return format_html(
        '<a class="case"{} href="{}">{}{}</a>',
        mark_safe(' tabindex="-1"') if on_board else "",
        reverse("incidents:incident", args=[number]),
        NUMBER,
        number,
    )


def _ack(mark: RowMark) -> SafeString:
    assert mark.ack is not None
    why = f": {isolated(mark.ack.reason)}" if mark.ack.reason else ""
    return format_html(
        '<span class="badge ack" title="acknowledged by {}{}">{}'
        '<span class="visually-hidden">acknowledged by </span><bdi class="who-has">{}</bdi></span>',
        isolated(mark.ack.by),
        why,
        icon("hand"),
        mark.ack.by,
    )


def _work(mark: RowMark, now: int) -> SafeString:
    assert mark.work is not None
    return format_html(
        '<span class="badge work" title="in maintenance: {}">{}'
        '<span class="word">maintenance</span> {}</span>',
        isolated(mark.work.name),
        icon("wrench"),
        until(mark.work.until, now),
    )


@register.inclusion_tag("annotations/_acknowledgement.html", takes_context=True)
def held(context: Any, scenario: Scenario, asset: str, record: StateValue) -> dict[str, Any]:
    """Return the context of the acknowledgement in force; `ack` is None without one."""
    now = context["now"]
    severity = scenario.severity(record.state)
    rows = Acknowledgement.objects.in_force(now).filter(
        scenario=scenario.name, asset=asset, severity__lte=severity
    )
    ack = rows.order_by("-at", "-pk").first() if severity < calm_of(scenario) else None
    user = context["request"].user
    return {
        "ack": ack,
        "scenario": scenario,
        "asset": asset,
        "now": now,
        "may_annotate": may(user, "command"),
        "csrf_token": context.get("csrf_token"),
    }


@register.inclusion_tag("annotations/_notes.html", takes_context=True)
def asset_notes(context: Any, scenario: Scenario, asset: str) -> dict[str, Any]:
    """Return the context of the notes on an asset, newest first."""
    user, now = context["request"].user, context["now"]
    newest = list(Note.objects.of_asset(scenario.name, asset)[: LISTED + 1])
    writes = isinstance(user, User) and may(user, "command")
    rows = [
        {
            "is": note,
            "may_edit": writes and note.may_be_edited_by(user, now),
            "may_delete": writes and note.may_be_deleted_by(user),
        }
        for note in newest[:LISTED]
    ]
    return {
        "rows": rows,
        "more": len(newest) > LISTED,
        "listed": LISTED,
        "now": now,
        "csrf_token": context.get("csrf_token"),
    }


@register.simple_tag(takes_context=True)
def board_ack_form(context: Any) -> AckForm:
    """Return the form of the board's dialog, for the selection or the row at the focus."""
    user, now = context["request"].user, context["now"]
    return AckForm(now, shift_ends(user, now), place="board_ack")


@register.simple_tag
def board_note_form() -> NoteForm:
    """Return the form of the board's dialog for a note on what is selected."""
    return NoteForm(place="board_note")


@register.inclusion_tag("annotations/_forms.html", takes_context=True)
def annotation_forms(context: Any, scenario: Scenario, asset: str) -> dict[str, Any]:
    """Return the forms by which the request's user acknowledges, and writes a note."""
    user = context["request"].user
    if not may(user, "command"):
        return {"may_annotate": False}
    made = forms_of(scenario, asset, user, context["now"])
    if context["request"].GET.get("do") == "acknowledge":
        made["ack_open"] = True
    return {**made, "csrf_token": context.get("csrf_token")}


@register.filter
def linked(text: str) -> SafeString:
    """Return plain text with its web addresses as links; all of it is escaped."""
    parts: list[SafeString] = []
    at = 0
    for match in _LINK.finditer(text):
        tail = _TAIL.search(match[0])
        end = match.end() - (len(tail[0]) if tail else 0)
        url = text[match.start() : end]
        parts.append(format_html("{}", text[at : match.start()]))
        parts.append(
            format_html(
                '<a href="{}" rel="noopener noreferrer nofollow" dir="ltr">{}</a>', url, url
            )
        )
        at = end
    parts.append(format_html("{}", text[at:]))
    return mark_safe("".join(parts))  # noqa: S308 - each part is escaped


register.filter("isolated", isolated)


# ---- labels --------------------------------------------------------------------------------------
# An asset's labels on its page, and those of a row.


def labels_context(request: HttpRequest, scenario: Scenario, asset: str) -> dict[str, Any]:
    """Return the context of `annotations/labels/_asset.html`."""
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


@register.inclusion_tag("annotations/labels/_asset.html", takes_context=True)
def asset_labels(context: dict[str, Any], scenario: Scenario, asset: str) -> dict[str, Any]:
    """Return the context of the section of an asset's labels, with its form."""
    return labels_context(context["request"], scenario, asset)


@register.simple_tag
def asset_links(name: str, asset: str, named: bool = False) -> SafeString:
    """Return the links of an asset of the scenario of this name; empty without any.

    named: whether the asset's name is before them.
    """
    known = scenarios().get(name)
    labels = labels_of(name, [asset]).get(asset, {}) if known and known.links else {}
    links = format_html_join(
        " ",
        '<a href="{}" rel="noopener noreferrer nofollow" target="_blank">{}</a>',
        ((link["url"], link["title"]) for link in known.links_of(asset, labels)) if known else (),
    )
    before = format_html("<span><bdi>{}</bdi>:</span> ", asset) if named else ""
    return format_html('<p class="asset-links">{}{}</p>', before, links) if links else links


@register.simple_tag
def behind(scenario: Scenario, asset: str) -> SafeString:
    """Return what an asset lies behind, and its state, as words: `Behind 192.0.2.0/25, which is
    Down`."""
    name = causes_of(scenario.name, [asset]).get(asset)
    if name is None:
        return mark_safe("")
    other = scenarios()[dependencies()[scenario.name].scenario]
    row = AssetState.objects.filter(scenario=other.name, asset=name, purged=False).first()
    words = state(other, row.state) if row else "not on the board"
    link = name_link(asset_path(other.name, name), name)
    return format_html('<span class="behind">Behind {}, which is {}</span>', link, words)


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
