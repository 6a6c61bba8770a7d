"""Sums that take long, kept until something in their time changes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import msgspec

from dashboard.core.times import now_ms
from dashboard.summaries.models import KeptSum
from domain.history.periods import Span

SLOW_S = 0.03
"""What takes longer is kept."""


def kept(
    what: str, scenarios: Sequence[str], span: Span, stamp: str, compute: Callable[[], Any]
) -> Any:
    """Return what `compute` returns, JSON-able data, or what it returned before.

    what: the sum, with all that is asked but scenarios and time; stamp: another one voids it.
    """
    names = ",".join(sorted(scenarios))
    key = f"{what}|{names}|{span.begin}|{span.end}|{stamp}"
    row = KeptSum.objects.filter(key=key).first()
    if row is not None:
        _compare(key, row.data, compute)
        return msgspec.json.decode(row.data)
    begun = time.perf_counter()
    data = compute()
    if time.perf_counter() - begun > SLOW_S:
        KeptSum.objects.update_or_create(
            key=key,
            defaults={
                "scenarios": f",{names},",
                "begin": span.begin,
                "end": span.end,
                "computed_at": now_ms(),
                "data": msgspec.json.encode(data).decode(),
            },
        )
    return data


_contradicted: ContextVar[list[str] | None] = ContextVar("contradicted", default=None)


@contextmanager
def recounting() -> Iterator[list[str]]:
    """Compute again within the block whatever is kept. Yields a list that gets the keys of the
    answers that are others."""
    keys: list[str] = []
    token = _contradicted.set(keys)
    try:
        yield keys
    finally:
        _contradicted.reset(token)


def _compare(key: str, data: str, compute: Callable[[], Any]) -> None:
    """Note an answer that is another, unless it was made anew meanwhile."""
    keys = _contradicted.get()
    if keys is None or key in keys:
        return
    counted = msgspec.json.decode(msgspec.json.encode(compute()))
    is_kept = KeptSum.objects.filter(key=key, data=data).exists()
    if is_kept and counted != msgspec.json.decode(data):
        keys.append(key)
