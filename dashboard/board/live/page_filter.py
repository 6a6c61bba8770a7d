"""The filter of a page or a socket, from its text and as a token, and the entries that it is held
against.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec
from django.db import DatabaseError

from dashboard.core.states.board_rows import Row, order_of
from dashboard.core.states.caveats import UNHANDLED
from dashboard.core.states.filter_parser import FilterError, parse, state_of
from dashboard.core.states.filter_terms import WORD, Filter, Sight, Term, Text, live_votes
from dashboard.core.states.filter_terms import Filter as Terms
from dashboard.core.states.queries import Ranking
from dashboard.watch.annotations.labels import chips_of, keys
from dashboard.watch.annotations.row_marks import NO_HAND, Hand
from domain.names import name_ok
from domain.scenario import Scenario

# ---- entries -------------------------------------------------------------------------------------
# The newest record of one asset, as a process keeps it beyond the database.

Order = tuple[Any, ...]
"""A position in the board's order, as `order_of` gives it, or a `RankedPlace`."""

SinkPartition = tuple[str, int]
"""A sink topic and one of its partitions."""
Offsets = Mapping[SinkPartition, int]


class RankedPlace(NamedTuple):
    """A position in the order of a detail. key: of `Ranking`; order: that in the board's order."""

    key: tuple[Any, ...]
    order: Order


@dataclass(slots=True)
class LiveRecord:
    """The newest record of one asset, and where it was read.

    row: None after a purge; value: the record as it stands in the topic; labels: the asset's; hand:
    what handles it; details: what agents add, by key.
    """

    asset: str
    version: str
    row: Row | None
    place: SinkPartition
    offset: int
    value: bytes = b""
    labels: Mapping[str, str] = field(default_factory=dict)
    hand: Hand = NO_HAND
    details: Mapping[str, str | float] = field(default_factory=dict)
    _json: bytes = b""

    @property
    def order(self) -> Order:
        """Return its position in the board's order. Only of an asset that is on the board."""
        assert self.row is not None
        return order_of(self.row, self.hand.holds)

    def json(self) -> bytes:
        """Return the row as JSON, made once for all sockets."""
        if not self._json:
            self._json = msgspec.json.encode(self.row)
        return self._json

    def annotate(
        self, labels: Mapping[str, str], chips: Collection[str], hand: Hand, behind: str = ""
    ) -> None:
        """Set what is known of the asset besides its states. chips: keys of the labels shown;
        behind: what it lies behind."""
        self.labels, self.hand, self._json = labels, hand, b""
        if self.row is not None:
            self.row |= {"labels": chips_of(labels, chips), "behind": behind}

    def sight(self) -> Sight:
        """Return what a filter looks at. Only of an asset that is on the board."""
        row = self.row
        assert row is not None
        votes = live_votes(self.value) if self.value else []
        return Sight(
            row["asset"],
            row["state"],
            row["since"],
            row["unconfirmed"],
            row["pending"][0] if row["pending"] else None,
            tuple(row["override"]) if row["override"] else None,
            [(vote.agent, vote.state) for vote in votes],
            self.labels,
            self.hand.by,
            any(vote.muted is not None for vote in votes),
            row["doubts"],
            self.hand.works,
            row["alarming"],
            self.details,
        )


# ---- page filter ---------------------------------------------------------------------------------
# The filter of a page or a socket: which rows, from which place in the board's order on.

# Most rows of a snapshot, and most that a browser shows.
LIMIT = 500

# What decides which rows are shown, as `Filter.page` gives it.
Page = tuple[frozenset[str], str, bool, Order | None, Terms | None, Ranking | None]

_TOKEN = re.compile(r"r(-[12]|[0-9]{1,9})\.([0-9]{1,18})\.(.+)", re.DOTALL)
# Longest token of a page, characters.
MAX_TOKEN = 300


@dataclass(frozen=True, slots=True)
class PageFilter:
    """The filter of a socket. watch: an asset to be sent even where no row of it is shown; after:
    only what comes after this place in the board's order: a later page; terms: what is requested
    beyond states and a part of the name, looked at as of `now` (Unix ms) or later; ranking: which
    rows are the first, None: by the board's order, as on every later page."""

    states: frozenset[str] = frozenset()
    q: str = ""
    rows: bool = True
    watch: str | None = None
    after: Order | None = None
    terms: Terms | None = None
    now: int = 0
    ranking: Ranking | None = None

    def order(self, row: Row, handled: bool) -> Order:
        """Return the position by which it is decided whether a row is on the page."""
        order = order_of(row, handled)
        return RankedPlace(self.ranking.key(row), order) if self.ranking else order

    def matches(self, row: Row | None) -> bool:
        """Return whether a row belongs to what is shown, be it on this page or on another."""
        if row is None or not self.rows:
            return False
        if self.states and row["state"] not in self.states:
            return False
        return not self.q or self.q.lower() in row["asset"].lower()

    def shows(self, entry: LiveRecord) -> bool:
        """Return whether an asset belongs to this page or to what follows it."""
        if not (self.matches(entry.row) and self.allows(entry)):
            return False
        return self.after is None or entry.order > self.after

    def allows(self, entry: LiveRecord) -> bool:
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
        return (self.states, self.q, self.rows, self.after, self.terms, self.ranking)


# ---- a page's place, for an address ----


def token_of_order(order: Order) -> str:
    """Return a position in the board's order, for an address: `r<place>.<since>.<asset>`."""
    place, newest, asset = order
    return f"r{place}.{-newest}.{asset}"


def order_of_token(text: str) -> Order | None:
    """Return the place that a token names; None for what is no token."""
    match = _TOKEN.fullmatch(text) if len(text) <= MAX_TOKEN else None
    if match is None or not name_ok(match[3]):
        return None
    return (int(match[1]), -int(match[2]), match[3])


# ---- typed filter --------------------------------------------------------------------------------
# The filter of a page or a socket, from its text as it was typed.

FilterProblem = dict[str, str | int]
# What is wrong with a text that is no filter: in words, where, and what may have been meant.
NO_PROBLEM: FilterProblem = {"message": "", "start": 0, "end": 0, "meant": ""}


def readable(states: Iterable[str]) -> frozenset[str]:
    """Return names of states as a database can be queried for them: PostgreSQL accepts no NUL."""
    return frozenset(state.replace("\0", "\ufffd") for state in states)


def named(scenario: Scenario, states: Iterable[str]) -> frozenset[str]:
    """Return the states that an address or a program names, by name or label.

    They are names that a database can be queried for.
    """
    return readable(state_of(state, scenario) or state for state in states)


def unknown_states(scenario: Scenario, states: Iterable[str]) -> list[str]:
    """Return which of these name no state: a board of them would be empty, as if all were well.

    An open vocabulary has any state.
    """
    if scenario.open_vocabulary:
        return []
    return [state for state in states if state_of(state, scenario) is None]


def with_states(scenario: Scenario, states: Iterable[str], text: str, now: int) -> Filter:
    """Return the filter of a text within these states (none: all). Raises FilterError."""
    criteria = parse(text, scenario, now, _keys(scenario))
    some = tuple(Text(name) for name in sorted(named(scenario, states)))
    return Filter((*criteria.terms, Term("state", some))) if some else criteria


def shown(
    scenario: Scenario, states: frozenset[str], text: str, now: int, **rest: Any
) -> PageFilter:
    """Return the rows of these states (empty: all) that the text finds; rest: as `Shown` has it.

    What is requested of states and of one part of the name alone is looked up without a further
    term: that is counted exactly and costs the least. now: Unix ms. Raises FilterError.
    """
    return filter_of(parse(text, scenario, now, _keys(scenario)), states, now, **rest)


def unhandled_among(scenario: Scenario, text: str, labels: Collection[str], now: int) -> PageFilter:
    """Return what the text finds that is unhandled. labels: the known label keys; now: Unix ms.

    Raises FilterError.
    """
    terms = parse(text, scenario, now, labels).terms
    unhandled = parse(UNHANDLED.term, scenario, now).terms
    return filter_of(Filter((*terms, *unhandled)), frozenset(), now)


def _keys(scenario: Scenario) -> tuple[str, ...] | None:
    """Return the keys that there are; None where the database does not say."""
    try:
        return keys(scenario.name)
    except DatabaseError:
        return None


def filter_of(criteria: Filter, states: frozenset[str], now: int, **rest: Any) -> PageFilter:
    """Return the rows that a parsed filter finds; states, now, rest: as for `shown`."""
    terms = list(criteria.terms)
    for term in criteria.terms:
        named = _states(term)
        both = named & states if states else named
        if both:
            states = both
            terms.remove(term)
    if len(terms) == 1 and (word := _word(terms[0])):
        return PageFilter(states, word, **rest)
    return PageFilter(states, terms=Filter(tuple(terms)) if terms else None, now=now, **rest)


def problem_of(error: FilterError) -> FilterProblem:
    """Return the error as a page and the live protocol have it."""
    return {"message": str(error), "start": error.start, "end": error.end, "meant": error.meant}


def _states(term: Term) -> frozenset[str]:
    """Return the states of which the term wants one; empty if it is about something else."""
    if term.key != "state" or term.negated:
        return frozenset()
    return frozenset(value.text for value in term.values if isinstance(value, Text))


def _word(term: Term) -> str:
    """Return the one part of the name that the term wants, or nothing."""
    if term.key != WORD or term.negated or len(term.values) > 1:
        return ""
    (value,) = term.values
    return value.text if isinstance(value, Text) else ""
