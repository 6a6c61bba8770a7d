"""Small marks that pages are made of, as `static/js/board/badges.js` makes them in the browser."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import template
from django.template.context import Context
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from dashboard.core.bidi import isolated
from dashboard.core.glossary import TERMS
from dashboard.core.roles import role_of
from dashboard.core.times import since, time_of_day, until, utc
from dashboard.states.board_rows import Row
from dashboard.states.doubt_words import sentence
from domain.scenario import UNKNOWN, Scenario

register = template.Library()
register.filter(isolated)
register.filter(sentence)
register.filter(utc)
register.filter("clock", time_of_day)
register.simple_tag(since)
register.simple_tag(until)

UNHEARD = "no report yet"
"""What an unknown state says."""


@register.simple_tag
def icon(name: str) -> SafeString:
    """Return an icon of the page's sprite."""
    return format_html('<svg class="icon" aria-hidden="true"><use href="#i-{}"></use></svg>', name)


@register.simple_tag
def mark(word: str, shape: str, colour: str, title: str = "", css: str = "") -> SafeString:
    """Return a word that stands out, as icon, colour and word. shape: the name of the icon."""
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
    """Return a word of the product with a link to its meaning: `{% term "bucket" %}`."""
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
def row_class(scenario: Scenario, row: Row) -> str:
    """Return the classes of a row: its edge has the colour of the worst that anybody says of it."""
    worst = row["beneath"] or row["disputed"]
    if worst is None:
        return f"s{row['severity']} c-{row['colour']}"
    return f"s{row['severity']} c-{scenario.spec(worst).colour} is-disputed"


@register.simple_tag
def row_state(scenario: Scenario, row: Row) -> SafeString:
    """Return the state of a row; one that nothing has reported says so."""
    return state(scenario, row["state"], UNHEARD if is_unheard(scenario, row) else "")


def is_unheard(scenario: Scenario, row: Row) -> bool:
    """Return whether the row's state says only that no report made one."""
    named = any(spec.name == UNKNOWN for spec in scenario.states)
    return row["state"] == UNKNOWN and not (named or row["votes"] or row["doubt"])


@register.simple_tag
def votes(scenario: Scenario, row: Row) -> SafeString:
    """Return one mark per vote, then per agent in doubt without one, and the same in words for who
    does not see them."""
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
        ", muted: counts nothing" if muted else "",
        f", in doubt: {why}" if why else "",
        f", silent since {utc(silent)}" if silent else "",
        icon(spec.icon),
    )


def _voteless(scenario: Scenario, agent: str, said: str, why: str) -> SafeString:
    """Return the mark of an agent in doubt that has no vote: it is what the agent said."""
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
    """Return the badges of what is worse than the state, an override, and why not to trust it."""
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
    """Return what is said worst, or lies beneath a pin, by its own sign, colour and word."""
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
    """Return what the asset will become, and when."""
    name, due = row["pending"]
    return format_html(
        '<span class="pending">{} <span class="in">in</span> {}</span>',
        state(scenario, name),
        until(due, now),
    )


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
    """Return in words how many of a row's marks are in doubt; empty for none."""
    if not row["doubt"]:
        return ""
    voteless = len(row["doubt"]["voteless"])
    voting, apart = len(row["doubt"]["of"]) - voteless, voteless + row["doubt"]["more"]
    of_them = f"; {voting} of them in doubt" if voting else ""
    return of_them + (f"; {apart} in doubt without a vote" if apart else "")


@register.filter
def number(n: int) -> str:
    """Return a number in groups of three digits: `12,345`."""
    return f"{n:,}"


@register.simple_tag(takes_context=True)
def user_role(context: Context) -> Any:
    """Return the role of the user who sent the request, or None."""
    request = context.get("request")
    return role_of(request.user) if request is not None and hasattr(request, "user") else None
