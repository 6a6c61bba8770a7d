"""The overrides in force: whose, why, until when, and what the votes make beneath them.

Overrides are few, but a bulk command can pin a hundred thousand assets: what is shown is bounded,
those that end first before all others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
from django.db.models import F, QuerySet

from dashboard.core.times import HOUR_MS, MINUTE_MS
from dashboard.states.board_rows import asset_path
from dashboard.states.models import AssetState
from domain.scenario import Scenario

MOST = 500
"""Most overrides that the page lists."""
SOON_MS = 15 * MINUTE_MS
"""Of an override that ends so soon it is warned."""
OLD_MS = 24 * HOUR_MS
"""One without an end that is older than this may have been forgotten."""


class Override(NamedTuple):
    """An asset that is pinned. underlying: what the votes make, None where there are none; times
    in Unix ms."""

    scenario: Scenario
    asset: str
    state: str
    underlying: str | None
    user: str
    reason: str
    since: int
    until: int | None

    @property
    def url(self) -> str:
        """Where the asset's page is."""
        return asset_path(self.scenario.name, self.asset)

    @property
    def differs(self) -> bool:
        """Whether the votes make something else."""
        return self.underlying is not None and self.underlying != self.state

    def ends_soon(self, now: int) -> bool:
        """Whether its end is near."""
        return self.until is not None and self.until - now <= SOON_MS

    def forgotten(self, now: int) -> bool:
        """Whether it has no end, and has been there for long."""
        return self.until is None and now - self.since > OLD_MS


class Overrides(NamedTuple):
    """Those listed, and how many there are: of these, by the user who looks, ending soon."""

    listed: list[Override]
    total: int
    mine: int
    soon: int


def overrides(
    known: Mapping[str, Scenario], now: int, viewer: str, *, scenario: str = "", mine: bool = False
) -> Overrides:
    """The overrides in force, the one that ends first on top. mine: the viewer's alone."""
    every = AssetState.objects.filter(overridden=True, scenario__in=list(known))
    if scenario:
        every = every.filter(scenario=scenario)
    own = every.filter(override_user=viewer)
    wanted = own if mine else every
    return Overrides(
        [_override(known[name], text) for name, text in _texts(wanted)],
        wanted.count(),
        own.count(),
        every.filter(override_until__lte=now + SOON_MS).count(),
    )


def _texts(rows: QuerySet[AssetState]) -> QuerySet[AssetState, tuple[str, str]]:
    order = (F("override_until").asc(nulls_last=True), "override_since", "pk")
    return rows.order_by(*order).values_list("scenario", "record")[:MOST]


def _override(scenario: Scenario, text: str) -> Override:
    record: dict[str, Any] = msgspec.json.decode(text)
    found = record["override"]
    return Override(
        scenario=scenario,
        asset=record["asset"],
        state=found["state"],
        underlying=found["underlying"],
        user=found["user"],
        reason=found["reason"],
        since=found["since"],
        until=found["until"],
    )
