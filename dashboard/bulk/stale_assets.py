"""Assets that look forgotten: no report for long, no live vote, an override that is old.

Each reason is a range of an index, so that it is found among a million assets without reading
them. What a row shows: its newest live vote is renewed by reports that come 30 s or more after the
asset's last record, so its time is at most so much too old. Where no agent has a live vote any
more, the last report is that of the newest silent vote; where there is none either, it is older
than the asset's last record by a vote's lifetime or more, unless its agent left.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import msgspec
from django.db.models import QuerySet

from dashboard.bulk.targets import visible
from dashboard.core.times import DAY_MS, HOUR_MS
from dashboard.states.models import AssetState
from domain.names import USER_PREFIX
from domain.scenario import Scenario

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


class Token(NamedTuple):
    """The beginning of a page: after the row with this time and id, of this part of the reason."""

    part: int
    at: int
    pk: int

    def __str__(self) -> str:
        return f"{self.part}.{self.at}.{self.pk}"


@dataclass(frozen=True, slots=True)
class Range:
    """Rows in the order of a column, the oldest first: what an index gives as it stands."""

    rows: QuerySet[AssetState]
    column: str

    def after(self, token: Token | None, limit: int) -> list[AssetState]:
        """Return the first rows, or those past a place."""
        rows = self.rows.order_by(self.column, "pk")
        if token is None:
            return list(rows[:limit])
        same = rows.filter(**{self.column: token.at, "pk__gt": token.pk})
        first_rows = list(same[:limit])
        later = rows.filter(**{f"{self.column}__gt": token.at})
        return first_rows + list(later[: limit - len(first_rows)])


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
    record: dict[str, Any]


class Page(NamedTuple):
    """Assets of a page, and where the next one begins."""

    lines: list[Line]
    next: Token | None


def ranges(scenario: Scenario, reason: Reason, age: int, now: int) -> list[Range]:
    """Return what a reason finds, as ranges of an index; age: in ms."""
    rows, before = visible(scenario.name), now - age
    voteless = rows.filter(reported_at=None)
    if reason == "voteless":
        return [Range(voteless, "changed_at")]
    if reason == "pinned":
        every = AssetState.objects.filter(scenario=scenario.name, overridden=True)
        pinned = every.filter(override_since__lt=before)
        return [Range(pinned, "override_since")]
    long_gone = voteless.filter(changed_at__lt=before + (scenario.vote_lifetime or 0))
    return [
        Range(long_gone, "changed_at"),
        Range(rows.filter(reported_at__lt=before), "reported_at"),
    ]


def count(scenario: Scenario, reason: Reason, age: int, now: int) -> Count:
    """Return how many assets a reason finds, counted up to a bound."""
    n = 0
    for each in ranges(scenario, reason, age, now):
        n += each.rows.order_by().values("pk")[: MOST_COUNTED + 1 - n].count()
    return Count(min(n, MOST_COUNTED), n > MOST_COUNTED)


def page(
    scenario: Scenario, reason: Reason, age: int, now: int, after: Token | None = None
) -> Page:
    """Return a page of what a reason finds, the oldest first."""
    entries: list[tuple[Token, AssetState]] = []
    for part, each in enumerate(ranges(scenario, reason, age, now)):
        if after is not None and part < after.part:
            continue
        begin = after if after is not None and part == after.part else None
        rows = each.after(begin, PAGE + 1 - len(entries))
        entries += [(Token(part, getattr(row, each.column), row.pk), row) for row in rows]
        if len(entries) > PAGE:
            break
    shown = entries[:PAGE]
    following = shown[-1][0] if len(entries) > PAGE else None
    return Page([_line(scenario, row) for _, row in shown], following)


def token_of(text: str) -> Token | None:
    """Return the place that a text names; None for what is no place."""
    parts = text.split(".")
    if len(parts) != 3 or not all(p.isascii() and p.isdigit() and len(p) < 19 for p in parts):
        return None
    return Token(*(int(part) for part in parts))


def _line(scenario: Scenario, row: AssetState) -> Line:
    record = msgspec.json.decode(row.record)
    agents = [v for v in record["votes"] if not v["agent"].startswith(USER_PREFIX)]
    silent = [v["time"] for v in agents if v.get("silent") is not None]
    expired = row.changed_at - (scenario.vote_lifetime or 0)
    return Line(
        asset=row.asset,
        state=row.state,
        reported_at=row.reported_at,
        last_known=max(silent, default=expired),
        since=row.since,
        agents=len(agents) - len(silent),
        record=record,
    )
