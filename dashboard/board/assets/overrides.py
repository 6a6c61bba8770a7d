"""The overrides in force, and their page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from django.db.models import QuerySet
from django.http import Http404
from django.utils.http import urlencode

from dashboard.core.common.forms import Choice
from dashboard.core.common.lists import ListPage
from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.tables import (
    Column,
    ListOrder,
    PagePosition,
    Pager,
    Part,
    Table,
    page_of_parts,
)
from dashboard.core.common.times import HOUR_MS, MINUTE_MS
from dashboard.core.states.board_rows import asset_path
from dashboard.core.states.models import AssetState
from domain.scenario import Scenario
from wire.sink import state_value

# ---- overrides -----------------------------------------------------------------------------------
# The overrides in force: whose, why, until when, and what the votes make beneath them.
#
# Overrides are few, but a bulk command can pin a hundred thousand assets: what is shown is bounded,
# those that end first before all others.

MOST = 500
"""Most overrides of a page."""
SOON_MS = 15 * MINUTE_MS
"""Of an override that ends so soon it is warned."""
OLD_MS = 24 * HOUR_MS
"""One without an end that is older than this may have been forgotten."""
OVERRIDES = Table(
    "overrides", "Asset", "Scenario", "Pinned to",
    Column.text("Without it", "what the votes give"), "By", "Why", Column.time("Since"),
    Column.time("Ends in"),
)  # fmt: skip


class PinnedAsset(NamedTuple):
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

    listed: list[PinnedAsset]
    following: PagePosition | None
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
    after: PagePosition | None = None,
) -> Overrides:
    """Return the overrides in force, the one that ends first on top. mine: the viewer's alone."""
    every = AssetState.objects.filter(overridden=True, scenario__in=list(known))
    if scenario:
        every = every.filter(scenario=scenario)
    own = every.filter(override_user=viewer)
    shown = own if mine else every
    page = page_of_parts(_parts(shown), MOST, after)
    return Overrides(
        [_override(known[row.scenario], row.record) for row in page.rows],
        page.following,
        shown.count(),
        own.count(),
        every.filter(override_until__lte=now + SOON_MS).count(),
    )


def _parts(rows: QuerySet[AssetState]) -> list[Part[AssetState]]:
    """Return the overrides that end, the first on top, then those without an end, the oldest."""
    read = rows.only("scenario", "record", "override_until", "override_since")
    return [
        Part(read.filter(override_until__isnull=False), ListOrder("override_until", down=False)),
        Part(read.filter(override_until=None), ListOrder("override_since", down=False)),
    ]


def _override(scenario: Scenario, text: str) -> PinnedAsset:
    record = state_value(text)
    override = record.override
    assert override is not None  # as the column says
    return PinnedAsset(
        scenario=scenario,
        asset=record.asset,
        state=override.state,
        underlying=override.underlying,
        user=override.user,
        reason=override.reason,
        since=override.since,
        until=override.until,
    )


# ---- override views ------------------------------------------------------------------------------
# The page of all overrides.


class OverrideList(ListPage):
    """The list of every override in force, those that end first on top."""

    template = "board/overrides"
    table = OVERRIDES
    parameters = ("scenario", "whose", "after")

    def list_context(self) -> dict[str, Any]:
        """Return the overrides of the page, and the links that narrow the list."""
        given, viewer = self.request.GET, self.request.user.get_username()
        scenario, whose = given.get("scenario", ""), given.get("whose", "")
        if (scenario and scenario not in scenarios()) or whose not in ("", "mine"):
            raise Http404
        mine = bool(whose)
        after = PagePosition.parse(given.get("after", "")[:60])
        page = overrides(scenarios(), self.now, viewer, scenario=scenario, mine=mine, after=after)
        chosen = {"scenario": scenario, "whose": "mine" if mine else ""}
        query = urlencode({name: value for name, value in chosen.items() if value})
        return {
            "page": page,
            "rows": [_row(each, self.now) for each in page.listed],
            "pager": Pager.by_key(query, "after", after, page.following),
            "choices": _choices(scenario, mine, page.mine),
            "narrowed": bool(query),
        }


def _row(override: PinnedAsset, now: int) -> dict[str, Any]:
    return {
        "is": override,
        "soon": override.ends_soon(now),
        "forgotten": override.forgotten(now),
    }


def _choices(scenario: str, mine: bool, own: int) -> list[Choice]:
    """Return links that narrow the list: by scenario, and to the viewer's own."""
    whose = {"whose": "mine"} if mine else {}
    by_scenario = [("", "All scenarios"), *((s.name, s.title) for s in scenarios().values())]
    choices = [
        _choice(title, {**whose, **({"scenario": name} if name else {})}, name == scenario)
        for name, title in by_scenario
    ]
    kept = {"scenario": scenario} if scenario else {}
    return [
        *choices,
        _choice("Everybody's", kept, not mine),
        _choice(f"Mine ({own})", {**kept, "whose": "mine"}, mine),
    ]


def _choice(title: str, query: dict[str, str], chosen: bool) -> Choice:
    return Choice(title, f"?{urlencode(query)}", chosen)
