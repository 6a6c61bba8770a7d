"""Long lists a portion at a time, as a statement or a batch takes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

T = TypeVar("T")

STATEMENT = 900
"""Items of one statement: SQLite takes a limited number of parameters."""


def chunks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Lists of at most `size` items, read no further than is asked for."""
    remaining = iter(items)
    while chunk := list(islice(remaining, size)):
        yield chunk
