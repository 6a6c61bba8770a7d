"""The command palette: what it finds, and what it offers to do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple
from urllib.parse import parse_qs, urlencode, urlsplit

from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dashboard.core.common.access import may, role_required, takes
from dashboard.core.common.navigation import agent_path
from dashboard.core.common.scenarios import scenario_or_first, scenarios
from dashboard.core.common.text import isolated
from dashboard.core.states.board_rows import asset_path
from dashboard.core.states.models import AssetState
from dashboard.core.states.name_search import candidates
from dashboard.core.states.queries import listed
from dashboard.watch.agents.models import Agent
from domain.names import CONTROL, MAX_NAME
from domain.scenario import Scenario, StateSpec

# ---- palette search ------------------------------------------------------------------------------
# What the command palette finds: any asset of any board, by a part of its name.
#
# It is asked for at each key, so it looks where the database has an index: names that begin with
# the text, then names that contain it. Of those that may contain it so many are looked at, and only
# where too few of them do, more: the rest is for the board's own filter.

# Assets that are offered.
MOST = 10
# Names that hold the text's parts, and so may contain it, of which all are looked at: first so
# many, then so many.
LOOKED_AT = (300, 10_000)
# Sorts behind every character that a name may go on with.
LAST = chr(0x10FFFF)


class PaletteAsset(NamedTuple):
    """An asset that is offered."""

    scenario: Scenario
    asset: str
    state: str

    @property
    def url(self) -> str:
        """Return where its page is."""
        return asset_path(self.scenario.name, self.asset)


def offers(text: str) -> list[PaletteAsset]:
    """Return visible assets whose name is, begins with, or contains `text`: the nearest MOST."""
    if not text or CONTROL.search(text):
        return []
    by_url = {offer.url: offer for offer in _beginning(text)}
    if len(by_url) < MOST:
        by_url.update((offer.url, offer) for offer in _containing(text))
    return sorted(by_url.values(), key=lambda offer: _distance(offer, text))[:MOST]


def _beginning(text: str) -> Iterable[PaletteAsset]:
    """Yield assets whose name begins with the text as it is typed, or in lower case."""
    for begin in dict.fromkeys((text, text.lower())):
        for scenario in scenarios():
            rows = AssetState.objects.filter(
                scenario=scenario, purged=False, asset__gte=begin, asset__lt=begin + LAST
            )
            yield from _read(rows.order_by("asset")[:MOST])


def _containing(text: str) -> Iterable[PaletteAsset]:
    """Return assets with the text anywhere in their name; the index does not cover short texts."""
    assets: list[PaletteAsset] = []
    for most in LOOKED_AT:
        ids = candidates(text, most)
        if not ids:
            break
        # Nothing else is asked for: the database would take another index, and read all of it.
        rows = AssetState.objects.filter(pk__in=listed(ids), asset__icontains=text)
        assets = list(_read(rows))
        if len(assets) >= MOST or len(ids) < most:
            break
    return assets


def _read(rows: QuerySet[AssetState]) -> Iterable[PaletteAsset]:
    known = scenarios()
    for scenario, asset, state, purged in rows.values_list("scenario", "asset", "state", "purged"):
        if not purged and scenario in known:
            yield PaletteAsset(known[scenario], asset, state)


def _distance(offer: PaletteAsset, text: str) -> tuple[int, int, int, str, str]:
    """Return a sort key: the name itself first, then those that begin so, then by severity."""
    name, typed = offer.asset.casefold(), text.casefold()
    how = 0 if name == typed else 1 if name.startswith(typed) else 2
    return (how, offer.scenario.severity(offer.state), len(name), offer.asset, offer.scenario.name)


# ---- palette actions -----------------------------------------------------------------------------
# What the command palette offers to do: the page with the form, filled in. Nothing is done by it.
#
# A text begins with what is to be done, goes on with a part of a name, and may end with a state:
# `set shop clear`.

MOST_ACTIONS = 6
"""What is offered to be done, at the most."""
LEAST = 2
"""So many letters of what is to be done must be typed."""


class Verb(NamedTuple):
    """Something to be done. what: in words, for the list of all; of: what its name is one of;
    often: whether it is offered before anything is typed."""

    name: str
    what: str
    of: str = "asset"
    often: bool = False


VERBS = (
    Verb("acknowledge", "say that you are working on an asset", often=True),
    Verb("set", "pin a state of an asset", often=True),
    Verb("release", "end a pin", often=True),
    Verb("vote", "vote on an asset"),
    Verb("purge", "take an asset off the board"),
    Verb("mute", "stop counting an agent's votes for a time", "agent", often=True),
    Verb("unmute", "count them again", "agent"),
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
    """Return the actions that the text describes.

    board: the address of the board that is shown, with its filter.
    """
    word, _, rest = text.strip().partition(" ")
    if len(word) < LEAST or CONTROL.search(text):
        return []
    verbs = [verb for verb in VERBS if verb.name.startswith(word.lower())]
    return list(
        islice((act for verb in verbs for act in _of(verb, rest.strip(), board)), MOST_ACTIONS)
    )


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
    for name, state in parts:
        for offer in offers(name):
            spec = _state(offer.scenario, state) if state else None
            if state and spec is None:
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
    typed = text.casefold()
    named = [s for s in scenario.states if typed in (s.name.casefold(), s.label.casefold())]
    begun = [
        s for s in scenario.states
        if s.name.casefold().startswith(typed) or s.label.casefold().startswith(typed)
    ]  # fmt: skip
    specs = named or begun
    return specs[0] if len(specs) == 1 else None


def _on_agents(verb: Verb, rest: str) -> Iterator[Act]:
    if not rest:
        return
    named = Q(agent__istartswith=rest) | Q(agent__icontains=rest)
    rows = Agent.objects.filter(named, scenario__in=scenarios()).order_by("agent", "scenario")
    for row in rows[:MOST_ACTIONS]:
        title = f"{verb.name.capitalize()} {isolated(row.agent)}…"
        url = f"{agent_path(row.scenario, row.agent)}?{urlencode({'do': verb.name})}"
        yield Act(title, scenarios()[row.scenario].title, url)


def _in_bulk(board: str) -> Iterator[Act]:
    """Yield each command for all that the board's filter finds; by default, for the first board."""
    given = parse_qs(urlsplit(board).query)
    name = given.get("scenario", [""])[0]
    if name and name not in scenarios():
        return
    scenario = scenario_or_first(name)
    chosen = {key: given[key] for key in ("q", "state") if given.get(key)}
    which = "all that this filter shows" if chosen else f"all {scenario.noun}s"
    chosen = chosen or {"by": ["all"]}
    for kind in ("set", "release", "purge"):
        query = urlencode({"scenario": scenario.name, "kind": kind, **chosen}, doseq=True)
        title = f"{kind.capitalize()} {which}, in bulk…"
        yield Act(title, scenario.title, f"{reverse('bulk:bulk')}?{query}")


# ---- palette views -------------------------------------------------------------------------------
# The command palette's list of assets and of what can be done, as a part of a page.

# Longest address of a board that is looked at.
MOST_BOARD = 4_000


@require_safe
@never_cache
@role_required("read")
@takes("q", "board")
def palette(request: HttpRequest) -> HttpResponse:
    """Render the incident and assets that `q` names, and the actions that it describes, by role.

    board: the address of the board that is shown, if one is.
    """
    text = request.GET.get("q", "")
    if len(text) > MAX_NAME:
        return render(request, "board/_palette_results.html", {})
    board = request.GET.get("board", "")[:MOST_BOARD]
    able = may(request.user, "command")
    context = {"text": text, "offers": offers(text), "acts": acts(text, board) if able else []}
    return render(request, "board/_palette_results.html", context)
