"""Retention applied: what is past its time goes, and it is noted what is left. Times in Unix ms."""

from __future__ import annotations

import time
from collections.abc import Iterator

import structlog
from django.db.models import Count, Min

from dashboard.core.retention import Retention, Thinning
from dashboard.retention.models import Period, Remainder
from dashboard.states.retention import CHANGES

log = structlog.get_logger(__name__)

Declared = Retention | Thinning
MAX_FAULT = 300


def periods_of(each: Declared) -> dict[str, int]:
    """Return how long scenarios keep rows of a kind that have a time of their own, ms."""
    if not isinstance(each, Retention) or not each.by_scenario:
        return {}
    return dict(Period.objects.filter(key=each.key).values_list("scenario", "kept_ms"))


def own_period_of(scenario: str) -> int | None:
    """Return how long a scenario keeps its changes, ms, if it has a time of its own."""
    return periods_of(CHANGES).get(scenario)


def apply_one(each: Declared, now: int) -> int:
    """Delete what is past its time at `now` of one kind, and note what is left. Returns how many
    rows went. Raises what deleting raises, once that is noted."""
    begun, gone, fault = time.monotonic(), 0, ""
    try:
        gone = each.apply(now, periods_of(each)) if isinstance(each, Retention) else each.apply(now)
    except Exception as error:
        fault = f"{type(error).__name__}: {error}"[:MAX_FAULT].replace("\0", "")
        raise
    finally:
        took_ms = round((time.monotonic() - begun) * 1000)
        _note(each, now, gone, took_ms, fault)
    return gone


def _note(each: Declared, now: int, gone: int, took_ms: int, fault: str) -> None:
    """Note what is left of a kind; a fault in counting hinders nothing."""
    try:
        left = dict(_left(each)) or {"": (0, None)}
    except Exception:
        log.exception("what retention left was not counted", what=each.what)
        return
    rows = [
        Remainder(
            what=each.what, scenario=scenario, rows=n, oldest=oldest, at=now, fault=fault,
            deleted=gone if not scenario else 0, took_ms=took_ms if not scenario else 0,
        )
        for scenario, (n, oldest) in left.items()
    ]  # fmt: skip
    Remainder.objects.bulk_create(
        rows,
        update_conflicts=True,
        unique_fields=["what", "scenario"],
        update_fields=["rows", "oldest", "deleted", "at", "took_ms", "fault"],
    )


def _left(each: Declared) -> Iterator[tuple[str, tuple[int, int | None]]]:
    """Yield how many rows are left, and the time of the oldest: of all, and of each scenario."""
    if not isinstance(each, Retention):
        return
    rows = each.model._default_manager.filter(each.condition)  # noqa: SLF001 - documented API
    if not each.by_scenario:
        found = rows.aggregate(n=Count("pk"), oldest=Min(each.time))
        yield "", (found["n"], _ms(each, found["oldest"]))
        return
    total, oldest = 0, None
    for name in each.scenarios():
        mine = rows.filter(scenario=name).aggregate(n=Count("pk"), oldest=Min(each.time))
        first = _ms(each, mine["oldest"])
        if name:
            yield name, (mine["n"], first)
        total += mine["n"]
        oldest = min((at for at in (oldest, first) if at is not None), default=None)
    yield "", (total, oldest)


def _ms(each: Retention, at: int | None) -> int | None:
    return None if at is None else at * each.unit_ms
