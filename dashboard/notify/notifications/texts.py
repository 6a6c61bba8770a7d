"""The content of messages, and rules in words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple
from uuid import NAMESPACE_URL, uuid5

from django.conf import settings
from django.db.models import Count, Q, QuerySet
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.http import urlencode

from dashboard.core.common.navigation import agent_path
from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.text import isolated
from dashboard.core.common.times import duration, exact_span, span, utc
from dashboard.core.states.board_rows import details_text
from dashboard.core.states.models import AssetState
from dashboard.core.states.queries import listed as values_of
from dashboard.notify.notifications.models import Channel, Rota
from dashboard.notify.notifications.outbox import REPLIES, MessageDraft
from dashboard.notify.notifications.rule_forms import AGENT_CHOICES
from dashboard.watch.annotations.labels import labels_of, lying_behind
from dashboard.watch.incidents.models import ENTRY_WORDS, Case, Incident
from domain.notifications.events import (
    AGENT_DOUBTED,
    AGENT_LATE,
    AGENT_REFUSED,
    AGENT_SILENT,
    BUDGET_FAST,
    BUDGET_KINDS,
    BUDGET_SLOW,
)
from domain.notifications.group import (
    ESCALATED,
    MORE,
    OPENED,
    REMINDER,
    RESOLVED,
    IncidentKey,
    Member,
)
from domain.notifications.hours import Hours
from domain.notifications.machine import Send, Summary
from domain.notifications.rule import Rule
from domain.scenario import Scenario
from wire.sink import state_value

# ---- texts ---------------------------------------------------------------------------------------
# The content of a rule's message: as text, as HTML, and as JSON for programs.

MOST_LISTED = 20
"""Most incidents in a message, the worst first."""
MOST_IN_PAYLOAD = 200
"""Most incidents in the JSON for programs."""
LONGEST_NAME = 60
"""Length of an asset's name in a subject, in characters."""

LEADS = {
    OPENED: "",
    MORE: "Update: ",
    ESCALATED: "Not acknowledged: ",
    REMINDER: "Reminder: ",
    RESOLVED: "",
}
AGENT_WORDS = {
    AGENT_REFUSED: "refused",
    AGENT_SILENT: "silent",
    AGENT_DOUBTED: "in doubt",
    AGENT_LATE: "late",
    BUDGET_FAST: "burning fast",
    BUDGET_SLOW: "not lasting",
}
"""The condition of several agents or error budgets, in a word or two."""


def group_url(token: str) -> str:
    """Return the address of a group's page, on which it can be acknowledged."""
    return f"{settings.TALLYBOARD.own_url}/notifications/ack/{token}/"


def groups_in(text: str) -> list[str]:
    """Return the tokens of the groups whose pages the lines of a summary lead to."""
    return re.findall(r"^- .*/notifications/ack/([\w-]+)/$", text, re.MULTILINE)


def subject(send: Send) -> str:
    """Return the subject of a message."""
    return subject_of(send.kind, send.members)


def subject_of(kind: str, members: Collection[Member]) -> str:
    """Return the subject of a message of this kind about these incidents."""
    if not members or any(member.active for member in members):
        return f"{LEADS[kind]}{headline(members)}"
    return _end(_worst_of_each(members))


def _end(members: Collection[Member]) -> str:
    """Return the end of incidents in one line: over, unless an asset is in a milder state now."""
    lasted = span(max(m.over_at or 0 for m in members) - min(m.since for m in members))
    if any(member.left for member in members) and len(members) > 1:
        return "; ".join(_counts(members, _left_words))
    if len(members) > 1:
        counted = Counter(map(_noun, members)).items()
        assets = ", ".join(f"{n} {noun}{'' if n == 1 else 's'}" for noun, n in counted)
        were = dict.fromkeys(map(_was, sorted(members, key=_severity)))
        return f"Over: {assets}, {lasted} (were {', '.join(were)})"
    [member] = members
    name, was = _name(member, LONGEST_NAME), _label(member, member.worst)
    if member.finding:
        return f"Over: {name}, {lasted} (was: {_begun_small(member.finding)})"
    if member.left:
        return f"{name} {_left_words(member)}, no longer {was.lower()}"
    return f"Over: {name}, {lasted} (was {was.lower()})"


def _left_words(member: Member) -> str:
    """Return the milder state in which an incident that is over for a rule goes on, if any."""
    return f"now {_label(member, member.left).lower()}" if member.left else "over"


def summary_subject(summary: Summary) -> str:
    """Return the subject of a message that stands for several."""
    return f"{len(summary.parts)} messages in one"


def headline(members: Collection[Member]) -> str:
    """Return incidents in one line.

    For a single one that is the asset, otherwise how many are in each state; for agents it is what
    is wrong with them.
    """
    worst = _worst_of_each(members)
    if len(worst) == 1:
        [member] = worst
        words = f": {_begun_small(member.finding)}" if member.finding else f" {_words(member)}"
        return f"{_name(member, LONGEST_NAME)}{words}"
    return "; ".join(_counts(worst, _words))


def _worst_of_each(members: Collection[Member]) -> Collection[Member]:
    """Return one incident per asset or agent, preferably one that goes on, and the worst."""
    ranked = sorted(members, key=lambda m: (m.active, -_severity(m)))
    return {(m.scenario, m.asset, bool(m.finding)): m for m in ranked}.values()


def _name(member: Member, longest: int | None = None) -> str:
    """Return what a line is about: an asset, an agent, or a scenario's error budget.

    Whatever direction a name is written in, the line keeps its own.
    """
    name = f"{member.asset} of {_title(member)}" if is_of_budget(member) else member.asset
    return isolated(name[:longest])


def is_of_budget(member: Member) -> bool:
    """Return whether it is an error budget that burns too fast."""
    return bool(member.finding) and member.state in BUDGET_KINDS


def _begun_small(sentence: str) -> str:
    return f"{sentence[:1].lower()}{sentence[1:]}"


def _counts(members: Collection[Member], words_of: Callable[[Member], str]) -> Iterator[str]:
    """Yield how many assets of each scenario have the same words, the worst first."""
    counted = Counter((m.scenario, _severity(m), _noun(m), words_of(m)) for m in members)
    for (_, _, noun, words), n in sorted(counted.items()):
        yield f"{n} {noun}{'' if n == 1 else 's'} {words}"


def _noun(member: Member) -> str:
    if member.finding:
        return "error budget" if is_of_budget(member) else "agent"
    return known.noun if (known := scenarios().get(member.scenario)) else "asset"


def _words(member: Member) -> str:
    """Return the state of an incident, or what is wrong with an agent, in a few words."""
    if not member.active:
        return f"no longer {_was(member)}"
    return AGENT_WORDS[member.state] if member.finding else _label(member, member.state).lower()


def _was(member: Member) -> str:
    """Return the worst state of an incident, or what was wrong with an agent, in a few words."""
    return AGENT_WORDS[member.state] if member.finding else _label(member, member.worst).lower()


def _label(member: Member, state: str) -> str:
    known = scenarios().get(member.scenario)
    return known.spec(state).label if known else state


def _severity(member: Member) -> int:
    known = scenarios().get(member.scenario)
    return known.severity(member.worst) if known else 0


def worst_first(send: Send) -> Send:
    """Return a message with its incidents sorted: those that go on first, each part by severity.

    The functions below expect this order.
    """
    ranked = sorted(send.members, key=lambda m: (not m.active, _severity(m), m.since, m.asset))
    return replace(send, members=tuple(ranked))


# ---- the whole message ------------------------------------------------------------------------


def cases_of(members: Iterable[Member]) -> dict[IncidentKey, Case]:
    """Return what incidents are worked on as, by key; those without a number are left out."""
    keys = {member.key for member in members if not member.finding}
    if not keys:
        return {}
    scenario, asset, place = ({each[at] for each in keys} for at in range(3))
    rows = Incident.objects.filter(
        scenario__in=scenario, asset__in=values_of(asset), place__in=values_of(place)
    )
    return {
        (row.scenario, row.asset, row.place): row.case
        for row in rows.filter(case__isnull=False).select_related("case")
        if row.case
    }


def _numbered(members: Iterable[Member]) -> dict[str, str]:
    """Return the numbers of incidents, each with the address of its page."""
    cases = sorted(cases_of(members).values(), key=lambda case: case.pk)[:MOST_LISTED]
    return {case.number: _case_url(case) for case in cases}


def _case_url(case: Case) -> str:
    return f"{settings.TALLYBOARD.own_url}{case.get_absolute_url()}"


def as_text(send: Send, why: str, url: str, replies: Mapping[str, str] | None = None) -> str:
    """Return a message as plain text. why: the line that explains it; url: of the group's page;
    replies: links by which its recipient answers."""
    listed = send.members
    lines = [subject(send), ""]
    for member, facts in _with_facts(listed[:MOST_LISTED]):
        lines += [f"- {_line(member, facts)}", *(f"  {line}" for line in _links(member, facts))]
    if len(listed) > MOST_LISTED:
        lines.append(f"- and {len(listed) - MOST_LISTED} more")
    lines += ["", *(f"{number}: {at}" for number, at in _numbered(listed).items())]
    if url and any(member.active for member in listed):
        answers = [f"{REPLIES[act]}: {at}" for act, at in (replies or {}).items()]
        lines += ["", *answers, f"{_link_words(send, replies)}: {url}"]
    return "\n".join([*lines, "", why]) + "\n"


def without_replies(text: str) -> str:
    """Return a message's text for others than its recipient: its links to answer are cut short."""
    return re.sub(r"(/notifications/reply/)[^/\s]+/", r"\1…/", text)


def _link_words(send: Send, replies: Mapping[str, str] | None) -> str:
    """Return the text of a message's link. Agents cannot be acknowledged."""
    of_agents = all(member.finding for member in send.members)
    return "Details" if of_agents or replies else "Acknowledge, or see details"


class AssetFacts(NamedTuple):
    """What a message says of an asset besides its state. details: what agents add, in words."""

    details: str = ""
    links: Sequence[Mapping[str, str]] = ()


def _with_facts(members: Sequence[Member]) -> Iterator[tuple[Member, AssetFacts]]:
    """Yield each member with the facts of its asset as they are now; none of an agent."""
    of_assets = [member for member in members if not member.finding]
    by_scenario = {
        name: _facts(known, [member.asset for member in of_assets if member.scenario == name])
        for name, known in scenarios().items()
    }
    for member in members:
        known = {} if member.finding else by_scenario.get(member.scenario, {})
        yield member, known.get(member.asset, AssetFacts())


def _facts(scenario: Scenario, assets: Sequence[str]) -> dict[str, AssetFacts]:
    """Return the facts of those of these assets that are on the board."""
    if not assets or not (scenario.details or scenario.links):
        return {}
    rows = AssetState.objects.filter(scenario=scenario.name, asset__in=assets, purged=False)
    labels = labels_of(scenario.name, assets)
    return {
        asset: AssetFacts(
            details_text(scenario, state_value(record)),
            scenario.links_of(asset, labels.get(asset, {})),
        )
        for asset, record in rows.values_list("asset", "record")
    }


def _line(member: Member, facts: AssetFacts) -> str:
    end = "" if member.active else f", {_lasted(member)}"
    added = f"; {facts.details}" if facts.details else ""
    since = f"since {utc(member.since)}{end}{added}"
    title = "" if is_of_budget(member) else f" ({_title(member)})"
    return f"{_name(member)}{title}: {_so(member)} {since}"


def _so(member: Member) -> str:
    """Return what is wrong, or was: the state of an incident, or the finding about an agent."""
    return member.finding or _label(member, member.state if member.active else member.worst)


def _lasted(member: Member) -> str:
    """Return how long an incident lasted that is over for the rule; empty if it goes on."""
    if member.over_at is None:
        return ""
    return f"{_left_words(member)} after {duration(member.over_at - member.since)}"


def _links(member: Member, facts: AssetFacts) -> list[str]:
    """Return the lines of links below a member's."""
    own = [_page_url(member)] if member.finding else []
    return own + [f"{link['title']}: {link['url']}" for link in facts.links]


def behind(send: Send) -> str:
    """Return in words what lies behind assets in trouble, and is not well; "" for nothing."""
    return " ".join(
        f"Behind {member.asset[:LONGEST_NAME]}: {_number(n, known)}, {bad:,} of them not well."
        for member in send.members[:MOST_LISTED]
        if member.active and not member.finding
        for name, rows in lying_behind(member.scenario, member.asset)
        if (known := scenarios().get(name))
        for n, bad in (_counted(rows, known),)
        if n
    )


def _counted(rows: QuerySet[AssetState], scenario: Scenario) -> tuple[int, int]:
    """Return how many assets there are, and how many of them are not well."""
    not_well = Count("pk", filter=~Q(state__in=_good(scenario)))
    counts = rows.aggregate(n=Count("pk"), bad=not_well)
    return counts["n"], counts["bad"]


def _number(n: int, scenario: Scenario) -> str:
    return f"{n:,} {scenario.noun}{'' if n == 1 else 's'}"


def _good(scenario: Scenario) -> list[str]:
    return [spec.name for spec in scenario.states if scenario.is_good(spec.name)]


def _title(member: Member) -> str:
    return known.title if (known := scenarios().get(member.scenario)) else member.scenario


def _page_url(member: Member) -> str:
    """Return the address of the page of an agent, or of the summary of an error budget."""
    if is_of_budget(member):
        query = urlencode({"period": "month", "scenario": member.scenario})
        return f"{settings.TALLYBOARD.own_url}{reverse('summaries:summary')}?{query}"
    return f"{settings.TALLYBOARD.own_url}{agent_path(member.scenario, member.asset)}"


def as_html(send: Send, why: str, url: str, replies: Mapping[str, str] | None = None) -> str:
    """Return a message as HTML for a mail. why, url, replies: as in `as_text`."""
    listed = send.members
    context = {
        "subject": subject(send),
        "rows": [_cells(*each) for each in _with_facts(listed[:MOST_LISTED])],
        "more": max(0, len(listed) - MOST_LISTED),
        "numbers": _numbered(listed),
        "url": "" if send.kind == RESOLVED else url,
        "link": _link_words(send, replies),
        "replies": [(REPLIES[act], at) for act, at in (replies or {}).items()],
        "what": _columns(listed),
        "why": why,
    }
    return render_to_string("notifications/mail.html", context)


def _columns(members: Iterable[Member]) -> tuple[str, str]:
    """Return the titles of the first two columns of a mail."""
    if not all(member.finding for member in members):
        return "Asset", "State"
    of_budgets = all(is_of_budget(member) for member in members)
    return "Error budget" if of_budgets else "Agent", "What is wrong"


def _cells(member: Member, facts: AssetFacts) -> dict[str, Any]:
    return {
        "details": facts.details,
        "links": facts.links,
        "asset": member.asset,
        "scenario": _title(member),
        "state": _so(member),
        "since": utc(member.since),
        "lasted": _lasted(member),
    }


def payload(send: Send, rule: str, url: str) -> dict[str, Any]:
    """Return a message as JSON-able data for programs. Times in Unix ms."""
    incidents = [member for member in send.members if not member.finding]
    budgets = [member for member in send.members if is_of_budget(member)]
    agents = [each for each in send.members if each.finding and not is_of_budget(each)]
    cases = cases_of(incidents[:MOST_IN_PAYLOAD])
    return {
        "kind": send.kind,
        "rule": rule,
        "group": {"key": send.key, "opened_at": send.opened_at, "url": url},
        "active": sum(member.active for member in send.members),
        "over": sum(not member.active for member in send.members),
        "incidents": [
            _plain(member, facts)
            | {"number": case.number if (case := cases.get(member.key)) else ""}
            for member, facts in _with_facts(incidents[:MOST_IN_PAYLOAD])
        ],
        "numbers": {case.number: _plain_case(case) for case in cases.values()},
        "agents": [_plain_agent(member) for member in agents[:MOST_IN_PAYLOAD]],
        "budgets": [_plain_finding(member) for member in budgets],
        "more": max(0, max(len(incidents), len(agents)) - MOST_IN_PAYLOAD),
    }


def _plain(member: Member, facts: AssetFacts) -> dict[str, Any]:
    return {
        "scenario": member.scenario,
        "asset": member.asset,
        "place": member.place,
        "state": member.state,
        "worst": member.worst,
        "details": facts.details,
        "links": facts.links,
        "since": member.since,
        "over_at": member.over_at,
    }


def _plain_case(case: Case) -> dict[str, Any]:
    return {
        "status": case.status,
        "owner": case.owner,
        "ticket": case.ticket,
        "ticket_url": case.ticket_url,
        "url": _case_url(case),
    }


def change_draft(case: Case, kind: str, by: str, text: str, now: int) -> MessageDraft:
    """Return a message on what somebody did to a case. kind: one of ENTRY_WORDS; now: Unix ms."""
    words = f"{ENTRY_WORDS[kind]}{f': {text}' if text else ''}"
    lines = (f"{by}: {words}", "", f"{case.number}, {case.subject}: {case.status}", _case_url(case))
    known = {"change": kind, "by": by, "text": text, "at": now, "number": case.number}
    return MessageDraft(
        "changed",
        f"{case.number}, {case.subject}: {words} ({by})",
        "\n".join(lines) + "\n",
        case.scenario,
        payload={"kind": "changed", **known, "numbers": {case.number: _plain_case(case)}},
        why="Sent as the channel gets changes of incidents.",
        thread=str(uuid5(NAMESPACE_URL, _case_url(case))),
    )


def _plain_agent(member: Member) -> dict[str, Any]:
    return {"agent": member.asset, **_plain_finding(member)}


def _plain_finding(member: Member) -> dict[str, Any]:
    return {
        "scenario": member.scenario,
        "finding": member.state,
        "words": member.finding,
        "since": member.since,
        "over_at": member.over_at,
        "url": _page_url(member),
    }


# ---- rule words ----------------------------------------------------------------------------------
# Rules in words.

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def described(rule: Rule) -> list[tuple[str, str]]:
    """Return what a rule does, as pairs of a title and words."""
    return list(_described(rule))


def _described(rule: Rule) -> Iterator[tuple[str, str]]:
    yield "Which incidents", "; ".join(_which(rule)) if rule.incidents else "none"
    yield "Agents", _agents(rule)
    names = target_names()
    for stage in rule.stages:
        after = (
            f"After {exact_span(stage.after_ms)} unacknowledged" if stage.after_ms else "Notifies"
        )
        yield after, whom(names, stage.channels, stage.rotas)
    alike = f"incidents with the same {', '.join(rule.group_by)}"
    yield "In one message", alike if rule.group_by else "all incidents"
    yield "Waits for more", _span(rule.window_ms)
    yield "Reminder", f"every {exact_span(rule.repeat_ms)}" if rule.repeat_ms else "none"
    yield "When it is over", "says so" if rule.resolved else "says nothing"
    yield "Scheduled tasks", "reported when they notify" if rule.tasks else "not reported"
    yield "Error budgets", "reported when they burn too fast" if rule.budgets else "not reported"
    yield "At most", f"{rule.most} messages in {exact_span(rule.per_ms)}"
    if rule.hours:
        yield "Only", hours(rule.hours)
    if rule.quiet:
        exempt = f", except {_state(rule.quiet.exempt)} or worse" if rule.quiet.exempt else ""
        yield "Quiet hours", f"{hours(rule.quiet.hours)}{exempt}"


def _agents(rule: Rule) -> str:
    words = [label for kind, label in AGENT_CHOICES if kind in rule.agents]
    return "; ".join([_scenarios(rule), *words]) if words else "none"


def _scenarios(rule: Rule) -> str:
    known = scenarios()
    titles = [known[name].title if name in known else name for name in rule.scenarios]
    return ", ".join(titles) or "every scenario"


def _which(rule: Rule) -> Iterator[str]:
    yield _scenarios(rule)
    if rule.labels:
        yield "any of " + ", ".join(f"{key}={value}" for key, value in rule.labels)
    if rule.states:
        yield ", ".join(_state(state) for state in rule.states)
    yield f"{_state(rule.at_least)} or worse" if rule.at_least else "any state that is not good"
    if rule.after_ms:
        yield f"lasting at least {exact_span(rule.after_ms)}"


def hours(given: Hours) -> str:
    """Return hours of the week in words."""
    begin, end = (f"{minute // 60:02d}:{minute % 60:02d}" for minute in (given.begin, given.end))
    days = ", ".join(DAYS[day] for day in sorted(given.days))
    return f"{begin} to {end} {given.zone}, {'every day' if len(given.days) == 7 else days}"


def _state(name: str) -> str:
    labels = (
        state.label
        for scenario in scenarios().values()
        for state in scenario.states
        if state.name == name
    )
    return next(labels, name)


def _span(ms: int) -> str:
    return exact_span(ms) if ms else "not at all"


def target_names() -> dict[tuple[str, int], str]:
    """Return the names of all channels and rotas, by kind and number."""
    channels = {("channel", row.pk): row.name for row in Channel.objects.all()}
    return channels | {("rota", row.pk): f"{row.name} (rota)" for row in Rota.objects.all()}


def whom(
    names: Mapping[tuple[str, int], str], channels: Iterable[int], rotas: Iterable[int]
) -> str:
    """Return the targets of a stage in words."""
    keys = [("channel", number) for number in channels] + [("rota", number) for number in rotas]
    return ", ".join(names.get(key, f"{key[0]} {key[1]}") for key in keys)
