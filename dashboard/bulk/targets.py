"""The assets of a run: chosen by a filter, by their names, or because they are stale."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from django.db.models import QuerySet

from dashboard.core.chunks import chunks
from dashboard.states.models import AssetState
from dashboard.states.queries import listed

# Most assets of one run.
MOST = 100_000
# Rows that are held at a time, as each is a whole record.
CHUNK = 5_000


class Found(NamedTuple):
    """An asset that was chosen.

    version: sortable; record: JSON, empty where it is not on the board.
    """

    asset: str
    version: str = ""
    state: str = ""
    record: str = ""


class Names(NamedTuple):
    """Names that were given, each once, in their order; and how many were given again."""

    names: Sequence[str]
    repeated: int = 0


def by_rows(*rows: QuerySet[AssetState]) -> Iterator[list[Found]]:
    """Yield the assets of rows of the board, the first MOST, in portions.

    Each portion is a query of its own: who reads on while it writes would write upon what was there
    when it began to read, which SQLite refuses.
    """
    ids: list[int] = []
    for each in rows:
        ids += each.values_list("pk", flat=True)[: MOST - len(ids)]
    for portion in chunks(ids, CHUNK):
        columns = ("pk", "asset", "version", "state", "record")
        there = AssetState.objects.filter(pk__in=listed(portion), purged=False)
        assets = {pk: Found(*rest) for pk, *rest in there.values_list(*columns)}
        yield [assets[pk] for pk in portion if pk in assets]


def beyond(*rows: QuerySet[AssetState]) -> int:
    """Return how many assets match beyond MOST."""
    return max(0, sum(each.order_by().count() for each in rows) - MOST)


def by_names(scenario: str, names: Sequence[str]) -> Iterator[list[Found]]:
    """Yield the assets of these names, in their order, those unknown among them, in portions."""
    for portion in chunks(names, CHUNK):
        known = _on_board(scenario, portion)
        yield [known.get(name) or Found(name) for name in portion]


def names_of(lines: Iterable[str], scenario: str) -> Names:
    """Return the names in lines of text: spaces around one are part of it only where it is on the
    board.

    Lines without a name are passed over.
    """
    whole = [line.rstrip("\r\n") for line in lines]
    whole = [line for line in whole if line.strip()]
    spaced = [line for line in whole if line != line.strip()]
    kept = {name for portion in chunks(spaced, CHUNK) for name in _known(scenario, portion)}
    names = [line if line in kept else line.strip() for line in whole]
    once = list(dict.fromkeys(names))
    return Names(once, len(names) - len(once))


def visible(scenario: str) -> QuerySet[AssetState]:
    """Return the rows of a board."""
    return AssetState.objects.filter(scenario=scenario, purged=False)


def _on_board(scenario: str, names: Collection[str]) -> dict[str, Found]:
    rows = visible(scenario).filter(asset__in=listed(names))
    columns = rows.values_list("asset", "version", "state", "record")
    return {each[0]: Found(*each) for each in columns}


def _known(scenario: str, names: Collection[str]) -> set[str]:
    return set(visible(scenario).filter(asset__in=listed(names)).values_list("asset", flat=True))
