"""The overrides in force: whose, why, until when, and what the votes make beneath them.

Overrides are few, but a bulk command can pin a hundred thousand assets: what is shown is bounded,
those that end first before all others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from django.db.models import QuerySet

from dashboard.core.listing import Order, Part, Place, page_of_parts
from dashboard.core.tables import Column, Table
from dashboard.core.times import HOUR_MS, MINUTE_MS
from dashboard.states.board_rows import asset_path
from dashboard.states.models import AssetState
from domain.scenario import Scenario
from wire.sink import state_value

MOST = 500
"""Most overrides of a page."""
SOON_MS = 15 * MINUTE_MS
"""Of an override that ends so soon it is warned."""
OLD_MS = 24 * HOUR_MS
"""One without an end that is older than this may have been forgotten."""
OVERRIDES = Table(
    "overrides", "Asset", "Scenario", "Pinned to",
    Column.text("Without it", "what the votes make"), "By", "Why", Column.time("Since"),
    Column.time("Ends in"),
)  # fmt: skip


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
        """Return whether it ends within SOON_MS. now: Unix ms."""
        return self.until is not None and self.until - now <= SOON_MS

    def forgotten(self, now: int) -> bool:
        """Return whether it has no end, and is older than OLD_MS. now: Unix ms."""
        return self.until is None and now - self.since > OLD_MS


class Overrides(NamedTuple):
    """Those of a page, after which place the next one begins, and how many there are: of these, by
    the user who looks, ending soon."""

    listed: list[Override]
    following: Place | None
    total: int
    mine: int
    soon: int


def overrides(
    known: Mapping[str, Scenario],
    now: int,
    viewer: str,
    *,
    scenario: str = "",
    mine: bool = False,
    after: Place | None = None,
) -> Overrides:
    """Return the overrides in force, the one that ends first on top. mine: the viewer's alone."""
    every = AssetState.objects.filter(overridden=True, scenario__in=list(known))
    if scenario:
        every = every.filter(scenario=scenario)
    own = every.filter(override_user=viewer)
    wanted = own if mine else every
    page = page_of_parts(_parts(wanted), MOST, after)
    return Overrides(
        [_override(known[row.scenario], row.record) for row in page.rows],
        page.following,
        wanted.count(),
        own.count(),
        every.filter(override_until__lte=now + SOON_MS).count(),
    )


def _parts(rows: QuerySet[AssetState]) -> list[Part[AssetState]]:
    """Return the overrides that end, the first on top, then those without an end, the oldest."""
    read = rows.only("scenario", "record", "override_until", "override_since")
    return [
        Part(read.filter(override_until__isnull=False), Order("override_until", down=False)),
        Part(read.filter(override_until=None), Order("override_since", down=False)),
    ]


def _override(scenario: Scenario, text: str) -> Override:
    record = state_value(text)
    override = record.override
    assert override is not None  # as the column says
    return Override(
        scenario=scenario,
        asset=record.asset,
        state=override.state,
        underlying=override.underlying,
        user=override.user,
        reason=override.reason,
        since=override.since,
        until=override.until,
    )
