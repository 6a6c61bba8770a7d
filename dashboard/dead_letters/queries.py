"""Which letters a page shows: by filter, in order, a page at a time, with figures of the whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import urlencode

from django.core.cache import caches
from django.db.models import BigIntegerField, Count, ExpressionWrapper, F, Q, QuerySet
from django.http import HttpRequest

from dashboard.core.listing import Order, Page, page_after
from dashboard.core.tables import Column, Table
from dashboard.core.times import HOUR_MS, field_text
from dashboard.dead_letters.models import FATES, OPEN, DeadLetter

PAGE = 100
"""Letters on one page."""
ORDERS = {
    "time": "appended_at",
    "reason": "reason",
    "source": "topic",
    "asset": "asset",
    "agent": "agent",
    "size": "size",
}
"""By what a list sorts, and the column; with `-` before it the other way round."""
LETTERS = Table(
    "",
    Column.time("Appended", name="time"),
    "Reason",
    "Asset",
    "Agent",
    "Source",
    Column.number("Bytes", name="size"),
    Column("Repeated", "so often the job emitted it again, after replays", numeric=True),
    Column("Fate"),
    css="letter-table",
).with_choice("Choose all open letters on this page")
HOURS = 48
"""Hours that the histogram shows."""
COUNT_KEPT_S = 5
_COUNT = "dead-letters-open"


@dataclass(frozen=True, slots=True)
class Wanted:
    """A filter, an order, and the letter after which a page begins. start, end: Unix ms."""

    reason: str = ""
    scenario: str = ""
    q: str = ""
    fate: str = OPEN
    start: int | None = None
    end: int | None = None
    sort: str = "-time"
    after: int | None = None

    def rows(self, without: str = "") -> QuerySet[DeadLetter]:
        """Return the letters that pass the filter, or pass it but for one of its parts."""
        parts = {
            "reason": Q(reason=self.reason) if self.reason else Q(),
            "scenario": Q(scenario=self.scenario) if self.scenario else Q(),
            "fate": Q(fate=self.fate) if self.fate in FATES else Q(),
            "q": Q(asset__icontains=self.q) | Q(agent__icontains=self.q) if self.q else Q(),
        }
        if without != "time":
            parts["start"] = Q() if self.start is None else Q(appended_at__gte=self.start)
            parts["end"] = Q() if self.end is None else Q(appended_at__lt=self.end)
        wanted = Q()
        for name, part in parts.items():
            if name != without:
                wanted &= part
        return DeadLetter.objects.filter(wanted)

    @property
    def narrowed(self) -> bool:
        """Whether more than the fate is asked for."""
        times = self.start is not None or self.end is not None
        return bool(self.reason or self.scenario or self.q or times)

    def query(self, **changes: Any) -> str:
        """Return the filter as a URL has it, with changes; an empty value takes a part out."""
        told = {
            "reason": self.reason,
            "scenario": self.scenario,
            "q": self.q,
            "fate": self.fate,
            "start": moment_text(self.start),
            "end": moment_text(self.end),
            "sort": self.sort,
        }
        return urlencode({name: value for name, value in (told | changes).items() if value})


def moment_text(at: int | None) -> str:
    """Return a moment (Unix ms) as a datetime-local field has it, in UTC; empty for None."""
    return "" if at is None else field_text(at)


def page(wanted: Wanted, size: int = PAGE) -> Page[DeadLetter]:
    """Return one page of letters without their bytes; the next begins after its last number."""
    order = Order(ORDERS[wanted.sort.lstrip("-")], wanted.sort.startswith("-"))
    return page_after(_without_bytes(wanted.rows()), order, size, wanted.after)


def _without_bytes(rows: QuerySet[DeadLetter]) -> QuerySet[DeadLetter]:
    return rows.defer("key", "value", "headers")


class Bar(NamedTuple):
    """An hour of the histogram. start: Unix ms; height: 0-100, of the fullest hour's."""

    start: int
    n: int
    height: int


@dataclass(frozen=True, slots=True)
class Figures:
    """Counts of what passes the filter, each without regard to its own part of it."""

    total: int
    open: int
    newest: int
    reasons: list[tuple[str, int]]
    sources: list[tuple[str, int]]
    fates: Mapping[str, int]
    bars: list[Bar]
    before: int
    """Letters before the histogram's first hour."""


def figures(wanted: Wanted, now: int) -> Figures:
    """Return the figures of a filter at `now` (Unix ms)."""
    fates = _counts(wanted.rows("fate"), "fate")
    bars, before = _histogram(wanted, now)
    newest = wanted.rows().order_by("-id").values_list("id", flat=True).first()
    return Figures(
        total=wanted.rows().count(),
        open=DeadLetter.objects.filter(fate=OPEN).count(),
        newest=newest or 0,
        reasons=_by_number(_counts(wanted.rows("reason"), "reason")),
        sources=_by_number(_counts(wanted.rows("scenario"), "scenario")),
        fates=fates,
        bars=bars,
        before=before,
    )


def _counts(rows: QuerySet[DeadLetter], column: str) -> dict[str, int]:
    return dict(rows.order_by().values_list(column).annotate(n=Count("id")))


def _by_number(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))


def _histogram(wanted: Wanted, now: int) -> tuple[list[Bar], int]:
    """Return the last hours up to now, and how many letters are older than these."""
    last = now // HOUR_MS
    first = last - HOURS + 1
    rows = wanted.rows("time")
    hour = ExpressionWrapper(F("appended_at") / HOUR_MS, output_field=BigIntegerField())
    shown = rows.filter(appended_at__gte=first * HOUR_MS).annotate(hour=hour)
    found = dict(shown.order_by().values_list("hour").annotate(n=Count("id")))
    most = max(found.values(), default=0)
    bars = [
        Bar(at * HOUR_MS, found.get(at, 0), -(-100 * found.get(at, 0) // most) if most else 0)
        for at in range(first, last + 1)
    ]
    return bars, rows.filter(appended_at__lt=first * HOUR_MS).count()


def count_open() -> int:
    """Return how many letters are open, as of a few seconds ago at most."""
    found = caches["figures"].get(_COUNT)
    if found is None:
        found = DeadLetter.objects.filter(fate=OPEN).count()
        caches["figures"].set(_COUNT, found, COUNT_KEPT_S)
    return int(found)


def forget_count() -> None:
    """Drop the count that is kept, so that this process counts again when next asked."""
    caches["figures"].delete(_COUNT)


def open_letters(_request: HttpRequest) -> dict[str, Callable[[], int]]:
    """Return `open_letters` for templates; counted only where a page shows it, to admins."""
    return {"open_letters": count_open}
