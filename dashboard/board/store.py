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

from dashboard.board.models import AssetState, StateCount
from dashboard.board.parts import candidates
from dashboard.materialiser.models import SinkOffset
from dashboard.scenarios import scenarios
from domain.names import CONTROL

LIMIT = 500
"""Most rows that a page shows."""
COUNTED = 10_000
"""Of more assets that a text matches it is only said that there are at least so many."""

Offsets = dict[tuple[str, int], int]
Order = tuple[int, int, str]
"""A place in the board's order: severity, minus since, name."""


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

    severity: int
    newest: int
    asset: str
    pk: int

    @property
    def order(self) -> Order:
        """Without the row's id."""
        return (self.severity, self.newest, self.asset)


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
        columns = ("scenario", "purged", "state", "severity", "since", "asset", "pk")
        return [
            Place(severity, -since, asset, pk)
            for name, purged, state, severity, since, asset, pk in found.values_list(*columns)
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
        severities = self._severities()
        # Either leads a database that has to choose to the index that holds all that is asked.
        if severities is None:
            found = found.filter(severity__gte=0)
        else:
            found = found.filter(severity__in=severities)
        return found.order_by().values("pk")[:most].count()

    def of_states(self) -> int:
        """How many are in the states."""
        known = counts(self.scenario)
        return sum(n for state, n in known.items() if not self.states or state in self.states)

    def _portion(self, after: Order | None, size: int) -> list[Place]:
        columns = self._matching().values_list("severity", "since", "asset", "pk")
        places: list[Place] = []
        for part in _ranges(self._severities(), after):
            found = columns.filter(part)[: size - len(places)]
            places += (Place(severity, -since, asset, pk) for severity, since, asset, pk in found)
            if len(places) == size:
                break
        return places

    def _matching(self) -> QuerySet[AssetState]:
        found = AssetState.objects.filter(scenario=self.scenario, purged=False)
        if self.states:
            found = found.filter(state__in=self.states)
        return self._asked(found).order_by("severity", "-since", "asset")

    def _asked(self, found: QuerySet[AssetState]) -> QuerySet[AssetState]:
        if self.q:
            found = found.filter(asset__icontains=self.q)
        for condition in self.where:
            found = found.filter(condition)
        return found

    def _severities(self) -> list[int] | None:
        """In which parts of the board the states are; None: anywhere."""
        known = scenarios().get(self.scenario)
        if self.where and not self.states:  # so a condition on times is a range of the index
            rows = AssetState.objects.filter(scenario=self.scenario, purged=False)
            least = rows.order_by("-severity").values_list("severity", flat=True).first()
            return list(range((least or 0) + 1))
        if not self.states or known is None:
            return None
        return sorted({known.severity(state) for state in self.states})


def _ranges(severities: list[int] | None, after: Order | None) -> Iterator[Q]:
    """What lies past `after`, from the top, as ranges of the index of the board's order.

    Put into one condition, a database would read the index from its beginning.
    """
    if after is not None:
        severity, newest, asset = after
        if severities is None or severity in severities:
            yield Q(severity=severity, since=-newest, asset__gt=asset)
            yield Q(severity=severity, since__lt=-newest)
        if severities is None:
            yield Q(severity__gt=severity)
    elif severities is None:
        yield Q()
    for each in severities or ():
        if after is None or each > after[0]:
            yield Q(severity=each)


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


def stored(scenario: str, assets: Collection[str]) -> list[tuple[str, str, str]]:
    """Asset, version and state ("" once purged) of those of `assets` that the database has."""
    found = AssetState.objects.filter(scenario=scenario, asset__in=listed(assets))
    return list(found.values_list("asset", "version", "state"))


def counts(scenario: str) -> dict[str, int]:
    """How many visible assets are in each state."""
    found = StateCount.objects.filter(scenario=scenario, n__gt=0)
    return dict(found.values_list("state", "n"))


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
