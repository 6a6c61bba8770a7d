"""What the command palette finds: any asset of any board, by a part of its name.

It is asked for at each key, so it looks where the database has an index: names that begin with the
text, then names that contain it. Of those that may contain it so many are looked at, and only where
too few of them do, more: the rest is for the board's own filter.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from django.db.models import QuerySet

from dashboard.core.scenarios import scenarios
from dashboard.states.board_rows import asset_path
from dashboard.states.models import AssetState
from dashboard.states.name_search import candidates
from dashboard.states.queries import listed
from domain.names import CONTROL
from domain.scenario import Scenario

# Assets that are offered.
MOST = 10
# Names that hold the text's parts, and so may contain it, of which all are looked at: first so
# many, then so many.
LOOKED_AT = (300, 10_000)
# Sorts behind every character that a name may go on with.
LAST = chr(0x10FFFF)


class Offer(NamedTuple):
    """An asset that is offered."""

    scenario: Scenario
    asset: str
    state: str

    @property
    def url(self) -> str:
        """Return where its page is."""
        return asset_path(self.scenario.name, self.asset)


def offers(text: str) -> list[Offer]:
    """Return visible assets whose name is, begins with, or contains `text`: the nearest MOST."""
    if not text or CONTROL.search(text):
        return []
    found = {offer.url: offer for offer in _beginning(text)}
    if len(found) < MOST:
        found.update((offer.url, offer) for offer in _containing(text))
    return sorted(found.values(), key=lambda offer: _distance(offer, text))[:MOST]


def _beginning(text: str) -> Iterable[Offer]:
    """Yield assets whose name begins with the text as it is typed, or in lower case."""
    for begin in dict.fromkeys((text, text.lower())):
        for scenario in scenarios():
            rows = AssetState.objects.filter(
                scenario=scenario, purged=False, asset__gte=begin, asset__lt=begin + LAST
            )
            yield from _read(rows.order_by("asset")[:MOST])


def _containing(text: str) -> Iterable[Offer]:
    """Return assets with the text anywhere in their name; the index does not cover short texts."""
    found: list[Offer] = []
    for most in LOOKED_AT:
        ids = candidates(text, most)
        if not ids:
            break
        # Nothing else is asked for: the database would take another index, and read all of it.
        rows = AssetState.objects.filter(pk__in=listed(ids), asset__icontains=text)
        found = list(_read(rows))
        if len(found) >= MOST or len(ids) < most:
            break
    return found


def _read(rows: QuerySet[AssetState]) -> Iterable[Offer]:
    known = scenarios()
    for scenario, asset, state, purged in rows.values_list("scenario", "asset", "state", "purged"):
        if not purged and scenario in known:
            yield Offer(known[scenario], asset, state)


def _distance(offer: Offer, text: str) -> tuple[int, int, int, str]:
    """Return a sort key: the name itself first, then those that begin so, then by severity."""
    name, wanted = offer.asset.casefold(), text.casefold()
    how = 0 if name == wanted else 1 if name.startswith(wanted) else 2
    return (how, offer.scenario.severity(offer.state), len(name), offer.asset)
