"""The letters that a page shows: filtered, sorted and paged."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import urlencode

from django import forms
from django.db.models import BigIntegerField, Count, ExpressionWrapper, F, Q, QuerySet
from django.http import HttpRequest

from dashboard.core.common.metrics import DEAD_LETTERS, MetricFamily
from dashboard.core.common.tables import Column, ListOrder, Page, Table, page_after
from dashboard.core.common.times import HOUR_MS
from dashboard.core.states.filter_forms import VocabularyForm
from dashboard.core.states.vocabularies import (
    ChoiceKey,
    ListFilter,
    TextKey,
    TimeKey,
    Vocabulary,
    choice_of,
    period,
    scenario_key,
)
from dashboard.operate.dead_letters.models import OPEN, OUTCOMES, DeadLetter, DeadLetterQuerySet
from domain.records import LETTER_REASONS
from wire.source import MAX_RECORD

# ---- dead letters --------------------------------------------------------------------------------
# The letters that a page shows: filtered, sorted and paged, with figures for all of them.

PAGE = 100
"""Letters per page."""
ORDERS = {
    "time": "appended_at",
    "reason": "reason",
    "source": "topic",
    "asset": "asset",
    "agent": "agent",
    "size": "size",
}
"""Sort key and column; a leading `-` reverses the order."""
LETTERS = Table(
    "",
    Column.time("Appended", name="time"),
    "Reason",
    "Asset",
    "Agent",
    "Source",
    Column.number("Bytes", name="size"),
    Column("Repeated", "how often the job emitted it again after replays", numeric=True),
    Column("Status"),
    css="letter-table",
).with_choice("Select all open letters on this page")
HOURS = 48
"""Hours that the histogram shows."""


ANY = "any"
"""Matches letters of every status."""
STATUS_TITLES = OUTCOMES | {ANY: "of any status"}


def _of_status(status: str) -> Q:
    """Return the condition for letters of a status. That of ANY holds for all, also under `not`
    and beside others, where an empty Q is lost."""
    return ~Q(pk__in=()) if status == ANY else Q(status=status)


DEFAULT = f"status:{OPEN}"
LETTER_VOCABULARY = Vocabulary(
    word=lambda text: Q(asset__icontains=text) | Q(agent__icontains=text),
    example="an asset or agent, status:any",
    default=DEFAULT,
    keys=(
        ChoiceKey("status", "its status", choice_of(STATUS_TITLES), _of_status),
        ChoiceKey("reason", "why it was refused", choice_of(LETTER_REASONS), "reason"),
        scenario_key(),
        TextKey("asset", "the whole name", "asset"),
        TextKey("agent", "the whole name", "agent"),
        TextKey("topic", "its topic", "topic"),
        TimeKey("time", "when it was appended", "appended_at"),
    ),
    links=period("time"),
)


@dataclass(frozen=True, slots=True)
class LetterFilter:
    """A filter, an order, and the letter after which a page begins."""

    asked: ListFilter = field(default_factory=lambda: LETTER_VOCABULARY.read(DEFAULT, 0))
    sort: str = "-time"
    after: int | None = None

    def rows(self, without: str = "") -> DeadLetterQuerySet:
        """Return the letters that pass the filter, ignoring the terms of a key."""
        return DeadLetter.objects.filter(self.asked.besides(without))

    @property
    def narrowed(self) -> bool:
        """Whether the filter has any term besides the status."""
        return any(term.key != "status" for term in self.asked.terms.terms)

    def query(self, sort: str = "") -> str:
        """Return the filter as a query string. sort: another order."""
        return urlencode({"q": str(self.asked.terms), "sort": sort or self.sort})

    def changed(self, key: str, *values: str) -> str:
        """Return the query string of the filter with these values of a key."""
        return urlencode({"q": self.asked.changed(key, *values), "sort": self.sort})


def page(criteria: LetterFilter, size: int = PAGE) -> Page[DeadLetter]:
    """Return one page of letters without their bytes; the next begins after its last id."""
    order = ListOrder(ORDERS[criteria.sort.lstrip("-")], criteria.sort.startswith("-"))
    return page_after(_without_bytes(criteria.rows()), order, size, criteria.after)


def _without_bytes(rows: QuerySet[DeadLetter]) -> QuerySet[DeadLetter]:
    return rows.defer("key", "value", "headers")


class HistogramBar(NamedTuple):
    """An hour of the histogram. start: Unix ms; height: 0-100, relative to the fullest hour."""

    start: int
    n: int
    height: int


@dataclass(frozen=True, slots=True)
class LetterCounts:
    """Counts of the letters that pass the filter; each ignores its own part of the filter."""

    total: int
    open: int
    newest: int
    reasons: list[tuple[str, int]]
    sources: list[tuple[str, int]]
    statuses: Mapping[str, int]
    bars: list[HistogramBar]
    before: int
    """Letters from before the histogram's first hour."""


def figures(criteria: LetterFilter, now: int) -> LetterCounts:
    """Return the figures for a filter at `now` (Unix ms)."""
    statuses = _counts(criteria.rows("status"), "status")
    bars, before = _histogram(criteria, now)
    newest = criteria.rows().order_by("-id").values_list("id", flat=True).first()
    return LetterCounts(
        total=criteria.rows().count(),
        open=DeadLetter.objects.open().count(),
        newest=newest or 0,
        reasons=_by_number(_counts(criteria.rows("reason"), "reason")),
        sources=_by_number(_counts(criteria.rows("scenario"), "scenario")),
        statuses=statuses,
        bars=bars,
        before=before,
    )


def _counts(rows: QuerySet[DeadLetter], column: str) -> dict[str, int]:
    return dict(rows.order_by().values_list(column).annotate(n=Count("id")))


def _by_number(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))


def _histogram(criteria: LetterFilter, now: int) -> tuple[list[HistogramBar], int]:
    """Return the last hours up to now, and how many letters are older."""
    last = now // HOUR_MS
    first = last - HOURS + 1
    rows = criteria.rows("time")
    hour = ExpressionWrapper(F("appended_at") / HOUR_MS, output_field=BigIntegerField())
    shown = rows.filter(appended_at__gte=first * HOUR_MS).annotate(hour=hour)
    counts = dict(shown.order_by().values_list("hour").annotate(n=Count("id")))
    most = max(counts.values(), default=0)
    bars = [
        HistogramBar(
            at * HOUR_MS, counts.get(at, 0), -(-100 * counts.get(at, 0) // most) if most else 0
        )
        for at in range(first, last + 1)
    ]
    return bars, rows.filter(appended_at__lt=first * HOUR_MS).count()


def open_letters(_request: HttpRequest) -> dict[str, Callable[[], int]]:
    """Return `open_letters` for templates; it is counted only when a page shows it, to admins."""
    return {"open_letters": DeadLetter.objects.count_open}


# ---- dead letters --------------------------------------------------------------------------------
# Forms for dead letters: a filter, an edited record, a reason, a selection.

MAX_MANY = 1_000
"""Most letters that are processed at once."""
MAX_WHY = 500


class LetterFilterForm(VocabularyForm):
    """The filter, order and page in a URL."""

    vocabulary = LETTER_VOCABULARY
    before = None
    PLACES = ("sort", "after")

    sort = forms.ChoiceField(required=False, widget=forms.HiddenInput)
    after = forms.IntegerField(
        required=False, min_value=1, max_value=2**63 - 1, widget=forms.HiddenInput
    )

    def __init__(self, data: Any) -> None:
        super().__init__(data)
        self.offer("sort", [(way + name, name) for name in ORDERS for way in ("", "-")])

    def criteria(self) -> LetterFilter:  # type: ignore[override]
        """Return the filter. The form must be valid."""
        data = self.cleaned_data
        return LetterFilter(self.asked, data["sort"] or "-time", data["after"])


class RecordForm(forms.Form):
    """A record's key and value, to be sent as entered."""

    key = forms.CharField(max_length=4_096, strip=False, label="Key: the asset", required=False)
    value = forms.CharField(
        max_length=MAX_RECORD,
        strip=False,
        required=False,
        widget=forms.Textarea(attrs={"rows": 12, "spellcheck": "false"}),
    )

    def record(self) -> tuple[bytes, bytes]:
        """Return the key and value of a valid form, as bytes; CRLF in the value becomes LF."""
        key = self.cleaned_data["key"].encode(errors="replace")
        value = self.cleaned_data["value"].replace("\r\n", "\n")
        return key, value.encode(errors="replace")


class WhyForm(forms.Form):
    """The reason for discarding letters."""

    why = forms.CharField(max_length=MAX_WHY, label="Reason")


class ManyForm(forms.Form):
    """The selected letters: their ids, or all that a filter finds, oldest first."""

    ids = forms.CharField(required=False, max_length=20 * MAX_MANY, widget=forms.HiddenInput)
    all = forms.BooleanField(required=False)

    def clean_ids(self) -> list[int]:
        """Return the ids in ascending order. Raises ValidationError."""
        parts = [part for part in self.cleaned_data["ids"].split(",") if part]
        if len(parts) > MAX_MANY or not all(p.isascii() and p.isdigit() for p in parts):
            raise forms.ValidationError(f"ids: expected at most {MAX_MANY:,} numbers")
        return sorted({int(part) for part in parts if len(part) < 19})


# ---- metrics -------------------------------------------------------------------------------------


def metrics() -> Iterator[MetricFamily]:
    """Yield the number of dead letters, by status and reason."""
    counts = DeadLetter.objects.values_list("status", "reason").annotate(n=Count("id"))
    yield DEAD_LETTERS.family(
        ((status, reason), n) for status, reason, n in counts.order_by("status", "reason")
    )
