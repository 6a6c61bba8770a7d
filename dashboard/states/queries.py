"""What pages and sockets read of the board: rows, counts, and up to which offsets.

A million assets are no reason to read a million rows: a page is a range of the index of the board's
order, the counts are kept by the materialiser, a text is looked up in the index of names' parts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any, NamedTuple

import msgspec
from django.db import connection, transaction
from django.db.models import Count, Q, QuerySet
from django.db.models.expressions import RawSQL

from dashboard.checkpoints.models import SinkOffset
from dashboard.core.scenarios import scenarios
from dashboard.states.caveats import DOUBTS, LEAST_RANK, Doubts, doubts_of, ranks_of
from dashboard.states.models import AssetState, DoubtCount, StateCount
from dashboard.states.name_search import candidates
from domain.names import CONTROL

LIMIT = 500
"""Most rows that a page shows."""
COUNTED = 10_000
"""Of more assets that a text matches it is only said that there are at least so many."""

DOUBTED = {
    "disputed": Q(disputed__isnull=False),
    "unconfirmed": Q(unconfirmed=True),
    "silent": Q(silent__isnull=False),
}
"""What the database is asked for rows that there is a doubt of."""

Offsets = dict[tuple[str, int], int]
Order = tuple[int, int, str]
"""A place in the board's order: rank, minus since, name."""


class Kept(NamedTuple):
    """What the database has of an asset; a state of "" is a purged one's, or of none."""

    version: str = ""
    state: str = ""
    doubts: Doubts = ()


NOTHING = Kept()


class Found(NamedTuple):
    """Records in the board's order, and of how many matches. least: there may be more of them.

    stopped: where looking ended before the board did; apart: `total` is without what was to be
    skipped.
    """

    records: list[dict[str, Any]]
    total: int
    least: bool = False
    stopped: Order | None = None
    apart: bool = False


class Place(NamedTuple):
    """Where a row stands in the board's order."""

    rank: int
    newest: int
    asset: str
    pk: int

    @classmethod
    def of(cls, rank: int | None, since: int, asset: str, pk: int) -> Place:
        """Where a visible row stands, by its columns; every one of those has a rank."""
        assert rank is not None
        return cls(rank, -since, asset, pk)

    @property
    def order(self) -> Order:
        """Without the row's id."""
        return (self.rank, self.newest, self.asset)


# ---- rows ---------------------------------------------------------------------------------


def find(
    scenario: str,
    states: Collection[str] = (),
    q: str = "",
    *,
    after: Order | None = None,
    limit: int = LIMIT,
    skip: Collection[str] = frozenset(),
) -> Found:
    """Visible assets by state and by a part of their name, the first `limit` of those past `after`.

    skip: assets that are counted, but whose records are not wanted.
    """
    search = Search(scenario, states, q)
    if CONTROL.search(q):
        return Found([], 0)  # as no name holds one
    if not q:
        return Found(records(search.walk(after, limit), limit, skip), search.of_states())
    ids = candidates(q, COUNTED + 1)
    if ids is not None and len(ids) <= COUNTED:
        near = search.among(ids)
        later = (place for place in sorted(near) if after is None or place.order > after)
        return Found(records(later, limit, skip), len(near))
    # Too many to look at each, or no index: walking the board, a page of many is soon full.
    walk = Walk(search.walk(after, limit))
    found = records(walk, limit, skip)
    if after is None and len(found) < limit:
        return Found(found, walk.passed)
    known = search.counted_among(ids) if ids else search.counted(COUNTED + 1)
    known = max(known, walk.passed)
    return Found(found, min(known, COUNTED), least=bool(ids) or known > COUNTED)


def containing(rows: QuerySet[AssetState], text: str) -> QuerySet[AssetState]:
    """Those of `rows` whose name contains `text`: looked up where few names of all do."""
    ids = candidates(text, COUNTED + 1)
    if ids is not None and len(ids) <= COUNTED:
        rows = rows.filter(pk__in=listed(ids))
    return rows.filter(asset__icontains=text)


class Walk:
    """Places as they are passed, and how many were."""

    def __init__(self, places: Iterator[Place]) -> None:
        self._places = places
        self.passed = 0

    def __iter__(self) -> Iterator[Place]:
        for place in self._places:
            self.passed += 1
            yield place


class Search(NamedTuple):
    """Visible assets of a scenario, by state and by a part of their name; empty: any.

    where: further conditions, all of which must hold.
    """

    scenario: str
    states: Collection[str]
    q: str = ""
    where: tuple[Q, ...] = ()

    def walk(self, after: Order | None, portion: int) -> Iterator[Place]:
        """What matches past `after` in the board's order; `portion` rows are read at a time."""
        while True:
            places = self._portion(after, portion)
            yield from places
            if len(places) < portion:
                return
            after = places[-1].order

    def among(self, ids: Collection[int]) -> list[Place]:
        """What matches among these rows, in no order."""
        found = self._asked(AssetState.objects.filter(pk__in=listed(ids)))
        columns = ("scenario", "purged", "state", "rank", "since", "asset", "pk")
        return [
            Place.of(*row)
            for name, purged, state, *row in found.values_list(*columns)
            if name == self.scenario and not purged and (not self.states or state in self.states)
        ]

    def ids_among(self, ids: Collection[int]) -> set[int]:
        """Which of these rows of the scenario match what is asked beyond their state."""
        found = self._asked(AssetState.objects.filter(pk__in=listed(ids)))
        return set(found.values_list("pk", flat=True))

    def counted_of(self, assets: Collection[str]) -> int:
        """How many of these assets match."""
        return self._matching().filter(asset__in=listed(assets)).count() if assets else 0

    def counted_among(self, ids: Collection[int]) -> int:
        """How many of these rows match: counted by the database, as they may be many."""
        found = AssetState.objects.filter(pk__in=listed(ids), asset__icontains=self.q)
        groups = found.values_list("scenario", "purged", "state").annotate(n=Count("pk"))
        return sum(
            n
            for name, purged, state, n in groups.order_by()
            if name == self.scenario and not purged and (not self.states or state in self.states)
        )

    def counted(self, most: int) -> int:
        """How many match, up to `most`: the database ends where it has found so many."""
        found = self._matching()
        ranks = self._ranks()
        # Either leads a database that has to choose to the index that holds all that is asked.
        if ranks is None:
            found = found.filter(rank__gte=LEAST_RANK)
        else:
            found = found.filter(rank__in=ranks)
        return found.order_by().values("pk")[:most].count()

    def of_states(self) -> int:
        """How many are in the states."""
        known = counts(self.scenario)
        return sum(n for state, n in known.items() if not self.states or state in self.states)

    def _portion(self, after: Order | None, size: int) -> list[Place]:
        columns = self._matching().values_list("rank", "since", "asset", "pk")
        places: list[Place] = []
        for part in _ranges(self._ranks(), after):
            found = columns.filter(part)[: size - len(places)]
            places += (Place.of(*row) for row in found)
            if len(places) == size:
                break
        return places

    def _matching(self) -> QuerySet[AssetState]:
        found = AssetState.objects.filter(scenario=self.scenario, purged=False)
        if self.states:
            found = found.filter(state__in=self.states)
        return self._asked(found).order_by("rank", "-since", "asset")

    def _asked(self, found: QuerySet[AssetState]) -> QuerySet[AssetState]:
        if self.q:
            found = found.filter(asset__icontains=self.q)
        for condition in self.where:
            found = found.filter(condition)
        return found

    def _ranks(self) -> list[int] | None:
        """In which parts of the board the states are; None: anywhere."""
        known = scenarios().get(self.scenario)
        if self.where and not self.states:  # so a condition on times is a range of the index
            return self._all_ranks()
        if not self.states or known is None:
            return None
        return sorted({rank for state in self.states for rank in ranks_of(known.severity(state))})

    def _all_ranks(self) -> list[int]:
        rows = AssetState.objects.filter(scenario=self.scenario, purged=False)
        last = rows.order_by("-rank").values_list("rank", flat=True).first()
        return list(range(LEAST_RANK, 1 if last is None else last + 1))


def _ranges(ranks: list[int] | None, after: Order | None) -> Iterator[Q]:
    """What lies past `after`, from the top, as ranges of the index of the board's order.

    Put into one condition, a database would read the index from its beginning.
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


def records(places: Iterable[Place], limit: int, skip: Collection[str]) -> list[dict[str, Any]]:
    """The records of the first `limit` places, without those of `skip`."""
    ids = list(islice((place.pk for place in places if place.asset not in skip), limit))
    texts = dict(AssetState.objects.filter(pk__in=listed(ids)).values_list("pk", "record"))
    return [msgspec.json.decode(texts[pk]) for pk in ids if pk in texts]


def listed(values: Collection[int] | Collection[str]) -> Any:
    """Values for a lookup with `__in`, however many: SQLite takes a limited number of parameters,
    and a list as JSON is one."""
    if connection.vendor == "sqlite":
        as_json = msgspec.json.encode(list(values)).decode()
        return RawSQL("SELECT value FROM json_each(%s)", [as_json])
    return list(values)


def stored(scenario: str, assets: Collection[str]) -> dict[str, Kept]:
    """What the database has of those of `assets` that it knows."""
    found = AssetState.objects.filter(scenario=scenario, asset__in=listed(assets))
    columns = ("asset", "version", "state", "disputed", "unconfirmed", "silent")
    return {
        asset: Kept(version, state, doubts_of(disputed, unconfirmed, silent))
        for asset, version, state, disputed, unconfirmed, silent in found.values_list(*columns)
    }


def counts(scenario: str) -> dict[str, int]:
    """How many visible assets are in each state."""
    found = StateCount.objects.filter(scenario=scenario, n__gt=0)
    return dict(found.values_list("state", "n"))


def counts_of_all() -> dict[str, dict[str, int]]:
    """By scenario, how many visible assets are in each state."""
    found: dict[str, dict[str, int]] = {}
    rows = StateCount.objects.filter(n__gt=0).values_list("scenario", "state", "n")
    for scenario, state, n in rows:
        found.setdefault(scenario, {})[state] = n
    return found


def doubt_counts(scenario: str) -> dict[str, int]:
    """How many visible assets there is each doubt of, every one of DOUBTS."""
    found = DoubtCount.objects.filter(scenario=scenario, doubt__in=DOUBTS)
    return dict.fromkeys(DOUBTS, 0) | dict(found.values_list("doubt", "n"))


def sink_offsets() -> Offsets:
    """The next offset of each sink partition that the database has not seen yet."""
    found = SinkOffset.objects.values_list("topic", "partition", "next_offset")
    return {(topic, partition): offset for topic, partition, offset in found}


@contextmanager
def consistent() -> Iterator[None]:
    """All that is read within is read as of one moment, and holds up no writer.

    SQLite's transactions are set to take the write lock at once, which a reader must not do;
    PostgreSQL's see each statement's own moment unless told otherwise. For reading alone.
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
