"""What pages and sockets read of the board: rows, counts, history, and up to which offsets."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
from django.db import connection, transaction
from django.db.models import Count, QuerySet

from dashboard.board.models import AssetState, Transition
from dashboard.materialiser.models import SinkOffset

LIMIT = 500
"""Most rows that a page shows."""

Offsets = dict[tuple[str, int], int]


def matching(scenario: str, states: Collection[str] = (), q: str = "") -> QuerySet[AssetState]:
    """Visible assets of a scenario, by state and by a part of their name, in the board's order."""
    found = AssetState.objects.filter(scenario=scenario, purged=False)
    if states:
        found = found.filter(state__in=states)
    if q:
        found = found.filter(asset__icontains=q)
    return found.order_by("severity", "-since", "asset")


def rows(
    scenario: str, states: Collection[str] = (), q: str = "", limit: int = LIMIT
) -> list[dict[str, Any]]:
    """State records as they stand in the topic, the most severe and newest first."""
    texts = matching(scenario, states, q).values_list("record", flat=True)[:limit]
    return [msgspec.json.decode(text) for text in texts]


def counts(scenario: str) -> dict[str, int]:
    """How many visible assets are in each state."""
    found = AssetState.objects.filter(scenario=scenario, purged=False)
    return dict(found.values_list("state").annotate(n=Count("id")).order_by())


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


def record_of(scenario: str, asset: str) -> dict[str, Any] | None:
    """The state record of one visible asset."""
    found = AssetState.objects.filter(scenario=scenario, asset=asset, purged=False).first()
    return msgspec.json.decode(found.record) if found else None


def history(scenario: str, asset: str, limit: int = 50) -> list[Transition]:
    """The newest transitions of an asset, newest first."""
    found = Transition.objects.filter(scenario=scenario, asset=asset)
    return list(found.order_by("-version")[:limit])
