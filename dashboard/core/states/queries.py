"""Queries on the board: rows in each order, counts, and the offsets they are current to."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from heapq import merge
from itertools import islice
from typing import Any, NamedTuple

import msgspec
from django.db import connection, transaction
from django.db.models import Count, Q, QuerySet
from django.db.models.expressions import RawSQL

from dashboard.core.common.scenarios import scenarios
from dashboard.core.states.board_rows import Row
from dashboard.core.states.caveats import (
    DOUBTS,
    LATER,
    LEAST_RANK,
    Doubts,
    alarming_ranks,
    doubts_of,
    place_of,
    ranks_of,
)
from dashboard.core.states.models import (
    DETAIL_KINDS,
    AssetState,
    DoubtCount,
    SinkOffset,
    StateCount,
)
from dashboard.core.states.name_search import candidates
from domain.names import CONTROL
from domain.scenario import MAX_DETAILS, Scenario
from wire.sink import StateValue, state_value

# ---- sort orders ---------------------------------------------------------------------------------
# Sort orders of a page's rows other than the board's own; by a detail they also choose the rows.
#
# `static/js/board/order.js` does the same in the browser.

Key = Callable[[Row], Any]


class SortColumn(NamedTuple):
    """A column of the board. rises: the direction in which it sorts first, as a value of
    `aria-sort`; "" if rows cannot be sorted by it."""

    name: str
    title: str
    rises: str = ""


_FIRST = (
    SortColumn("asset", "", "ascending"),
    SortColumn("state", "State", "descending"),
)
_LAST = (
    SortColumn("since", "Since", "ascending"),
    SortColumn("votes", "Votes", "descending"),
    SortColumn("pending", "Pending", "ascending"),
    SortColumn("cause", "Last cause"),
)
# The columns of a row that a user can hide, besides those of details.
_CHOSEN = (("since", "Since"), ("labels", "Labels"), ("votes", "Votes"), ("pending", "Pending"),
           ("cause", "Last cause"))  # fmt: skip
# Every order that an address can request of any board, with its name. "": the board's own.
_OFFERED = (
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


def columns(scenario: Scenario) -> tuple[SortColumn, ...]:
    """Return the columns of a scenario's board."""
    details = (SortColumn(each.key, each.title, "descending") for each in scenario.details)
    return (*_FIRST, *details, *_LAST)


def chosen_columns(scenario: Scenario) -> list[tuple[str, str]]:
    """Return name and title of the columns that a user can hide; a detail's is its place."""
    details = ((f"d{n}", detail.title) for n, detail in enumerate(scenario.details, 1))
    return [*details, *_CHOSEN]


def orders(scenario: Scenario) -> list[tuple[str, str]]:
    """Return every order of a scenario's board, with its name."""
    choices = list(_OFFERED)
    for each in scenario.details:
        title = each.title.lower()
        choices += [
            (each.key, f"{title}, highest first"),
            (f"-{each.key}", f"{title}, lowest first"),
        ]
    return choices


def sort_of(scenario: Scenario, text: str) -> str:
    """Return the order that an address requests; "" if there is no such order."""
    return text if text in dict(orders(scenario)) else ""


def sorted_rows(scenario: Scenario, rows: Iterable[Row], sort: str) -> list[Row]:
    """Return a page's rows, given in the board's order, sorted in the order `sort`.

    The sort is stable.
    """
    listed, name = list(rows), sort.removeprefix("-")
    if name == "state":
        return listed[::-1]
    if ranking := ranking_of(scenario, sort):
        return sorted(listed, key=ranking.key)
    key = _KEYS.get(name)
    return sorted(listed, key=key, reverse=sort.startswith("-")) if key else listed


class Ranking(NamedTuple):
    """An order of all rows by a detail: numbers above texts, rows without it last in any case.

    at: its place among the scenario's details; lowest: whether it is turned round.
    """

    at: int
    lowest: bool = False

    def key(self, row: Row) -> tuple[Any, ...]:
        """Return a row's sort key; equal ones are in the board's order."""
        return self.key_of(*(row["details"][self.at] or (None, None)))

    def key_of(self, text: str | None, number: float | None) -> tuple[Any, ...]:
        """Return the key of a row by the detail's text and its number, if it is one."""
        if text is None and number is None:
            return (1,)
        if self.lowest:
            return (0, 0, text) if number is None else (0, 1, number)
        return (0, 1, *_falling(text or "")) if number is None else (0, 0, -number)


def _falling(text: str) -> Iterator[int]:
    """Yield what sorts texts the other way round."""
    yield from (-ord(character) for character in text)
    yield 1


def ranking_of(scenario: Scenario, sort: str) -> Ranking | None:
    """Return the order `sort` if it is by a detail, otherwise None."""
    keys, name = scenario.detail_keys, sort.removeprefix("-")
    return Ranking(keys.index(name), sort.startswith("-")) if name in keys else None


def next_sort(scenario: Scenario, column: SortColumn, sort: str) -> str:
    """Return what a column's header requests: its order, its reverse, then the board's own."""
    first = "" if column.name == "state" else column.name
    other = f"-{column.name}"
    if sort == first:
        return sort_of(scenario, other)
    return "" if sort == other else first


def direction(column: SortColumn, sort: str) -> str:
    """Return how a column sorts the page, as a value of `aria-sort`; "" if it does not."""
    if not column.rises or (sort.removeprefix("-") or "state") != column.name:
        return ""
    turned = {"ascending": "descending", "descending": "ascending"}
    return turned[column.rises] if sort.startswith("-") else column.rises


# ---- states --------------------------------------------------------------------------------------
# Queries of pages and sockets on the board: rows, counts and offsets.
#
# A page never reads all of a million rows: it is a range of the index of the board's order, the
# materialiser keeps the counts, and a text is looked up in the index of name parts.

LIMIT = 500
"""Most rows on a page."""
COUNTED = 10_000
"""The most matches of a text that are counted exactly; beyond that the total is a lower bound."""

DOUBTED = {
    "disputed": Q(disputed__isnull=False),
    "unconfirmed": Q(unconfirmed=True),
    "silent": Q(silent__isnull=False),
    "doubt": Q(doubt__isnull=False),
}
"""The condition that selects the rows with each doubt."""

INDEXED = (
    *("state", "disputed", "unconfirmed", "silent", "doubt", "rank", "since"),
    *("overridden", "override_since", "override_until", "purged", "purged_at"),
    *("reported_in", "voteless_in"),
    *(f"{kind}_{n + 1}" for n in range(MAX_DETAILS) for kind in DETAIL_KINDS),
)
"""Columns that an index contains or filters by, and that most records leave unchanged."""

Offsets = dict[tuple[str, int], int]
Order = tuple[int, int, str]
"""A position in the board's order: place (`place_of`), minus since, name."""


class Kept(NamedTuple):
    """What the database holds for an asset. state: "" if it is purged or unknown.

    waits: whether a state is pending; pk: the row's id; indexed: its values of INDEXED.
    """

    version: str = ""
    state: str = ""
    doubts: Doubts = ()
    waits: bool = False
    pk: int = 0
    indexed: tuple[Any, ...] = ()


NOTHING = Kept()


class BoardResult(NamedTuple):
    """Records in the board's order, and how many match. least: `total` is a lower bound.

    stopped: where the search ended if it did not reach the end of the board; apart: `total` leaves
    out the assets to skip; ranked: the records are the first by a detail.
    """

    records: list[StateValue]
    total: int
    least: bool = False
    stopped: Order | None = None
    apart: bool = False
    ranked: bool = False


class BoardPosition(NamedTuple):
    """The position of a row in the board's order."""

    place: int
    newest: int
    asset: str
    pk: int

    @property
    def order(self) -> Order:
        """Return the position without the row's id."""
        return (self.place, self.newest, self.asset)


# ---- rows ---------------------------------------------------------------------------------


def find(
    scenario: str,
    states: Collection[str] = (),
    q: str = "",
    *,
    after: Order | None = None,
    limit: int = LIMIT,
    skip: Collection[str] = frozenset(),
    handled: Collection[int] = (),
    ranking: Ranking | None = None,
) -> BoardResult:
    """Return the first `limit` visible assets after `after`, by state and by part of their name.

    skip: assets to count without returning their records; handled: ids of the alarming rows that
    are handled; ranking: which of them are the first, unless too many match.
    """
    search = Search(scenario, states, q, handled=handled)
    if CONTROL.search(q):
        return BoardResult([], 0)  # no name contains a control character
    if ranking and (whole := search.whole()) is not None:
        best = records(by_detail(whole, ranking), limit, skip)
        return BoardResult(best, len(whole), ranked=True)
    if not q:
        return BoardResult(records(search.walk(after, limit), limit, skip), search.of_states())
    ids = candidates(q, COUNTED + 1)
    if ids == []:
        return BoardResult([], 0)
    if ids is not None and len(ids) <= COUNTED:
        near = search.among(ids)
        later = (place for place in sorted(near) if after is None or place.order > after)
        return BoardResult(records(later, limit, skip), len(near))
    # Too many to check each one, or no index: a walk of the board soon fills a page with matches.
    walk = BoardWalk(search.walk(after, limit))
    matches = records(walk, limit, skip)
    if after is None and len(matches) < limit:
        return BoardResult(matches, walk.passed)
    known = search.counted_among(ids) if ids else search.counted(COUNTED + 1)
    known = max(known, walk.passed)
    return BoardResult(matches, min(known, COUNTED), least=bool(ids) or known > COUNTED)


def containing(rows: QuerySet[AssetState], text: str) -> QuerySet[AssetState]:
    """Return the rows whose name contains `text`. The index is used if few names of all match."""
    ids = candidates(text, COUNTED + 1)
    if ids is not None and len(ids) <= COUNTED:
        rows = rows.filter(pk__in=listed(ids))
    return rows.filter(asset__icontains=text)


def by_detail(places: Collection[BoardPosition], ranking: Ranking) -> list[BoardPosition]:
    """Return positions of rows in the order of a detail."""
    columns = [f"{kind}_{ranking.at + 1}" for kind in DETAIL_KINDS]
    rows = AssetState.objects.filter(pk__in=listed([place.pk for place in places]))
    keys = {pk: ranking.key_of(*cell) for pk, *cell in rows.values_list("pk", *columns)}
    return sorted(places, key=lambda place: (keys[place.pk], place))


class BoardWalk:
    """Iterates over positions and counts them."""

    def __init__(self, places: Iterator[BoardPosition]) -> None:
        self._places = places
        self.passed = 0

    def __iter__(self) -> Iterator[BoardPosition]:
        for place in self._places:
            self.passed += 1
            yield place


class Search(NamedTuple):
    """Visible assets of a scenario, by state and by part of their name. Empty means any.

    where: further conditions, all of which must hold; handled: ids of alarming rows that come after
    all that are unhandled.
    """

    scenario: str
    states: Collection[str]
    q: str = ""
    where: tuple[Q, ...] = ()
    handled: Collection[int] = ()

    def walk(self, after: Order | None, portion: int) -> Iterator[BoardPosition]:
        """Yield matches after `after` in the board's order, reading `portion` rows at a time."""
        alarming = self._alarming()
        ranks = self._all_ranks() if alarming and not self.states else self._ranks()
        if after is None or after[0] < LATER:
            first = [rank for rank in ranks or () if rank in alarming]
            passed = self._walk(first, after, portion)
            yield from (place for place in passed if place.pk not in self.handled)
        held = sorted(self.among(self.handled)) if self.handled else []
        later = (place for place in held if after is None or place.order > after)
        others = None if ranks is None else [rank for rank in ranks if rank not in alarming]
        yield from merge(later, self._walk(others, _later(after), portion))

    def _walk(
        self, ranks: list[int] | None, after: Order | None, portion: int
    ) -> Iterator[BoardPosition]:
        """Yield matches of these ranks by rank. after: with a rank in place of the place."""
        while True:
            rows = self._portion(ranks, after, portion)
            yield from self._positions(rows)
            if len(rows) < portion:
                return
            rank, since, asset, _ = rows[-1]
            after = (rank, -since, asset)

    def _positions(self, rows: Iterable[tuple[int, int, str, int]]) -> list[BoardPosition]:
        """Return the positions of visible rows, each of rank, since, asset and id."""
        alarming = self._alarming()
        return [
            BoardPosition(
                place_of(rank, rank in alarming and pk not in self.handled), -since, asset, pk
            )
            for rank, since, asset, pk in rows
        ]

    def _alarming(self) -> frozenset[int]:
        known = scenarios().get(self.scenario)
        return frozenset(alarming_ranks(known)) if known else frozenset()

    def among(self, ids: Collection[int]) -> list[BoardPosition]:
        """Return the matches among the rows with these ids, in no particular order."""
        matches = self._asked(AssetState.objects.filter(pk__in=listed(ids)))
        columns = ("scenario", "purged", "state", "rank", "since", "asset", "pk")
        visible = (
            row
            for name, purged, state, *row in matches.values_list(*columns)
            if name == self.scenario and not purged and (not self.states or state in self.states)
        )
        return self._positions(visible)

    def whole(self) -> list[BoardPosition] | None:
        """Return the positions of all matches, in no particular order; None for too many."""
        ids = candidates(self.q, COUNTED + 1) if self.q else None
        if ids is None:
            ids = list(self._indexed().values_list("pk", flat=True)[: COUNTED + 1])
        return self.among(ids) if len(ids) <= COUNTED else None

    def ids_among(self, ids: Collection[int]) -> set[int]:
        """Return the ids of the rows that meet every condition but those on scenario and state."""
        rows = self._asked(AssetState.objects.filter(pk__in=listed(ids)))
        return set(rows.values_list("pk", flat=True))

    def counted_of(self, assets: Collection[str]) -> int:
        """Return how many of these assets match."""
        return self._matching().filter(asset__in=listed(assets)).count() if assets else 0

    def counted_among(self, ids: Collection[int]) -> int:
        """Return how many of these rows match. The database counts, as there may be many."""
        rows = AssetState.objects.filter(pk__in=listed(ids), asset__icontains=self.q)
        groups = rows.values_list("scenario", "purged", "state").annotate(n=Count("pk"))
        return sum(
            n
            for name, purged, state, n in groups.order_by()
            if name == self.scenario and not purged and (not self.states or state in self.states)
        )

    def counted(self, most: int) -> int:
        """Return how many assets match, up to `most`: the database stops counting there."""
        return self._indexed().values("pk")[:most].count()

    def _indexed(self) -> QuerySet[AssetState]:
        """Return the matches in no order, by a condition that leads the query planner to the index
        of the board's order."""
        ranks = self._ranks()
        ranked = Q(rank__gte=LEAST_RANK) if ranks is None else Q(rank__in=ranks)
        return self._matching().filter(ranked).order_by()

    def of_states(self) -> int:
        """Return how many assets are in the states, from the stored counts."""
        known = counts(self.scenario)
        return sum(n for state, n in known.items() if not self.states or state in self.states)

    def _portion(
        self, ranks: list[int] | None, after: Order | None, size: int
    ) -> list[tuple[int, int, str, int]]:
        columns = self._matching().values_list("rank", "since", "asset", "pk")
        rows: list[Any] = []
        for part in _ranges(ranks, after):
            rows += columns.filter(part)[: size - len(rows)]
            if len(rows) == size:
                break
        return rows

    def _matching(self) -> QuerySet[AssetState]:
        rows = AssetState.objects.filter(scenario=self.scenario, purged=False)
        if self.states:
            rows = rows.filter(state__in=self.states)
        return self._asked(rows).order_by("rank", "-since", "asset")

    def _asked(self, rows: QuerySet[AssetState]) -> QuerySet[AssetState]:
        if self.q:
            rows = rows.filter(asset__icontains=self.q)
        for condition in self.where:
            rows = rows.filter(condition)
        return rows

    def _ranks(self) -> list[int] | None:
        """Return the ranks that the states can have; None for any rank."""
        known = scenarios().get(self.scenario)
        if self.where and not self.states:  # so that a condition on times is a range of the index
            return self._all_ranks()
        if not self.states or known is None:
            return None
        return sorted({rank for state in self.states for rank in ranks_of(known.severity(state))})

    def _all_ranks(self) -> list[int]:
        rows = AssetState.objects.filter(scenario=self.scenario, purged=False)
        last = rows.order_by("-rank").values_list("rank", flat=True).first()
        return list(range(LEAST_RANK, 1 if last is None else last + 1))


def _later(after: Order | None) -> Order | None:
    """Return the position by rank after which rows that are not unhandled go on; None: the top."""
    if after is None or after[0] < LATER:
        return None
    return (after[0] - LATER, *after[1:])


def _ranges(ranks: list[int] | None, after: Order | None) -> Iterator[Q]:
    """Yield what comes after `after`, from the top, as ranges of the index of the board's order.

    Given all of them as one condition, a database would read the index from its beginning.
    """
    if after is not None:
        rank, newest, asset = after
        if ranks is None or rank in ranks:
            yield Q(rank=rank, since=-newest, asset__gt=asset)
            yield Q(rank=rank, since__lt=-newest)
        if ranks is None:
            yield Q(rank__gt=rank)
    elif ranks is None:
        yield Q()
    for each in ranks or ():
        if after is None or each > after[0]:
            yield Q(rank=each)


def records(places: Iterable[BoardPosition], limit: int, skip: Collection[str]) -> list[StateValue]:
    """Return the records at the first `limit` positions, leaving out the assets in `skip`."""
    ids = list(islice((place.pk for place in places if place.asset not in skip), limit))
    texts = dict(AssetState.objects.filter(pk__in=listed(ids)).values_list("pk", "record"))
    return [state_value(texts[pk]) for pk in ids if pk in texts]


def listed(values: Collection[int] | Collection[str]) -> Any:
    """Return the values of an `__in` lookup of any length. SQLite limits the number of parameters,
    and a list as JSON is only one."""
    if connection.vendor == "sqlite":
        return RawSQL("SELECT value FROM json_each(%s)", [_json(values)])
    return list(values)


def _json(values: Collection[int] | Collection[str]) -> str:
    return msgspec.json.encode(list(values)).decode()


_STORED = f"""\
SELECT id, asset, version, pending_due, {", ".join(INDEXED)} FROM states_assetstate
WHERE scenario = %s"""  # noqa: S608 - our own names


def fetched(select: str, scenario: str, assets: Collection[str]) -> list[tuple[Any, ...]]:
    """Run a query by scenario for these assets and return the raw rows.

    For thousands of rows this takes half the time of Django's querysets. SQLite returns booleans as
    1 and 0.
    """
    names = _json(assets)
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            among = f"{select} AND asset IN (SELECT value FROM json_each(%s))"  # noqa: S608
            cursor.execute(among, [scenario, names])
        else:
            cursor.execute(_EACH.format(select), [names, scenario])
        return list(cursor.fetchall())


_EACH = """\
SELECT kept.* FROM json_array_elements_text(%s::json) AS requested (name)
CROSS JOIN LATERAL ({} AND asset = requested.name OFFSET 0) AS kept"""
"""Looks up each name by itself. While a table has just begun to grow and has no statistics yet,
PostgreSQL might otherwise compare every row with every name."""


def stored(scenario: str, assets: Collection[str]) -> dict[str, Kept]:
    """Return what the database holds for each asset that it knows, by name."""
    return {row[1]: _kept(row) for row in fetched(_STORED, scenario, assets)}


def _kept(row: tuple[Any, ...]) -> Kept:
    pk, _, version, due, *held = row
    state, disputed, unconfirmed, silent, doubt, *_ = held
    doubts = doubts_of(disputed, bool(unconfirmed), silent, doubt)
    return Kept(version, state, doubts, due is not None, pk, tuple(held))


def counts(scenario: str) -> dict[str, int]:
    """Return how many visible assets are in each state; states without any are left out."""
    rows = StateCount.objects.filter(scenario=scenario, n__gt=0)
    return dict(rows.values_list("state", "n"))


def counts_of_all() -> dict[str, dict[str, int]]:
    """Return how many visible assets are in each state, by scenario."""
    by_scenario: dict[str, dict[str, int]] = {}
    rows = StateCount.objects.filter(n__gt=0).values_list("scenario", "state", "n")
    for scenario, state, n in rows:
        by_scenario.setdefault(scenario, {})[state] = n
    return by_scenario


def doubt_counts(scenario: str) -> dict[str, int]:
    """Return how many visible assets have each doubt, for every one of DOUBTS."""
    rows = DoubtCount.objects.filter(scenario=scenario, doubt__in=DOUBTS)
    return dict.fromkeys(DOUBTS, 0) | dict(rows.values_list("doubt", "n"))


def sink_offsets(logs: Mapping[str, str] | None = None) -> Offsets:
    """Return the next offset to read of each sink partition.

    logs: the ids of the topics as they are: without offsets of topics that were created again.
    """
    rows = SinkOffset.objects.values_list("topic", "partition", "next_offset", "log")
    return {
        (topic, partition): offset
        for topic, partition, offset, log in rows
        if logs is None or log in ("", logs.get(topic, log))
    }


@contextmanager
def consistent() -> Iterator[None]:
    """Make every read inside the block see the same moment, without blocking writers.

    SQLite's transactions are configured to take the write lock at once, which a reader must not do;
    in PostgreSQL's each statement sees its own moment by default. Only for reading.
    """
    if connection.in_atomic_block:
        yield
    elif connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute("BEGIN DEFERRED")
            try:
                yield
            finally:
                cursor.execute("ROLLBACK")
    else:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            yield
