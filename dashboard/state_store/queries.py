"""Readings as the page lists them. Times in Unix ms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
from django.db.models import Case, Count, F, IntegerField, QuerySet, Value, When
from django.utils.http import urlencode

from dashboard.core.tables import Column, Table
from dashboard.state_store.comparison import VERDICTS
from dashboard.state_store.forms import ORDERS
from dashboard.state_store.models import Reading, StoredRow
from domain.overlay import LIVE_KEYS, overlay_text
from wire.batch_query import StoredAsset, StoredBucket

PAGE = 100
"""Rows of one page."""
ROWS = Table(
    "", Column.text("Status", name="standing"), "Asset", Column.number("Partition"), "State",
    "Since", Column.number("Votes"), "Due", Column("On the board"), Column("Side by side"),
    css="stored",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Shown:
    """The part of a reading that is requested."""

    verdict: str = ""
    q: str = ""
    sort: str = "standing"
    page: int = 1

    def query(self, **changes: Any) -> str:
        """Return the address that shows this, with changes."""
        names = ("verdict", "q", "sort", "page")
        values = {name: getattr(self, name) for name in names} | changes
        plain = {"verdict": "", "q": "", "sort": "standing", "page": 1}
        return "?" + urlencode({name: v for name, v in values.items() if v != plain[name]})

    @property
    def table(self) -> Table:
        """Return the rows' table: the heads sort by their columns."""
        return ROWS.ordered(self.sort, lambda order: self.query(sort=order, page=1))


def rows_of(reading: Reading, shown: Shown) -> QuerySet[StoredRow]:
    """Return the rows that are requested, in their order."""
    ranks = [When(verdict=name, then=Value(at)) for at, name in enumerate(VERDICTS)]
    rows = StoredRow.objects.filter(reading=reading).annotate(
        rank=Case(*ranks, default=Value(len(ranks)), output_field=IntegerField())
    )
    if shown.verdict:
        rows = rows.filter(verdict=shown.verdict)
    if shown.q:
        rows = rows.filter(asset__contains=shown.q)
    field = F(ORDERS[shown.sort.removeprefix("-")])
    order = field.desc(nulls_last=True) if shown.sort[0] == "-" else field.asc(nulls_last=True)
    return rows.order_by(order, "asset")


def counts(reading: Reading, shown: Shown) -> list[dict[str, Any]]:
    """Return how many rows there are of each verdict."""
    rows = StoredRow.objects.filter(reading=reading).values_list("verdict").annotate(n=Count("pk"))
    counted = dict(rows.order_by())
    return [
        {
            "name": name,
            "word": word,
            "icon": icon,
            "colour": colour,
            "hint": hint,
            "n": counted.get(name, 0),
            "query": shown.query(verdict=name, page=1),
        }
        for name, (word, icon, colour, hint) in VERDICTS.items()
    ]


def buckets_of(reading: Reading) -> list[dict[str, Any]]:
    """Return the buckets that were read, with their rules as text."""
    buckets = msgspec.json.decode(reading.buckets, type=list[StoredBucket])
    return [{"is": bucket, "rule": overlay_text(_live(bucket.rule))} for bucket in buckets]


def _live(rule: dict[str, Any]) -> dict[str, Any]:
    """Return of a scenario what makes its rule, without what is not set."""
    return {name: rule[name] for name in LIVE_KEYS if rule.get(name) not in (None, {})}


def stored_of(row: StoredRow) -> StoredAsset | None:
    """Return what the store has, None where it has nothing."""
    return msgspec.json.decode(row.record, type=StoredAsset) if row.record else None
