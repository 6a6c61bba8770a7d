"""Sums that take long, kept until something in their time changes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
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
