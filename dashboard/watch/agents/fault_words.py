"""An agent's faults in words: on its page, in a banner, in a message."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from django.urls import reverse
from django.utils.http import urlencode

from dashboard.core.common.text import isolated
from dashboard.core.common.times import DAY_MS, span
from dashboard.core.states.caveats import of_agent
from dashboard.core.states.filter_parser import board_url
from dashboard.core.states.filter_terms import quoted
from dashboard.watch.agents.faults import Fault, Kind
from dashboard.watch.agents.reports import NAMELESS
from domain.names import USER_PREFIX
from domain.records import MAX_VOTERS, Doubt
from domain.scenario import Scenario
from wire.source import MAX_DETAIL, MAX_RECORD

UNKNOWN_STATE = "unknown-state"

Words = Callable[[Scenario, Fault], str]


class Phrases(NamedTuple):
    """The words for a kind of fault.

    word: its mark, with shape and colour; page: the sentence on the agent's page; todo: what to do
    about it; finds: the filter that finds its assets on the board. A filter by only the agent's
    name finds only its live votes.
    """

    word: str
    shape: str
    colour: str
    page: Words
    todo: str
    finds: str = ""


class FaultText(NamedTuple):
    """A fault as a page shows it.

    since: Unix ms, 0 if unknown; url: the page that shows more, or empty; link: the text of the
    link to it.
    """

    kind: Kind
    text: str
    todo: str
    since: int
    url: str
    link: str
    word: str
    shape: str
    colour: str


def said(scenario: Scenario, agent: str, fault: Fault) -> FaultText:
    """Return an agent's fault as its page shows it."""
    phrases = PHRASES[fault.kind]
    text = phrases.page(scenario, fault)
    marks = (phrases.word, phrases.shape, phrases.colour)
    link = _link(scenario, agent, fault)
    return FaultText(fault.kind, text, todo_of(fault), fault.since, *link, *marks)


def _link(scenario: Scenario, agent: str, fault: Fault) -> tuple[str, str]:
    """Return the URL that shows what a fault is about and the link's text, or empty texts."""
    finds = PHRASES[fault.kind].finds.format(agent=quoted(agent))
    if fault.kind == "refused" and fault.reason != UNKNOWN_STATE:
        word = {} if agent in NAMELESS else {"word": agent}
        query = urlencode({"scenario": scenario.name, **word})
        return f"{reverse('dead_letters:letters')}?{query}", "Dead letters"
    return (board_url(scenario.name, finds), "On the board") if fault.assets and finds else ("", "")


def todo_of(fault: Fault) -> str:
    """Return what to do about a fault, as a sentence."""
    if fault.kind == "refused" and fault.reason != UNKNOWN_STATE:
        remedy = _remedy(fault)
        return remedy.todo if remedy else "Fix what it sends: see its dead letters."
    return IN_SECONDS.todo if _in_seconds(fault) else PHRASES[fault.kind].todo


# ---- sentences of a page ------------------------------------------------------------------------


def on_assets(scenario: Scenario, n: int) -> str:
    """Return on how many assets something holds: ` on 12 sites`; empty for none."""
    return f" on {n:,} {scenario.noun}{'' if n == 1 else 's'}" if n else ""


def _on(fault: Fault, scenario: Scenario) -> str:
    return on_assets(scenario, fault.assets)


class Remedy(NamedTuple):
    """Why whole records are refused, as the end of a sentence, and what to do."""

    why: str
    todo: str


REMEDIES: Mapping[str, Remedy] = {
    "unknown-type": Remedy(
        "they have no known type",
        'Send one JSON object a record, with "type": "report".',
    ),
    "not-json": Remedy(
        "they are not JSON", "Send one JSON object a record, without a byte order mark."
    ),
    "not-utf8": Remedy("they are not text in UTF-8", "Send JSON in UTF-8."),
    "too-large": Remedy(f"they are over {MAX_RECORD:,} bytes", "Send less with each."),
    "bad-asset": Remedy(
        "they do not say what they are about",
        "Give each record the asset's name as its key, or as asset in its value.",
    ),
    "bad-agent": Remedy(
        "they name no agent", f'Send "agent", which must not begin with {USER_PREFIX}.'
    ),
    "wrong-partition": Remedy(
        "they came on a wrong partition again", "Use the partitioner murmur2_random."
    ),
    "too-many-agents": Remedy(
        f"{MAX_VOTERS} other agents have votes there", "Find out why so many agents report."
    ),
    UNKNOWN_STATE: Remedy(
        "they say a state that this board does not know", "Add the state, or downgrade the agent."
    ),
    "bad-time": Remedy("they have no valid time", "Send reported_at in Unix milliseconds."),
    "bad-field": Remedy("a field is of the wrong kind", "See their dead letters."),
}
"""By the reason of their dead letters."""


def _remedy(fault: Fault) -> Remedy | None:
    """Return what to say of reports that no asset shows."""
    return None if fault.assets else REMEDIES.get(fault.reason)


def why_refused(scenario: Scenario, fault: Fault) -> str:
    """Return why reports are refused, as far as the board knows, or "".

    For example `it says critical, which this board does not know`.
    """
    if not fault.reason:
        return ""
    if remedy := _remedy(fault):
        return remedy.why
    text = of_agent(scenario, Doubt("", fault.reason, fault.said or None, 0, 0, 0, 1)).text
    reason = text.removeprefix("its reports are refused: ")
    return f"it {reason}" if reason.startswith("says ") else reason


def _refused(scenario: Scenario, fault: Fault) -> str:
    why = why_refused(scenario, fault)
    return f"Its reports{_on(fault, scenario)} are refused{f': {why}' if why else ''}"


def _silent(scenario: Scenario, fault: Fault) -> str:
    if not fault.assets:
        return "Reports nothing"
    if fault.of == 1:
        return f"Silent on its only {scenario.noun}"
    among = f"all {fault.of:,}" if fault.assets == fault.of else f"{fault.assets:,} of {fault.of:,}"
    return f"Silent on {among} {scenario.noun}s"


def _ahead(scenario: Scenario, fault: Fault) -> str:
    clock = f"Its clock is {_span(fault)} ahead"
    return f"{clock}: its votes{_on(fault, scenario)} are in doubt" if fault.assets else clock


def _detail(scenario: Scenario, fault: Fault) -> str:
    why = {"too-large": f": larger than {MAX_DETAIL:,} bytes", "bad-field": ": not an object"}
    return f"Details are left out{_on(fault, scenario)}{why.get(fault.reason, '')}"


def _flapping(scenario: Scenario, fault: Fault) -> str:
    worse = isolated(scenario.spec(fault.said).label)
    return f"Flapping{_on(fault, scenario)}: {worse} disputes a milder state"


IN_SECONDS = Remedy("their times are in seconds", "Send reported_at in Unix milliseconds.")
IN_SECONDS_MS = 20 * 365 * DAY_MS
"""No clock is so far behind: a time in seconds reads as one of January 1970."""


def _in_seconds(fault: Fault) -> bool:
    return fault.kind == "behind" and fault.ms > IN_SECONDS_MS


def _behind(_scenario: Scenario, fault: Fault) -> str:
    if _in_seconds(fault):
        return f"Its reports count for nothing: {IN_SECONDS.why}"
    return f"Its reports come late: its clock is {_span(fault)} behind"


def _span(fault: Fault) -> str:
    """Return a measured time, rounded to s: a few ms in transit must not cost a minute."""
    return span(round(fault.ms, -3))


BY_AGENT = "agent:{agent} has:doubt"

PHRASES: Mapping[Kind, Phrases] = {
    "refused": Phrases(
        "refused", "cross", "red", _refused, "Add the state, or downgrade the agent.", "has:doubt"
    ),
    "silent": Phrases(
        "silent", "off", "red", _silent, "Start it, or let it leave.", "has:silent"
    ),
    "contradiction": Phrases(
        "in doubt", "doubt", "amber",
        lambda s, f: f"Contradicts itself{_on(f, s)}: do two processes report under this name?",
        "Give each process a name of its own. A clock that is set back does the same.",
        "has:doubt",
    ),
    "ahead": Phrases("in doubt", "doubt", "amber", _ahead, "Set its clock.", BY_AGENT),
    "purged": Phrases(
        "in doubt", "doubt", "amber",
        lambda s, f: f"Its reports{_on(f, s)} are from before a purge, and in doubt",
        "If that does not end with its next reports, set its clock.",
        BY_AGENT,
    ),
    "clock-back": Phrases(
        "in doubt", "doubt", "amber",
        lambda s, f: f"The broker's clock was set back: its votes{_on(f, s)} are in doubt",
        "Nothing to do: its next reports end this.",
        BY_AGENT,
    ),
    "behind": Phrases(
        "late", "clock", "amber",
        _behind,
        "Set its clock.",
    ),
    "shorter": Phrases(
        "late", "clock", "amber",
        lambda _, f: f"Its votes expire early: its clock is {_span(f)} behind",
        "Set its clock.",
    ),
    "partly": Phrases(
        "silent", "off", "amber", _silent, "Check that it reports on them, or let it leave.",
        "has:silent",
    ),
    "late": Phrases(
        "late", "clock", "amber",
        lambda _s, _f: "Reports come twice or out of order, and change nothing",
        "If there are many, check that only one process reports under this name.",
    ),
    "stale": Phrases(
        "in doubt", "doubt", "amber",
        lambda s, f: f"Its last word{_on(f, s)} came too late to count",
        "Nothing to do: its next reports end this.",
        "has:doubt",
    ),
    "spool": Phrases(
        "late", "clock", "grey",
        lambda _, f: f"Its reports came {_span(f)} late or more, as from a spool",
        "Nothing to do: it has sent its backlog.",
    ),
    "rare": Phrases(
        "rare", "clock", "amber",
        lambda _s, _f: "Reports too rarely: its votes expire in between",
        "Have it report more often, or raise the scenario's vote lifetime.",
    ),
    "flapping": Phrases(
        "flapping", "disputed", "amber", _flapping, "Check what it measures.", "agent:{agent}"
    ),
    "detail": Phrases(
        "details", "note", "grey", _detail, "Have it send less: its votes count all the same."
    ),
    "unseen": Phrases(
        "silent", "off", "amber",
        lambda _, f: f"Not seen, though usually every {span(f.ms)}",
        "Check that it runs, or let it leave.",
    ),
}  # fmt: skip

KINDS: tuple[Kind, ...] = tuple(PHRASES)
"""Every kind of fault, most important first."""


# ---- lines of a banner --------------------------------------------------------------------------

_LINES: Mapping[Kind, tuple[str, str]] = {
    "refused": ("reports of {agent}{on} are refused", "{Why}{todo}"),
    "silent": ("{agent} has reported nothing", "Start it, or let it leave."),
    "contradiction": (
        "{agent} contradicts itself{on}",
        "Two processes may report under its name: give each a name of its own.",
    ),
    "ahead": ("the clock of {agent} is {span} ahead", "{in_doubt}"),
    "purged": (
        "reports of {agent}{on} are from before a purge",
        "Its votes there are in doubt: set its clock.",
    ),
    "behind": (
        "the clock of {agent} is {span} behind",
        "Its reports arrive too late to count as votes: set its clock.",
    ),
    "late": (
        "reports of {agent} come twice or out of order",
        "They change nothing: check that only one process reports under its name.",
    ),
}
"""What is wrong, and what to do."""
IN_SECONDS_LINE = ("reports of {agent} count for nothing: " + IN_SECONDS.why, IN_SECONDS.todo)


def line(scenario: Scenario, agent: str, fault: Fault) -> tuple[str, str]:
    """Return a reported fault as a banner's line: what is wrong, and what to do."""
    what, todo = IN_SECONDS_LINE if _in_seconds(fault) else _LINES[fault.kind]
    on, why = _on(fault, scenario), why_refused(scenario, fault)
    words = {
        "agent": isolated(agent),
        "on": on,
        "span": _span(fault),
        "Why": f"{why[:1].upper()}{why[1:]}. " if why else "",
        "todo": todo_of(fault),
        "in_doubt": f"Its votes{on} are in doubt: set its clock." if on else "Set its clock.",
    }
    return what.format(**words), todo.format(**words)
