"""When assets are in a maintenance window. Times in Unix ms."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from django.db.models import QuerySet
from django.dispatch import Signal

from dashboard.core.chunks import STATEMENT, chunks
from dashboard.core.scenarios import scenarios
from dashboard.core.times import now_ms
from dashboard.maintenance.models import ALL, FILTER, Window, WindowAsset
from dashboard.maintenance.selection import covered_by_filter
from dashboard.states.queries import listed
from domain.history.runs import merged

windows_changed = Signal()
"""Sent with `scenario`, `begin` and `end` (Unix ms) in the transaction in which windows, or what
they cover, change between these times; also when a window begins, and when it ends."""


Times = tuple[int, int]
Covered = tuple[int, int | None]
"""From when to when a window covers an asset, as `WindowAsset` has it."""


class Span(NamedTuple):
    """A time in which a window covers an asset. begin, end: Unix ms."""

    begin: int
    end: int
    window: Window


def of_scenario(scenario: str) -> QuerySet[Window]:
    """Return the windows of a scenario, without the cancelled ones."""
    return Window.objects.filter(scenario__in=("", scenario), cancelled_at=None)


def between(scenario: str, begin: int, end: int) -> list[Window]:
    """Return the windows of a scenario that have a part between two times (Unix ms), in order."""
    return list(of_scenario(scenario).filter(begin__lt=end, end__gt=begin).order_by("begin", "pk"))


def windows_of(
    scenario: str, assets: Collection[str], begin: int, end: int
) -> dict[str, list[Span]]:
    """Return when which windows cover these assets between two times (Unix ms), cut off there.

    Assets that none covers are left out; each list is in order of `begin`. A window that has not
    begun covers what its filter finds now.
    """
    windows = between(scenario, begin, end) if assets else []
    spans: dict[str, list[Span]] = {}
    for names in chunks(assets, STATEMENT) if windows else ():
        for window in windows:
            for asset, covered in _covered(window, scenario, names):
                span = _cut(window, covered, begin, end)
                if span.begin < span.end:
                    spans.setdefault(asset, []).append(span)
    for each in spans.values():
        each.sort(key=lambda span: (span.begin, span.end))
    return spans


class Excluded(NamedTuple):
    """Times that availability leaves out, begin and end (Unix ms), in order: of every asset of a
    scenario, and by asset those of single assets besides."""

    everywhere: list[Times]
    by_asset: dict[str, list[Times]]


def excluded_between(scenario: str, begin: int, end: int) -> Excluded:
    """Return the times that availability leaves out between two times (Unix ms), cut off there."""
    windows = [each for each in between(scenario, begin, end) if each.excluded]
    everywhere = [_cut(each, (0, None), begin, end) for each in windows if each.covers == ALL]
    spans: dict[str, list[Span]] = {}
    for window in windows:
        if window.covers == ALL:
            continue
        for asset, covered in _all_covered(window, scenario):
            span = _cut(window, covered, begin, end)
            if span.begin < span.end:
                spans.setdefault(asset, []).append(span)
    by_asset = {asset: merged((s.begin, s.end) for s in of) for asset, of in spans.items()}
    return Excluded(merged((s.begin, s.end) for s in everywhere), by_asset)


def running(scenario: str, asset: str, at: int) -> list[Window]:
    """Return the windows that cover an asset at a time (Unix ms)."""
    return [span.window for span in windows_of(scenario, [asset], at, at + 1).get(asset, ())]


def _all_covered(window: Window, scenario: str) -> Iterable[tuple[str, Covered]]:
    """Yield the assets that a window covers which is not over all, and from when to when."""
    if window.covers == FILTER and window.begun_at is None:
        rows = covered_by_filter(window, scenarios()[scenario], now_ms())
        return ((asset, (0, None)) for asset in rows.values_list("asset", flat=True).iterator())
    stored = WindowAsset.objects.filter(window=window, scenario=scenario).iterator()
    return ((row.asset, (row.begin, row.end)) for row in stored)


def _covered(window: Window, scenario: str, assets: list[str]) -> Iterable[tuple[str, Covered]]:
    """Yield those of some assets that a window covers, and from when to when, as `WindowAsset`."""
    if window.covers == ALL:
        return ((asset, (0, None)) for asset in assets)
    if window.covers == FILTER and window.begun_at is None:
        rows = covered_by_filter(window, scenarios()[scenario], now_ms())
        names = rows.filter(asset__in=listed(assets)).values_list("asset", flat=True)
        return ((asset, (0, None)) for asset in names)
    stored = WindowAsset.objects.filter(window=window, scenario=scenario, asset__in=listed(assets))
    return ((row.asset, (row.begin, row.end)) for row in stored)


def _cut(window: Window, covered: Covered, begin: int, end: int) -> Span:
    first, last = covered
    last = window.end if last is None else min(last, window.end)
    return Span(max(first, window.begin, begin), min(last, end), window)
