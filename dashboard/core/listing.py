"""Lists of rows: an order that pages and files follow, and the files that hold a whole list."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, NamedTuple, Self, TypeVar

from django.db.models import Model, Q, QuerySet
from django.forms import Form
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase

from dashboard.core.exports import CONTENT_TYPES, attachment, faults_of, unprocessable, written
from dashboard.core.tables import Pager

M = TypeVar("M", bound=Model)
R = TypeVar("R")


class Order(NamedTuple):
    """An order in which no two rows are equal: by a column, then by number, both down or up."""

    column: str = "pk"
    down: bool = True

    def of(self, rows: QuerySet[M]) -> QuerySet[M]:
        """Return rows in this order."""
        way = "-" if self.down else ""
        return rows.order_by(*(way + name for name in self.columns))

    def after(self, rows: QuerySet[M], place: Sequence[Any]) -> QuerySet[M]:
        """Return the rows that follow a place, which one of them may have had."""
        return self.of(rows.filter(self._beyond(place, "lt" if self.down else "gt")))

    def after_number(self, rows: QuerySet[M], number: int) -> QuerySet[M]:
        """Return the rows that follow the row of a number; where that one is gone, those that were
        stored before it."""
        last = rows.model._default_manager.filter(pk=number).first()  # noqa: SLF001 - documented
        if last is None:
            return self.of(rows.filter(pk__lt=number))
        return self.after(rows, self.place_of(last))

    def down_to(self, rows: QuerySet[M], place: Sequence[Any]) -> QuerySet[M]:
        """Return the rows that stand before a place, or on it."""
        return rows.filter(self._beyond(place, "gt" if self.down else "lt", "e"))

    def place_of(self, row: Model) -> tuple[Any, ...]:
        """Return a row's place: the values of the columns that it is ordered by."""
        return tuple(getattr(row, name) for name in self.columns)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that rows are ordered by."""
        return (self.column,) if self.column == "pk" else (self.column, "pk")

    def _beyond(self, place: Sequence[Any], way: str, equal: str = "") -> Q:
        """Return the condition of what lies to one side of a place; equal: "e" with the place."""
        *first, last = self.columns
        beyond = Q(**{f"{last}__{way}{equal}": place[-1]})
        if not first:
            return beyond
        value = place[0]  # the first condition alone is one that an index can answer
        return Q(**{f"{self.column}__{way}e": value}) & (
            Q(**{f"{self.column}__{way}": value}) | beyond
        )


NEWEST_FIRST = Order()


@dataclass(frozen=True, slots=True)
class Page(Generic[R]):
    """Rows of a list, and what the next page begins after; None where there is none.

    ended_early: so many rows were looked at that a part of them had to do.
    """

    rows: list[R]
    following: Any = None
    ended_early: bool = False


def page_of(
    rows: QuerySet[M], order: Order, size: int, after: Sequence[Any] | None = None
) -> Page[M]:
    """Return the first rows of a list, or those after a place, and the place of the last one where
    more follow."""
    found = list((order.of(rows) if after is None else order.after(rows, after))[: size + 1])
    more = len(found) > size
    return Page(found[:size], order.place_of(found[size - 1]) if more else None)


def page_after(rows: QuerySet[M], order: Order, size: int, number: int | None) -> Page[M]:
    """Return the rows that follow the row of a number, or the first ones where there is no such
    row any more; `following` is the number of the last one."""
    last = rows.model._default_manager.filter(pk=number).first()  # noqa: SLF001 - documented API
    page = page_of(rows, order, size, order.place_of(last) if last else None)
    return replace(page, following=page.following and page.following[-1])


def number_of(text: str) -> int | None:
    """Return the number of a row that an address names; None for what is no number."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None


class Part(NamedTuple, Generic[M]):
    """A part of a list that has its own order, so that an index can give it."""

    rows: QuerySet[M]
    order: Order


class Place(NamedTuple):
    """Where a page begins: after the row with this number and value, of this part of a list."""

    part: int
    value: int
    pk: int

    def __str__(self) -> str:
        return f"{self.part}.{self.value}.{self.pk}"

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Return the place that a text names; None for what is no place."""
        numbers = [number for part in text.split(".") if (number := number_of(part)) is not None]
        return cls(*numbers) if len(numbers) == text.count(".") + 1 == 3 else None


def page_of_parts(parts: Sequence[Part[M]], size: int, after: Place | None = None) -> Page[M]:
    """Return the first rows of a list whose parts follow each other, or those after a place."""
    entries: list[tuple[Place, M]] = []
    for number, (rows, order) in enumerate(parts):
        if after is not None and number < after.part:
            continue
        begins_here = after is not None and number == after.part
        following = order.after(rows, after[1:]) if after and begins_here else order.of(rows)
        entries += [
            (Place(number, *order.place_of(row)), row)
            for row in following[: size + 1 - len(entries)]
        ]
    more = len(entries) > size
    return Page([row for _, row in entries[:size]], entries[size - 1][0] if more else None)


def portions(
    rows: QuerySet[M], order: Order, size: int, at_most: int | None = None
) -> Iterator[list[M]]:
    """Yield all rows of a list, or the first `at_most`, read a portion at a time."""
    following, left = order.of(rows), at_most
    while portion := list(following[: size if left is None else min(size, left)]):
        yield portion
        left = None if left is None else left - len(portion)
        following = order.after(rows, order.place_of(portion[-1]))


@dataclass
class Listing(Generic[M, R]):
    """A list, the newest rows first, a page at a time.

    A filter may match little of very much: so many rows are looked at for one page, no more, and
    the next page goes on from there.
    """

    shown: Callable[[M], R]
    """Returns a row as its page shows it."""
    order: Order = NEWEST_FIRST
    page_size: int = 100
    looked_at: int = 50_000

    def page(self, rows: QuerySet[M], before: int = 0) -> Page[R]:
        """Return the newest rows, or those that follow the row of a number."""
        floor = self._floor(rows, before)
        looked_at = rows if floor is None else self.order.down_to(rows, floor)
        found = list(self._following(looked_at, before)[: self.page_size + 1])
        shown = [self.shown(row) for row in found[: self.page_size]]
        if len(found) > self.page_size:
            return Page(shown, found[self.page_size - 1].pk)
        return Page(shown, floor[-1] if floor else None, floor is not None)

    def _following(self, rows: QuerySet[M], before: int) -> QuerySet[M]:
        return self.order.after_number(rows, before) if before else self.order.of(rows)

    def _floor(self, rows: QuerySet[M], before: int) -> tuple[Any, ...] | None:
        """Return the place of the last row that is looked at; None where all are."""
        every = self._following(rows.model._default_manager.all(), before)  # noqa: SLF001
        last = every.values_list(*self.order.columns)[self.looked_at - 1 : self.looked_at + 1]
        return last[0] if len(last) > 1 else None

    def context(self, rows: QuerySet[M] | None, before: int, query: str) -> dict[str, Any]:
        """Return what a page of the list is rendered with.

        rows: None where the filter has faults; before: a number, 0 on the first page; query: the
        filter as an address has it.
        """
        found = None if rows is None else self.page(rows, before)
        following = found.following if found else None
        titles = ("The newest", "Older")
        pager = Pager.by_key(query, "before", before, following, titles)
        return {"found": found, "first": not before, "query": query, "pager": pager}


@dataclass
class TableFile(Generic[M]):
    """A whole list as CSV or NDJSON, read and sent a portion at a time."""

    name: str
    columns: tuple[str, ...]
    """What a line of CSV has."""
    plain: Callable[[M], Mapping[str, Any]]
    """Returns a row as an object of NDJSON."""
    cells: Callable[[M], Mapping[str, Any]] | None = None
    """Returns a row as a line of CSV, where that has other values."""
    order: Order = NEWEST_FIRST
    portion_size: int = 1_000
    at_most: int | None = None

    def response(self, request: HttpRequest, form: str, rows: QuerySet[M]) -> HttpResponseBase:
        """Return the rows as a file of this form, or the first `at_most` of them."""
        line = self.cells if form == "csv" and self.cells else self.plain
        read = portions(rows, self.order, self.portion_size, self.at_most)
        lines = (map(line, portion) for portion in read)
        return attachment(request, written(form, self.columns, lines), self.name, form)


def file_refusal(form: str, asked: Form) -> HttpResponse | None:
    """Return why no file of this form can be made of a filter, None where one can. Raises Http404
    where there is no such form."""
    if form not in CONTENT_TYPES:
        raise Http404
    if asked.is_valid():
        return None
    return unprocessable(faults_of(asked))
