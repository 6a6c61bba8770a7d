"""What the command palette offers to do: the page with the form, filled in. Nothing is done by it.

A text begins with what is to be done, goes on with a part of a name, and may end with a state:
`set shop clear`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple
from urllib.parse import parse_qs, urlencode, urlsplit

from django.db.models import Q
from django.urls import reverse

from dashboard.agents.models import Agent
from dashboard.board.palette_search import offers
from dashboard.core.bidi import isolated
from dashboard.core.paths import agent_path
from dashboard.core.scenarios import scenario_or_first, scenarios
from domain.names import CONTROL
from domain.scenario import Scenario, StateSpec

MOST = 6
"""What is offered to be done, at the most."""
LEAST = 2
"""So many letters of what is to be done must be typed."""


class Verb(NamedTuple):
    """Something to be done. what: in words, for the list of all; of: what its name is one of."""

    name: str
    what: str
    of: str = "asset"


VERBS = (
    Verb("set", "pin a state of an asset"),
    Verb("acknowledge", "acknowledge an asset"),
    Verb("release", "end a pin"),
    Verb("vote", "vote on an asset"),
    Verb("purge", "take an asset off the board"),
    Verb("mute", "make an agent's votes not count for a time", "agent"),
    Verb("unmute", "have them count again", "agent"),
    Verb("bulk", "one command for all assets that a filter finds", "filter"),
)
WITH_STATE = ("set", "vote")
MOST_WORDS = 3
"""Most words of a state that are looked for."""


class Act(NamedTuple):
    """A page with a form that is filled in; hint: of which board."""

    title: str
    hint: str
    url: str


def acts(text: str, board: str = "") -> list[Act]:
    """Return what the text asks to be done.

    board: the address of the board that is shown, with its filter.
    """
    word, _, rest = text.strip().partition(" ")
    if len(word) < LEAST or CONTROL.search(text):
        return []
    verbs = [verb for verb in VERBS if verb.name.startswith(word.lower())]
    return list(islice((act for verb in verbs for act in _of(verb, rest.strip(), board)), MOST))


def _of(verb: Verb, rest: str, board: str) -> Iterator[Act]:
    match verb.of:
        case "asset":
            return _on_assets(verb, rest)
        case "agent":
            return _on_agents(verb, rest)
        case _:
            return _in_bulk(board)


def _on_assets(verb: Verb, rest: str) -> Iterator[Act]:
    """Yield the verb for each asset that `rest` names; with a state, if the text ends with one."""
    parts = _parts(rest) if verb.name in WITH_STATE else [(rest, "")]
    for name, wanted in parts:
        for offer in offers(name):
            spec = _state(offer.scenario, wanted) if wanted else None
            if wanted and spec is None:
                continue
            to = f" to {spec.label}" if spec else ""
            query = urlencode({"do": verb.name} | ({"to": spec.name} if spec else {}))
            title = f"{verb.name.capitalize()} {isolated(offer.asset)}{to}…"
            yield Act(title, offer.scenario.title, f"{offer.url}?{query}")


def _parts(rest: str) -> list[tuple[str, str]]:
    """Return each split into a name and a state, then the whole text as a name alone."""
    words = rest.split()
    begins = range(max(1, len(words) - MOST_WORDS), len(words))
    cut = [(" ".join(words[:at]), " ".join(words[at:])) for at in begins]
    return [*cut, (rest, "")]


def _state(scenario: Scenario, text: str) -> StateSpec | None:
    """Return the one state whose name or label is the text, else begins with it, or None."""
    wanted = text.casefold()
    named = [s for s in scenario.states if wanted in (s.name.casefold(), s.label.casefold())]
    begun = [
        s for s in scenario.states
        if s.name.casefold().startswith(wanted) or s.label.casefold().startswith(wanted)
    ]  # fmt: skip
    found = named or begun
    return found[0] if len(found) == 1 else None


def _on_agents(verb: Verb, rest: str) -> Iterator[Act]:
    if not rest:
        return
    named = Q(agent__istartswith=rest) | Q(agent__icontains=rest)
    rows = Agent.objects.filter(named, scenario__in=scenarios()).order_by("agent", "scenario")
    for row in rows[:MOST]:
        title = f"{verb.name.capitalize()} {isolated(row.agent)}…"
        url = f"{agent_path(row.scenario, row.agent)}?{urlencode({'do': verb.name})}"
        yield Act(title, scenarios()[row.scenario].title, url)


def _in_bulk(board: str) -> Iterator[Act]:
    """Yield each command for all that the board's filter finds; by default, for the first board."""
    given = parse_qs(urlsplit(board).query)
    scenario = scenario_or_first(given.get("scenario", [""])[0])
    chosen = {key: given[key] for key in ("q", "state") if given.get(key)}
    which = "all that this filter shows" if chosen else f"all {scenario.noun}s"
    for kind in ("set", "release", "purge"):
        query = urlencode({"scenario": scenario.name, "kind": kind, **chosen}, doseq=True)
        title = f"{kind.capitalize()} {which}, in bulk…"
        yield Act(title, scenario.title, f"{reverse('bulk:bulk')}?{query}")
