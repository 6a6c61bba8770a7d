"""Template tags and filters: the marks of the board, and the frames and cells of tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from zoneinfo import ZoneInfo

from django import template
from django.template.context import Context
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from dashboard.core.common import times
from dashboard.core.common.access import role_of
from dashboard.core.common.exports import CONTENT_TYPES
from dashboard.core.common.navigation import TERMS
from dashboard.core.common.tables import Table
from dashboard.core.common.text import isolated
from dashboard.core.common.times import moment, since, time_of_day, until, utc
from dashboard.core.states.board_rows import Row, asset_path
from dashboard.core.states.caveats import sentence
from domain.scenario import UNKNOWN, Scenario

# ---- board ---------------------------------------------------------------------------------------
# Small marks on pages. `static/js/board/badges.js` makes the same ones in the browser.

register = template.Library()
register.filter(isolated)
register.filter(sentence)
register.filter(utc)
register.filter("clock", time_of_day)
register.simple_tag(moment)
register.simple_tag(since)
register.simple_tag(until)

UNREPORTED = "no report yet"
"""The title of an unknown state."""


@register.simple_tag
def icon(name: str) -> SafeString:
    """Return an icon from the page's sprite."""
    return format_html('<svg class="icon" aria-hidden="true"><use href="#i-{}"></use></svg>', name)


@register.simple_tag
def mark(word: str, shape: str, colour: str, title: str = "", css: str = "") -> SafeString:
    """Return a highlighted word: icon, colour and word. shape: the name of the icon."""
    return format_html(
        '<span class="state{} c-{}"{}>{}<span class="word">{}</span></span>',
        f" {css}" if css else "",
        colour,
        format_html(' title="{}"', title) if title else "",
        icon(shape),
        word,
    )


@register.simple_tag
def term(name: str, words: str = "") -> SafeString:
    """Return a glossary term with a link to its definition: `{% term "bucket" %}`."""
    entry = TERMS[name]
    return format_html(
        '<a class="term" href="{}#{}" title="{}">{}</a>',
        reverse("glossary"), name, entry.meaning, words or entry.word,
    )  # fmt: skip


@register.simple_tag
def state(scenario: Scenario, name: str, title: str = "") -> SafeString:
    """Return a state as icon, colour and word."""
    spec = scenario.spec(name)
    return format_html(
        '<span class="state c-{}"{}>{}<bdi class="word">{}</bdi></span>',
        spec.colour,
        format_html(' title="{}"', title) if title else "",
        icon(spec.icon),
        spec.label,
    )


@register.simple_tag
def colour(scenario: Scenario, name: str) -> str:
    """Return the name of a state's colour."""
    return scenario.spec(name).colour


@register.simple_tag
def label(scenario: Scenario, name: str) -> str:
    """Return the label that pages show for a state."""
    return scenario.spec(name).label


@register.simple_tag
def row_class(scenario: Scenario, row: Row) -> str:
    """Return a row's CSS classes: its edge has the colour of the worst state reported."""
    worst = row["beneath"] or row["disputed"]
    if worst is None:
        return f"s{row['severity']} c-{row['colour']}"
    return f"s{row['severity']} c-{scenario.spec(worst).colour} is-disputed"


@register.simple_tag
def row_state(scenario: Scenario, row: Row) -> SafeString:
    """Return a row's state; the title of an unreported one says so."""
    return state(scenario, row["state"], UNREPORTED if is_unreported(scenario, row) else "")


def is_unreported(scenario: Scenario, row: Row) -> bool:
    """Return whether the row's state is unknown only because no report has arrived."""
    named = any(spec.name == UNKNOWN for spec in scenario.states)
    return row["state"] == UNKNOWN and not (named or row["votes"] or row["doubt"])


@register.simple_tag
def votes(scenario: Scenario, row: Row) -> SafeString:
    """Return one mark per vote, then one per agent in doubt without a vote.

    An `aria-label` says the same in words for screen readers.
    """
    voteless = row["doubt"]["voteless"] if row["doubt"] else []
    if not row["votes"] and not voteless:
        return mark_safe('<span class="none">none</span>')
    why = dict(row["doubt"]["of"]) if row["doubt"] else {}
    marks = [_vote(scenario, row, agent, name, why) for agent, name in row["votes"]]
    marks += [_voteless(scenario, agent, said, why[agent]) for agent, said in voteless]
    more = row["more_votes"] + (row["doubt"]["more"] if row["doubt"] else 0)
    return format_html(
        '<span class="votes" role="img" aria-label="{}">{}{}</span>',
        votes_text(scenario, row),
        format_html_join("", "{}", ((each,) for each in marks)),
        format_html('<span class="more">+{}</span>', more) if more else "",
    )


def _vote(
    scenario: Scenario, row: Row, agent: str, name: str, doubted: Mapping[str, str]
) -> SafeString:
    spec, muted, silent = scenario.spec(name), agent in row["muted"], dict(row["silent"]).get(agent)
    why = doubted.get(agent)
    return format_html(
        '<span class="vote{}{}{} c-{}"{} title="{}: {}{}{}{}">{}</span>',
        " silenced" if muted else "",
        " is-doubted" if why else "",
        " is-silent" if silent else "",
        spec.colour,
        format_html(' data-silent="{}"', silent) if silent else "",
        isolated(agent),
        isolated(spec.label),
        ", muted: does not count" if muted else "",
        f", in doubt: {why}" if why else "",
        f", silent since {utc(silent)}" if silent else "",
        icon(spec.icon),
    )


def _voteless(scenario: Scenario, agent: str, said: str, why: str) -> SafeString:
    """Return the mark of an agent in doubt without a vote: the state that it reported."""
    spec = scenario.spec(said)
    return format_html(
        '<span class="vote is-voteless is-doubted c-{}" '
        'title="{}: no vote, in doubt: {}">{}</span>',
        spec.colour,
        isolated(agent),
        why,
        icon(spec.icon),
    )


@register.simple_tag
def marks(scenario: Scenario, row: Row, now: int) -> SafeString:
    """Return the badges of a row: a worse state, an override, and reasons not to trust it."""
    badges = []
    if row["beneath"]:
        badges.append(_worse(scenario, row["beneath"], "without the pin:", "without the pin"))
    elif row["disputed"]:
        badges.append(
            _worse(scenario, row["disputed"], "disputed:", "disputed: somebody says, or said,")
        )
    if row["override"]:
        user, end = row["override"]
        left = format_html(" {}", until(end, now)) if end else ""
        badges.append(_badge("override", "pin", f"pinned by {isolated(user)}", "pinned", left))
    if row["doubt"] and row["doubt"]["why"]:
        badges.append(_badge("doubted", "doubt", f"in doubt: {row['doubt']['why']}", "in doubt"))
    if row["unconfirmed"]:
        reason = row["unconfirmed_reason"] or ""
        title = f"unconfirmed: {reason}" if reason else "unconfirmed"
        why = format_html(' <span class="reason">{}</span>', reason) if reason else ""
        badges.append(_badge("unconfirmed", "question", title, "unconfirmed", why))
    return format_html_join("", "{}", ((badge,) for badge in badges))


def _worse(scenario: Scenario, name: str, says: str, title: str) -> SafeString:
    """Return the badge of the worst state reported, or of the one beneath a pin."""
    spec = scenario.spec(name)
    return format_html(
        '<span class="badge disputed c-{}" title="{} {}">{}'
        '<span class="says">{}</span> <bdi class="said">{}</bdi></span>',
        spec.colour,
        title,
        isolated(spec.label),
        icon(spec.icon),
        says,
        spec.label,
    )


def _badge(kind: str, shape: str, title: str, word: str, rest: str = "") -> SafeString:
    return format_html(
        '<span class="badge {}" title="{}">{}<span class="word">{}</span>{}</span>',
        kind,
        title,
        icon(shape),
        word,
        rest,
    )


@register.simple_tag
def pending(scenario: Scenario, row: Row, now: int) -> SafeString:
    """Return the state that the asset will change to, and when."""
    name, due = row["pending"]
    return format_html(
        '<span class="pending">{} <span class="in">in</span> {}</span>',
        state(scenario, name),
        until(due, now),
    )


@register.simple_tag
def detail(cell: list[Any] | None) -> SafeString:
    """Return the content of a detail's cell: a text or a number, as agents say it."""
    if cell is None:
        return mark_safe("")
    text, value = cell
    css = "text" if value is None else "amount"
    return format_html('<bdi class="{}" title="{}">{}</bdi>', css, isolated(text), text)


def votes_text(scenario: Scenario, row: Row) -> str:
    """Return the votes in words: `3 votes: 2 Clear, 1 silent Under attack; 1 of them muted; 1 of
    them in doubt; 2 in doubt without a vote`."""
    tally: dict[str, int] = {}
    silent = dict(row["silent"])
    for agent, name in row["votes"]:
        label = ("silent " if agent in silent else "") + isolated(scenario.spec(name).label)
        tally[label] = tally.get(label, 0) + 1
    whole = len(row["votes"]) + row["more_votes"]
    parts = ", ".join(f"{n} {label}" for label, n in tally.items())
    more = f", {row['more_votes']} more" if row["more_votes"] else ""
    muted = f"; {len(row['muted'])} of them muted" if row["muted"] else ""
    counted = f"{whole} {'vote' if whole == 1 else 'votes'}{': ' if parts else ''}"
    return f"{counted}{parts}{more}{muted}{_doubts_text(row)}"


def _doubts_text(row: Row) -> str:
    """Return how many of a row's marks are in doubt, in words; empty if none are."""
    if not row["doubt"]:
        return ""
    voteless = len(row["doubt"]["voteless"])
    voting, apart = len(row["doubt"]["of"]) - voteless, voteless + row["doubt"]["more"]
    of_them = f"; {voting} of them in doubt" if voting else ""
    return of_them + (f"; {apart} in doubt without a vote" if apart else "")


@register.filter
def number(n: int) -> str:
    """Return a number with its digits in groups of three: `12,345`."""
    return f"{n:,}"


@register.simple_tag(takes_context=True)
def user_role(context: Context) -> Any:
    """Return the role of the user who sent the request, or None."""
    request = context.get("request")
    return role_of(request.user) if request is not None and hasattr(request, "user") else None


# ---- tables --------------------------------------------------------------------------------------
# The frame of a table, its common cells, and the placeholder for an empty one.

MISSING = "–"
"""Shown in place of a value that is unknown or missing."""


@register.simple_block_tag
def table(
    content: str, columns: Table, label: str = "", labelledby: str = "", key: str = ""
) -> SafeString:
    """Return a table of the rows between the tags: `{% table agents labelledby="agents-title" %}`.

    label, labelledby: the table's name, or the id of the heading that names it. key: identifies the
    table among siblings that come and go when the page refreshes.
    """
    context = {"rows": content, "table": columns, "label": label, "labelledby": labelledby}
    return render_to_string("_table.html", context | {"key": key})


@register.simple_block_tag
def empty_state(content: str, title: str) -> SafeString:
    """Return the placeholder for an empty list. The content says what to do next."""
    return render_to_string("_empty.html", {"title": title, "content": content})


@register.simple_block_tag
def list_section(content: str, key: str, title: str, note: str = "") -> SafeString:
    """Return a section of a list; an empty string if there is nothing between the tags.

    key: identifies the section among its siblings, and starts the id of its heading.
    """
    if not content.strip():
        return SafeString("")
    context = {"key": key, "title": title, "note": note, "content": content}
    return render_to_string("_list_section.html", context)


@register.inclusion_tag("_files.html")
def files(view: str, query: str) -> dict[str, Any]:
    """Return the links that download a whole list. view: takes the file format as argument."""
    links = {form.upper(): reverse(view, args=[form]) for form in CONTENT_TYPES}
    return {"links": links, "query": query}


@register.filter
def or_none(value: Any, missing: str = MISSING) -> Any:
    """Return a value, or the words for a missing one in grey if it is empty."""
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
    """Return a row's header cell: the name of an asset, agent or user, linked to its page."""
    return format_html('<th scope="row">{}</th>', name_link(url, name))


@register.simple_tag
def number_cell(value: float | str | None, text: str | None = None) -> SafeString:
    """Return a numeric cell. text: shown in place of the value in groups of three digits."""
    if value is None or value == "":
        return format_html('<td class="num" data-value="">{}</td>', text or MISSING)
    shown = f"{value:,}" if text is None else text
    return format_html('<td class="num" data-value="{}">{}</td>', value, shown)


@register.simple_tag
def moment_cell(at: int | None, now: int, missing: str = MISSING) -> SafeString:
    """Return a cell that shows a time (Unix ms)."""
    return _time_cell(times.moment, at, now, missing)


@register.simple_tag
def zone_cell(at: int | None, zone: ZoneInfo, missing: str = MISSING) -> SafeString:
    """Return a cell that shows a time (Unix ms) in a zone, to the second."""
    if not at:
        return format_html('<td data-value="">{}</td>', or_none("", missing))
    mark = '<td data-value="{}"><time datetime="{}">{}</time></td>'
    return format_html(mark, at, times.iso_second(at), times.zoned(at, zone))


@register.simple_tag
def since_cell(at: int | None, now: int, missing: str = MISSING) -> SafeString:
    """Return a cell that shows how long ago a time (Unix ms) was."""
    return _time_cell(times.since, at, now, missing)


def _time_cell(
    mark: Callable[[int, int], SafeString], at: int | None, now: int, missing: str
) -> SafeString:
    shown = mark(at, now) if at else or_none("", missing)
    return format_html('<td data-value="{}">{}</td>', at or "", shown)


@register.simple_tag
def state_cell(scenario: Scenario, name: str | None, missing: str = MISSING) -> SafeString:
    """Return a cell that shows a state and sorts by its label."""
    if not name:
        return format_html('<td data-value="">{}</td>', or_none("", missing))
    label = scenario.spec(name).label
    return format_html('<td data-value="{}">{}</td>', label, state(scenario, name))
