"""Long lists a portion at a time, as a statement or a batch takes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

T = TypeVar("T")

# Items of one statement: SQLite takes a limited number of parameters.
STATEMENT = 900
# Of one whose list is a single parameter: see `dashboard.states.queries.listed`.
LONG = 5_000


def chunks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield lists of at most `size` items, reading no further than is asked for."""
    remaining = iter(items)
    while chunk := list(islice(remaining, size)):
        yield chunk
