"""Sort orders of a page's rows, where they are not in the board's own.

`static/js/board/order.js` says the same in the browser.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from dashboard.states.board_rows import Row

Key = Callable[[Row], Any]


class Column(NamedTuple):
    """A column of the board. rises: which of the two orders of its first sort it is, as
    `aria-sort` has it; "" where rows are not sorted by it."""

    name: str
    title: str
    rises: str = ""


COLUMNS = (
    Column("asset", "", "ascending"),
    Column("state", "State", "descending"),
    Column("since", "Since", "ascending"),
    Column("votes", "Votes", "descending"),
    Column("pending", "Pending", "ascending"),
    Column("cause", "Last cause"),
)
# What of a row may be left out.
CHOSEN = (("since", "Since"), ("labels", "Labels"), ("votes", "Votes"), ("pending", "Pending"),
          ("cause", "Last cause"))  # fmt: skip
# Every order that a page may be asked for, and in words. "": the board's own.
OFFERED = (
    ("", "most severe first"),
    ("-state", "least severe first"),
    ("asset", "name, a to z"),
    ("-asset", "name, z to a"),
    ("since", "newest state first"),
    ("-since", "oldest state first"),
    ("votes", "most votes first"),
    ("-votes", "fewest votes first"),
    ("pending", "what changes soonest"),
)

_KEYS: dict[str, Key] = {
    "asset": lambda row: row["asset"],
    "since": lambda row: -row["since"],
    "votes": lambda row: -(len(row["votes"]) + row["more_votes"]),
    "pending": lambda row: row["pending"][1] if row["pending"] else float("inf"),
}
_NAMES = frozenset(name for name, _ in OFFERED)


def sort_of(text: str) -> str:
    """Return the order that an address requests; "" for one that there is not."""
    return text if text in _NAMES else ""


def sorted_rows(rows: Iterable[Row], sort: str) -> list[Row]:
    """Return a page's rows, which come in the board's order, in this one.

    Equals stay as they came.
    """
    listed, name = list(rows), sort.removeprefix("-")
    if name == "state":
        return listed[::-1]
    key = _KEYS.get(name)
    return sorted(listed, key=key, reverse=sort.startswith("-")) if key else listed


def next_sort(column: Column, sort: str) -> str:
    """Return what a column's head requests: its order, then the reverse, then the board's own."""
    first = "" if column.name == "state" else column.name
    other = f"-{column.name}"
    if sort == first:
        return other if other in _NAMES else ""
    return "" if sort == other else first


def direction(column: Column, sort: str) -> str:
    """Return how the page is sorted by a column, as `aria-sort` has it; "" where it is not."""
    if not column.rises or (sort.removeprefix("-") or "state") != column.name:
        return ""
    turned = {"ascending": "descending", "descending": "ascending"}
    return turned[column.rises] if sort.startswith("-") else column.rises
