"""A recount held against the hours that are summed up. Times in Unix ms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from dashboard.core.tables import Column, Table
from dashboard.maintenance.windows import excluded_between
from dashboard.recounts.ingestion import FIELDS
from dashboard.recounts.models import Recount
from dashboard.summaries.models import HourRow
from dashboard.summaries.observation import gaps_between, ms_within
from domain.history.runs import merged
from wire.batch_query import RecountTotals

MOST_EXCLUDED = 1_000
"""Most assets whose maintenance windows go along with a request."""
MOST_DIFFERENT = 200
"""Most hours that are shown to differ."""
SUMS = FIELDS[1:]
WORDS = ("Good", "Bad", "Unconfirmed", "Maintenance", "Attacks begun")
KINDS = Table(
    "recount-kinds", "What", Column.number("From the log"), Column.number("As summed up"),
    Column.number("Difference"),
)  # fmt: skip
HOURS = Table("recount-hours", Column.time("Hour"), *map(Column.number, WORDS))


class TooManyWindows(Exception):
    """More assets have maintenance windows than a request takes along."""

    def __init__(self) -> None:
        super().__init__(
            f"More than {MOST_EXCLUDED:,} assets have maintenance windows then: take less time."
        )


class Kind(NamedTuple):
    """What of a recount, in words, and the sums: from the log, as summed up."""

    what: str
    logged: int
    summed: int
    is_time: bool

    @property
    def difference(self) -> int:
        """How much more the log has."""
        return self.logged - self.summed


class Hour(NamedTuple):
    """An hour that differs: what the log has more of, in the order of SUMS."""

    begin: int
    differences: tuple[int, ...]


@dataclass(frozen=True)
class Comparison:
    """hours: compared; kinds: their sums; different: the hours that differ, the first of them;
    missing: hours that are not summed up, or not observed as a whole, and compared with nothing."""

    hours: int
    kinds: list[Kind]
    different: list[Hour]
    different_total: int
    missing: int


def totals_of(recount: Recount) -> RecountTotals | None:
    """Return what a recount comes to, None while it is under way."""
    return msgspec.json.decode(recount.totals, type=RecountTotals) if recount.totals else None


def comparison(recount: Recount, totals: RecountTotals) -> Comparison:
    """Compare a finished recount with the hours that are summed up and lie wholly in it. The log
    tells of times that nobody observed, too: hours with such a time are left out."""
    logged = {row[0]: row[1:] for row in recount.hours.values_list(*FIELDS)}
    rows = HourRow.objects.filter(
        scenario=recount.scenario, begin__gte=totals.since, end__lte=totals.until
    )
    gaps = gaps_between(recount.scenario, totals.since, totals.until)
    summed = {
        row.begin: tuple(getattr(row, name) for name in SUMS)
        for row in rows
        if not ms_within(gaps, row.begin, row.end)
    }
    common = sorted(logged.keys() & summed.keys())
    hours = [_hour(at, logged[at], summed[at]) for at in common]
    different = [hour for hour in hours if any(hour.differences)]
    kinds = [
        Kind(
            word,
            sum(logged[at][number] for at in common),
            sum(summed[at][number] for at in common),
            is_time=word != WORDS[-1],
        )
        for number, word in enumerate(WORDS)
    ]
    return Comparison(
        len(common), kinds, different[:MOST_DIFFERENT], len(different), len(logged) - len(common)
    )


def _hour(begin: int, logged: tuple[int, ...], summed: tuple[int, ...]) -> Hour:
    return Hour(begin, tuple(one - other for one, other in zip(logged, summed, strict=True)))


def excluded(scenario: str, begin: int, end: int) -> dict[str, list[tuple[int, int]]]:
    """Return when which assets are in a window that availability leaves out, as a recount is sent:
    by asset, and under "" for all others. Raises TooManyWindows."""
    times = excluded_between(scenario, begin, end)
    if len(times.by_asset) > MOST_EXCLUDED:
        raise TooManyWindows
    of_all = {"": times.everywhere} if times.everywhere else {}
    return of_all | {
        asset: merged([*times.everywhere, *spans]) for asset, spans in times.by_asset.items()
    }
