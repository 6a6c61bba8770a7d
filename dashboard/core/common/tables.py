"""Tables and lists of rows: columns, an order for pages and files, and files with a whole list."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Literal, NamedTuple, Self, TypeVar

from django.core.paginator import Page as PaginatorPage
from django.db.models import Model, Q, QuerySet
from django.forms import Form
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.utils.http import urlencode

from dashboard.core.common.exports import (
    CONTENT_TYPES,
    attachment,
    faults_of,
    unprocessable,
    written,
)

# ---- tables --------------------------------------------------------------------------------------
# Tables on pages: their columns, and the links to the other pages of a list.
#
# A table's columns are declared with its rows. `{% table %}` renders the head and frame from them
# (`templates/_table.html`); the page's template renders the cells.
#
# Why not django-tables2 and django-filter: tables2 also renders the cells in Python, sorts by the
# URL and counts its pages, whereas our cells are badges that scripts refresh in place, most tables
# sort in the browser, and long lists page by key. django-filter turns fields into a queryset,
# whereas our filters are a language that pages, files and sockets share (`dashboard/core/states/`).

Sort = Literal["", "text", "number"]
Direction = Literal["", "ascending", "descending"]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    hint: shown when somebody points at the title. name: identifies the column when an order is
    remembered or announced; the title by default. numeric: whether figures are right-aligned. term:
    the glossary entry that the title links to. hidden: whether only screen readers get the title.
    chooses: whether its head is a box that ticks all. address, direction: for a head that links to
    the list in another order, and of the current order.
    """

    title: str
    hint: str = ""
    name: str = ""
    sort: Sort = ""
    numeric: bool = False
    term: str = ""
    hidden: bool = False
    chooses: bool = False
    address: str = ""
    direction: Direction = ""

    @classmethod
    def text(cls, title: str, hint: str = "", name: str = "") -> Self:
        """Return a column that sorts by text."""
        return cls(title, hint, name, "text")

    @classmethod
    def number(cls, title: str, hint: str = "", name: str = "", term: str = "") -> Self:
        """Return a column of figures."""
        return cls(title, hint, name, "number", numeric=True, term=term)

    @classmethod
    def time(cls, title: str, hint: str = "", name: str = "") -> Self:
        """Return a column of times, durations, or words that sort by a number."""
        return cls(title, hint, name, "number")

    @classmethod
    def unseen(cls, title: str) -> Self:
        """Return a column of buttons, whose title is only for screen readers."""
        return cls(title, hidden=True)

    @property
    def key(self) -> str:
        """Return the name under which an order is remembered."""
        return self.name or self.title.lower()


class Table:
    """The columns of a table; a text stands for a column that sorts by text.

    name: under which the browser remembers an order; a table without one does not sort there. css:
    its classes. narrow: whether it is as wide as its cells, not as the page.
    """

    def __init__(
        self, name: str, *columns: Column | str, css: str = "", narrow: bool = False
    ) -> None:
        self.name, self.css, self.narrow = name, css, narrow
        self.columns = tuple(
            Column.text(column) if isinstance(column, str) else column for column in columns
        )

    def with_choice(self, title: str) -> Table:
        """Return the table with a first column of tick boxes.

        title: of the box that ticks all.
        """
        return self._with(Column(title, chooses=True), *self.columns)

    def ordered(self, order: str, address: Callable[[str], str]) -> Table:
        """Return the table with heads that link to other orders, numbers from the largest.

        order: a column's name, after `-` if the largest comes first. address: returns the list's
        URL in an order.
        """
        down, present = order.startswith("-"), order.removeprefix("-")

        def linked(column: Column) -> Column:
            if not column.sort:
                return column
            if column.key != present:
                way = "-" if column.sort == "number" else ""
                return replace(column, address=address(way + column.key))
            direction: Direction = "descending" if down else "ascending"
            return replace(
                column, address=address(("" if down else "-") + column.key), direction=direction
            )

        return self._with(*map(linked, self.columns))

    def _with(self, *columns: Column) -> Table:
        return Table(self.name, *columns, css=self.css, narrow=self.narrow)


@dataclass(frozen=True, slots=True)
class Pager:
    """Links to the other pages of a list.

    links: URLs by title, empty if there is no such page; position: which page this is, in words.
    """

    links: Mapping[str, str]
    position: str = ""

    def __bool__(self) -> bool:
        """Return whether there is another page."""
        return any(self.links.values())

    @classmethod
    def by_key(
        cls, query: str, name: str, place: object, following: object,
        titles: tuple[str, str] = ("First page", "Next page"),
    ) -> Self:  # fmt: skip
        """Return the links of a page that begins after `place`, which is empty on the first page.

        query: the list's query without the place; name: the place's query parameter; following: the
        place after which the next page begins; titles: of the two links.
        """
        first = f"?{query}" if place else ""
        parts = filter(None, (query, urlencode({name: str(following)})))
        after = f"?{'&'.join(parts)}" if following else ""
        return cls(dict(zip(titles, (first, after), strict=True)))

    @classmethod
    def numbered(cls, page: PaginatorPage[Any], address: Callable[[int], str]) -> Self:
        """Return the links of a numbered page. address: returns a page's URL."""
        before = address(page.previous_page_number()) if page.has_previous() else ""
        after = address(page.next_page_number()) if page.has_next() else ""
        position = f"Page {page.number:,} of {page.paginator.num_pages:,}"
        return cls({"Previous page": before, "Next page": after}, position)


# ---- listing -------------------------------------------------------------------------------------
# Lists of rows: an order for pages and files, and files with a whole list.

M = TypeVar("M", bound=Model)
R = TypeVar("R")


class ListOrder(NamedTuple):
    """An order in which no two rows are equal: by a column, then by id, both down or both up."""

    column: str = "pk"
    down: bool = True

    def of(self, rows: QuerySet[M]) -> QuerySet[M]:
        """Return rows in this order."""
        way = "-" if self.down else ""
        return rows.order_by(*(way + name for name in self.columns))

    def after(self, rows: QuerySet[M], place: Sequence[Any]) -> QuerySet[M]:
        """Return the rows that follow a place, whether or not a row is still there."""
        return self.of(rows.filter(self._beyond(place, "lt" if self.down else "gt")))

    def after_number(self, rows: QuerySet[M], number: int) -> QuerySet[M]:
        """Return the rows that follow the row with this id.

        If that row is gone, return those that were stored before it.
        """
        last = rows.model._default_manager.filter(pk=number).first()  # noqa: SLF001 - documented
        if last is None:
            return self.of(rows.filter(pk__lt=number))
        return self.after(rows, self.place_of(last))

    def down_to(self, rows: QuerySet[M], place: Sequence[Any]) -> QuerySet[M]:
        """Return the rows up to a place, including the one at it."""
        return rows.filter(self._beyond(place, "gt" if self.down else "lt", "e"))

    def place_of(self, row: Model) -> tuple[Any, ...]:
        """Return a row's place: its values in the columns that it is ordered by."""
        return tuple(getattr(row, name) for name in self.columns)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that rows are ordered by."""
        return (self.column,) if self.column == "pk" else (self.column, "pk")

    def _beyond(self, place: Sequence[Any], way: str, equal: str = "") -> Q:
        """Return the condition for rows on one side of a place; equal: "e" to include the place."""
        *first, last = self.columns
        beyond = Q(**{f"{last}__{way}{equal}": place[-1]})
        if not first:
            return beyond
        value = place[0]  # only the first condition can be answered by an index
        return Q(**{f"{self.column}__{way}e": value}) & (
            Q(**{f"{self.column}__{way}": value}) | beyond
        )


NEWEST_FIRST = ListOrder()


@dataclass(frozen=True, slots=True)
class Page(Generic[R]):
    """Rows of a list, and what the next page begins after, or None.

    ended_early: whether the limit of examined rows cut the page short.
    """

    rows: list[R]
    following: Any = None
    ended_early: bool = False


def page_of(
    rows: QuerySet[M], order: ListOrder, size: int, after: Sequence[Any] | None = None
) -> Page[M]:
    """Return the first rows of a list, or those after a place.

    The page's `following` is the place of its last row, if more rows follow.
    """
    portion = list((order.of(rows) if after is None else order.after(rows, after))[: size + 1])
    more = len(portion) > size
    return Page(portion[:size], order.place_of(portion[size - 1]) if more else None)


def page_after(rows: QuerySet[M], order: ListOrder, size: int, number: int | None) -> Page[M]:
    """Return the rows that follow the row with this id, or the first rows if that row is gone.

    The page's `following` is the id of its last row.
    """
    last = rows.model._default_manager.filter(pk=number).first()  # noqa: SLF001 - documented API
    page = page_of(rows, order, size, order.place_of(last) if last else None)
    return replace(page, following=page.following and page.following[-1])


def number_of(text: str) -> int | None:
    """Return the row id that a URL names, or None if it is not a number."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None


class Part(NamedTuple, Generic[M]):
    """A part of a list with an order of its own, which an index provides."""

    rows: QuerySet[M]
    order: ListOrder


class PagePosition(NamedTuple):
    """Where a page begins: after the row with this number and value, in this part of a list."""

    part: int
    value: int
    pk: int

    def __str__(self) -> str:
        return f"{self.part}.{self.value}.{self.pk}"

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Return the position that a text describes, or None if it is not a position."""
        numbers = [number for part in text.split(".") if (number := number_of(part)) is not None]
        return cls(*numbers) if len(numbers) == text.count(".") + 1 == 3 else None


def page_of_parts(
    parts: Sequence[Part[M]], size: int, after: PagePosition | None = None
) -> Page[M]:
    """Return the first rows of a list whose parts follow each other, or those after a position."""
    entries: list[tuple[PagePosition, M]] = []
    for number, (rows, order) in enumerate(parts):
        if after is not None and number < after.part:
            continue
        begins_here = after is not None and number == after.part
        following = order.after(rows, after[1:]) if after and begins_here else order.of(rows)
        entries += [
            (PagePosition(number, *order.place_of(row)), row)
            for row in following[: size + 1 - len(entries)]
        ]
    more = len(entries) > size
    return Page([row for _, row in entries[:size]], entries[size - 1][0] if more else None)


def portions(
    rows: QuerySet[M], order: ListOrder, size: int, at_most: int | None = None
) -> Iterator[list[M]]:
    """Yield all rows of a list, or the first `at_most`, in portions."""
    following, left = order.of(rows), at_most
    while portion := list(following[: size if left is None else min(size, left)]):
        yield portion
        left = None if left is None else left - len(portion)
        following = order.after(rows, order.place_of(portion[-1]))


@dataclass
class Listing(Generic[M, R]):
    """A list in pages, newest rows first.

    A filter may match few of very many rows, so the number of rows examined for a page is limited;
    the next page continues from there.
    """

    shown: Callable[[M], R]
    """Returns a row in the form its page shows."""
    order: ListOrder
    page_size: int
    looked_at: int

    def page(self, rows: QuerySet[M], before: int = 0) -> Page[R]:
        """Return the newest rows, or those that follow the row with the id `before`."""
        floor = self._floor(rows, before)
        looked_at = rows if floor is None else self.order.down_to(rows, floor)
        portion = list(self._following(looked_at, before)[: self.page_size + 1])
        shown = [self.shown(row) for row in portion[: self.page_size]]
        if len(portion) > self.page_size:
            return Page(shown, portion[self.page_size - 1].pk)
        return Page(shown, floor[-1] if floor else None, floor is not None)

    def _following(self, rows: QuerySet[M], before: int) -> QuerySet[M]:
        return self.order.after_number(rows, before) if before else self.order.of(rows)

    def _floor(self, rows: QuerySet[M], before: int) -> tuple[Any, ...] | None:
        """Return the place of the last row to examine, or None to examine all."""
        every = self._following(rows.model._default_manager.all(), before)  # noqa: SLF001
        last = every.values_list(*self.order.columns)[self.looked_at - 1 : self.looked_at + 1]
        return last[0] if len(last) > 1 else None


@dataclass
class TableFile(Generic[M]):
    """A whole list as CSV or NDJSON, read and sent in portions."""

    name: str
    columns: tuple[str, ...]
    """The columns of a CSV line."""
    plain: Callable[[M], Mapping[str, Any]]
    """Returns a row as an NDJSON object."""
    cells: Callable[[M], Mapping[str, Any]] | None = None
    """Returns a row as a CSV line, if its values differ from the object's."""
    order: ListOrder = NEWEST_FIRST
    portion_size: int = 1_000
    at_most: int | None = None

    def response(self, request: HttpRequest, form: str, rows: QuerySet[M]) -> HttpResponseBase:
        """Return the rows, or the first `at_most` of them, as a file of this form."""
        line = self.cells if form == "csv" and self.cells else self.plain
        read = portions(rows, self.order, self.portion_size, self.at_most)
        lines = (map(line, portion) for portion in read)
        return attachment(request, written(form, self.columns, lines), self.name, form)


def file_refusal(form: str, asked: Form) -> HttpResponse | None:
    """Return the response if a filter cannot become a file of this form, or None if it can.

    Raises Http404 if there is no such form.
    """
    if form not in CONTENT_TYPES:
        raise Http404
    if asked.is_valid():
        return None
    return unprocessable(faults_of(asked))
