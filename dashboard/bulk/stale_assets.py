"""Assets that look forgotten: no report for long, no live vote, an override that is old.

Each reason is a range of an index, so that it is found among a million assets without reading
them; an index of times is of quarters of an hour, and so is the order of the list. What a row
shows: its newest live vote is renewed by reports that come 30 s or more after the asset's last
record, so its time is at most so much too old. Where no agent has a live vote any more, the last
report is that of the newest silent vote; where there is none either, it is older than the asset's
last record by a vote's lifetime or more, unless its agent left.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from dashboard.bulk.targets import visible
from dashboard.core.listing import Order, Page, Part, Place, page_of_parts
from dashboard.core.tables import Column, Table
from dashboard.core.times import DAY_MS, HOUR_MS
from dashboard.states.models import AssetState
from dashboard.states.record_rows import quarter_of
from domain.names import USER_PREFIX
from domain.scenario import Scenario
from wire.sink import Votes, votes_value

Reason = Literal["silent", "voteless", "pinned"]
REASONS: dict[Reason, str] = {
    "silent": "No report",
    "voteless": "No live vote",
    "pinned": "Pinned",
}
UNITS = {"hours": HOUR_MS, "days": DAY_MS}
MOST_COUNTED = 100_000
"""Of more assets it is only said that there are at least so many."""
PAGE = 100
"""Assets of one page."""
MAX_AGE = 10_000
"""Most hours or days that are asked for."""
STALE = Table(
    "stale", "Asset", "State", Column.time("Since"), Column.time("Last report"),
    Column.number("Live votes"), Column.time("Pinned"),
)  # fmt: skip


class Count(NamedTuple):
    """The number of assets that a reason finds; least: there are more."""

    n: int
    least: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """An asset of the list.

    reported_at: of its newest live vote; last_known: where there is none, its last report was at
    this time at the latest; all Unix ms; agents: how many votes of theirs are live.
    """

    asset: str
    state: str
    reported_at: int | None
    last_known: int
    since: int
    agents: int
    record: Votes


def ranges(scenario: Scenario, reason: Reason, age: int, now: int) -> list[Part[AssetState]]:
    """Return what a reason finds, as ranges of an index; age: in ms."""
    rows, before = visible(scenario.name), now - age
    voteless = rows.filter(voteless_in__isnull=False)
    if reason == "voteless":
        return [Part(voteless, _by("voteless_in"))]
    if reason == "pinned":
        every = AssetState.objects.filter(scenario=scenario.name, overridden=True)
        pinned = every.filter(override_since__lt=before)
        return [Part(pinned, _by("override_since"))]
    expired = before + (scenario.lifetime or 0)
    long_gone = rows.filter(voteless_in__lte=quarter_of(expired), changed_at__lt=expired)
    unheard = rows.filter(reported_in__lte=quarter_of(before), reported_at__lt=before)
    return [Part(long_gone, _by("voteless_in")), Part(unheard, _by("reported_in"))]


def _by(column: str) -> Order:
    return Order(column, down=False)


def count(scenario: Scenario, reason: Reason, age: int, now: int) -> Count:
    """Return how many assets a reason finds, counted up to a bound."""
    n = 0
    for each in ranges(scenario, reason, age, now):
        n += each.rows.order_by().values("pk")[: MOST_COUNTED + 1 - n].count()
    return Count(min(n, MOST_COUNTED), n > MOST_COUNTED)


def page(
    scenario: Scenario, reason: Reason, age: int, now: int, after: Place | None = None
) -> Page[Line]:
    """Return a page of what a reason finds, the oldest first."""
    page = page_of_parts(ranges(scenario, reason, age, now), PAGE, after)
    return Page([_line(scenario, row) for row in page.rows], page.following)


def _line(scenario: Scenario, row: AssetState) -> Line:
    record = votes_value(row.record)
    agents = [v for v in record.votes if not v.agent.startswith(USER_PREFIX)]
    silent = [v.time for v in agents if v.silent is not None]
    expired = row.changed_at - (scenario.lifetime or 0)
    return Line(
        asset=row.asset,
        state=row.state,
        reported_at=row.reported_at,
        last_known=max(silent, default=expired),
        since=row.since,
        agents=len(agents) - len(silent),
        record=record,
    )
