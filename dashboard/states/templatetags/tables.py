"""The frame of a table, its common cells, and what stands in place of an empty one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django import template
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from dashboard.core import times
from dashboard.core.bidi import isolated
from dashboard.core.exports import CONTENT_TYPES
from dashboard.core.tables import Table
from dashboard.states.board_rows import asset_path
from dashboard.states.templatetags.board import state
from domain.scenario import Scenario

register = template.Library()

MISSING = "–"
"""What is shown where something is not known, or is not there."""


@register.simple_block_tag
def table(
    content: str, columns: Table, label: str = "", labelledby: str = "", key: str = ""
) -> SafeString:
    """Return a table of the rows between the tags: `{% table agents labelledby="agents-title" %}`.

    label, labelledby: its name, or the id of the heading that names it. key: among siblings that
    come and go when the page renews itself.
    """
    context = {"rows": content, "table": columns, "label": label, "labelledby": labelledby}
    return render_to_string("_table.html", context | {"key": key})


@register.simple_block_tag
def empty_state(content: str, title: str) -> SafeString:
    """Return what stands in place of an empty list; between the tags: what to do next."""
    return render_to_string("_empty.html", {"title": title, "content": content})


@register.simple_block_tag
def list_section(content: str, key: str, title: str, note: str = "") -> SafeString:
    """Return a section of a list, nothing where no entry stands between the tags.

    key: among siblings, and the beginning of the heading's id.
    """
    if not content.strip():
        return SafeString("")
    context = {"key": key, "title": title, "note": note, "content": content}
    return render_to_string("_list_section.html", context)


@register.inclusion_tag("_files.html")
def files(view: str, query: str) -> dict[str, Any]:
    """Return the links to a whole list as a file. view: takes the file's form."""
    links = {form.upper(): reverse(view, args=[form]) for form in CONTENT_TYPES}
    return {"links": links, "query": query}


@register.filter
def or_none(value: Any, missing: str = MISSING) -> Any:
    """Return a value; in place of an empty one the words for that, in grey."""
    return value or format_html('<span class="none">{}</span>', missing)


@register.filter
def asset_url(asset: str, scenario: str) -> str:
    """Return the address of an asset's page."""
    return asset_path(scenario, asset)


@register.simple_tag
def name_link(url: str, name: str) -> SafeString:
    """Return the name of an asset, an agent or a user as a link to its page."""
    return format_html(
        '<a class="asset-name" href="{}" title="{}"><bdi>{}</bdi></a>', url, isolated(name), name
    )


@register.simple_tag
def name_cell(url: str, name: str) -> SafeString:
    """Return a row's head: the name of an asset, an agent or a user, which links to its page."""
    return format_html('<th scope="row">{}</th>', name_link(url, name))


@register.simple_tag
def number_cell(value: float | str | None, text: str | None = None) -> SafeString:
    """Return a cell of a figure. text: how it is shown; by default in groups of three digits."""
    if value is None or value == "":
        return format_html('<td class="num" data-value="">{}</td>', text or MISSING)
    shown = f"{value:,}" if text is None else text
    return format_html('<td class="num" data-value="{}">{}</td>', value, shown)


@register.simple_tag
def moment_cell(at: int | None, now: int, missing: str = MISSING) -> SafeString:
    """Return a cell of a time, Unix ms."""
    return _time_cell(times.moment, at, now, missing)


@register.simple_tag
def since_cell(at: int | None, now: int, missing: str = MISSING) -> SafeString:
    """Return a cell of how long ago a time was, Unix ms."""
    return _time_cell(times.since, at, now, missing)


def _time_cell(
    mark: Callable[[int, int], SafeString], at: int | None, now: int, missing: str
) -> SafeString:
    shown = mark(at, now) if at else or_none("", missing)
    return format_html('<td data-value="{}">{}</td>', at or "", shown)


@register.simple_tag
def state_cell(scenario: Scenario, name: str | None, missing: str = MISSING) -> SafeString:
    """Return a cell of a state, which sorts by its word."""
    if not name:
        return format_html('<td data-value="">{}</td>', or_none("", missing))
    label = scenario.spec(name).label
    return format_html('<td data-value="{}">{}</td>', label, state(scenario, name))
