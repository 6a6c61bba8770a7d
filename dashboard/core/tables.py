"""Tables of pages: their columns, and the links to the other pages of a list.

A table's columns are declared with its rows. `{% table %}` renders head and frame from them
(`templates/_table.html`); the page's template renders the cells.

Why not django-tables2 and django-filter: tables2 renders the cells in Python too, sorts by the
address and counts its pages, whereas our cells are badges that scripts renew in place, most tables
sort in the browser, and long lists page by key. django-filter makes a queryset of fields, whereas
our filters are a language that pages, files and sockets share (`dashboard/filter_language/`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

from django.core.paginator import Page
from django.utils.http import urlencode

Sort = Literal["", "text", "number"]
Direction = Literal["", "ascending", "descending"]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    hint: what shows where somebody points at the title. name: by which an order is remembered and
    announced, the title by default. numeric: whether figures stand to the right. term: the entry
    of the glossary that the title links to. hidden: whether only screen readers get the title.
    chooses: whether its head is a box that ticks all. address, direction: of a head that is a link
    to the list in another order, and of the present order.
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
        """Return a column of buttons, whose title only screen readers get."""
        return cls(title, hidden=True)

    @property
    def key(self) -> str:
        """Return the name by which an order is remembered."""
        return self.name or self.title.lower()


class Table:
    """The columns of a table; a text stands for a column that sorts by text.

    name: under which the browser remembers an order; a table without one does not sort there.
    css: its classes. narrow: whether it is as wide as its cells, not as the page.
    """

    def __init__(
        self, name: str, *columns: Column | str, css: str = "", narrow: bool = False
    ) -> None:
        self.name, self.css, self.narrow = name, css, narrow
        self.columns = tuple(
            Column.text(column) if isinstance(column, str) else column for column in columns
        )

    def with_choice(self, title: str) -> Table:
        """Return the table with a column of boxes before the others. title: of the box that ticks
        all."""
        return self._with(Column(title, chooses=True), *self.columns)

    def ordered(self, order: str, address: Callable[[str], str]) -> Table:
        """Return the table with heads that link to other orders, numbers from the largest.

        order: a column's name, after `-` where the largest comes first. address: returns where
        the list is in an order.
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
    """Links to the other pages of a list. links: addresses by title, empty where there is no such
    page; position: which page this is, in words."""

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
        """Return the links of a page that begins after a place, none where that is empty.

        query: the list's address without the place; name: the place's part of the address;
        following: the place after which the next page begins; titles: of the two links.
        """
        first = f"?{query}" if place else ""
        parts = filter(None, (query, urlencode({name: str(following)})))
        after = f"?{'&'.join(parts)}" if following else ""
        return cls(dict(zip(titles, (first, after), strict=True)))

    @classmethod
    def numbered(cls, page: Page[Any], address: Callable[[int], str]) -> Self:
        """Return the links of a page with a number. address: returns where a page is."""
        before = address(page.previous_page_number()) if page.has_previous() else ""
        after = address(page.next_page_number()) if page.has_next() else ""
        position = f"Page {page.number:,} of {page.paginator.num_pages:,}"
        return cls({"Previous page": before, "Next page": after}, position)
