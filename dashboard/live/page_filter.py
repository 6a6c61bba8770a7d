"""The filter of a page or a socket: which rows, from which place in the board's order on."""

from __future__ import annotations

import re
from dataclasses import dataclass

from dashboard.filter_language.terms import Filter as Terms
from dashboard.live.entries import Entry
from dashboard.states.board_rows import Row, order_of
from domain.names import name_ok

# Most rows of a snapshot, and most that a browser shows.
LIMIT = 500

# A place in the board's order, as `order_of` gives it.
Order = tuple[int, int, str]
# What decides which rows are shown, as `Filter.page` gives it.
Page = tuple[frozenset[str], str, bool, Order | None, Terms | None]

_TOKEN = re.compile(r"r(-[12]|[0-9]{1,9})\.([0-9]{1,18})\.(.+)", re.DOTALL)
# Longest token of a page, characters.
MAX_TOKEN = 300


@dataclass(frozen=True, slots=True)
class Filter:
    """The filter of a socket. watch: an asset to be sent even where no row of it is shown; after:
    only what comes after this place in the board's order: a later page; terms: what is requested
    beyond states and a part of the name, looked at as of `now` (Unix ms) or later."""

    states: frozenset[str] = frozenset()
    q: str = ""
    rows: bool = True
    watch: str | None = None
    after: Order | None = None
    terms: Terms | None = None
    now: int = 0

    def matches(self, row: Row | None) -> bool:
        """Return whether a row belongs to what is shown, be it on this page or on another."""
        if row is None or not self.rows:
            return False
        if self.states and row["state"] not in self.states:
            return False
        return not self.q or self.q.lower() in row["asset"].lower()

    def shows(self, row: Row | None) -> bool:
        """Return whether a row belongs to this page or to what follows it."""
        if row is None or not self.matches(row):
            return False
        return self.after is None or order_of(row) > self.after

    def allows(self, entry: Entry) -> bool:
        """Return whether an asset on the board meets the terms beyond states and name."""
        if self.terms is None or entry.row is None:
            return entry.row is not None
        return self.terms.matches(entry.sight(), max(self.now, entry.row["caused_at"]))

    @property
    def timed(self) -> bool:
        """Return whether the passing of time alone changes what it finds."""
        return self.terms is not None and self.terms.timed

    def page(self) -> Page:
        """Return what of it decides which rows are shown."""
        return (self.states, self.q, self.rows, self.after, self.terms)


# ---- a page's place, for an address ----


def token_of(row: Row) -> str:
    """Return a row's place in the board's order, for an address."""
    return token_of_order(order_of(row))


def token_of_order(order: Order) -> str:
    """Return a place in the board's order, for an address: `r<rank>.<since>.<asset>`."""
    rank, newest, asset = order
    return f"r{rank}.{-newest}.{asset}"


def order_of_token(text: str) -> Order | None:
    """Return the place that a token names; None for what is no token."""
    match = _TOKEN.fullmatch(text) if len(text) <= MAX_TOKEN else None
    if match is None or not name_ok(match[3]):
        return None
    return (int(match[1]), -int(match[2]), match[3])
