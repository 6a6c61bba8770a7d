"""What follows when a maintenance window begins or ends: assets are stored, board rows marked.

Each step may be cut short and run again. Times in Unix ms.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import structlog
from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet

from dashboard.core.common.retention import delete_in_portions
from dashboard.core.common.sql import STATEMENT, chunks
from dashboard.core.common.times import SECOND_MS
from dashboard.core.states.models import AssetState
from dashboard.watch.annotations.models import Mark
from dashboard.watch.annotations.row_marks import Work, changing
from dashboard.watch.incidents.models import FILTER, Window, WindowAsset
from domain.scenario import Scenario

log = structlog.get_logger(__name__)

FOLLOWED_MS = 30 * SECOND_MS
"""How often to check which assets a running window covers."""
MOST_COVERED = 200_000
"""Most assets that are stored for a window with a filter."""
MOST_MARKED = 20_000
"""Most board rows that a window marks; a page says when it covers more."""


def keep(now: int) -> int:
    """Do what is due at `now`: begin, follow and close windows. Returns how many were processed."""
    live = Window.objects.filter(closed_at=None)
    due = list(live.filter(begun_at=None, cancelled_at=None, begin__lte=now))
    for window in due:
        _begin(window, now)
    over = list(live.filter(Q(end__lte=now) | Q(cancelled_at__isnull=False)))
    for window in over:
        _close(window, now)
    running = list(live.filter(cancelled_at=None, looked_at__lte=now - FOLLOWED_MS))
    for window in running:
        _follow(window, now)
    return len(due) + len(over) + len(running)


def work_of(scenario: str, assets: Collection[str], now: int) -> Mapping[str, Work]:
    """Return the windows that these assets are in at `now`; of several, the one that ends last."""
    return {
        asset: max(
            (Work(s.window.name, s.window.end, s.window.pk) for s in spans), key=lambda w: w.until
        )
        for asset, spans in Window.objects.covering(scenario, assets, now, now + 1).items()
    }


def _begin(window: Window, now: int) -> None:
    """Store the assets of a window that begins, and mark them."""
    if window.covers == FILTER:
        delete_in_portions(window.assets.all())  # left by an attempt that was cut short
        for scenario in window.configured_scenarios:
            _store(window, scenario, window.matching(scenario, now), 0)
    with transaction.atomic():
        Window.objects.filter(pk=window.pk).update(begun_at=now, looked_at=now)
        window.announce(window.begin, window.end)
    if now < window.end:
        _mark_new(window, now)
    log.info("a maintenance window has begun", window=window.pk, name=window.name)


def _follow(window: Window, now: int) -> None:
    """Store which assets a running window now covers and which it no longer covers; mark them."""
    if window.covers == FILTER:
        for scenario in window.configured_scenarios:
            _follow_filter(window, scenario, now)
    _mark_new(window, now)
    Window.objects.filter(pk=window.pk).update(looked_at=now)


def _follow_filter(window: Window, scenario: Scenario, now: int) -> None:
    held = window.assets.filter(scenario=scenario.name, end=None)
    matching = window.matching(scenario, now)
    same = Q(asset=OuterRef("asset"))
    gone = list(held.exclude(Exists(matching.filter(same))).values_list("asset", flat=True))
    for assets in chunks(gone, STATEMENT):
        held.filter(asset__in=assets).update(end=now)
        _renew(scenario.name, assets, now)
    come = _store(window, scenario, matching.exclude(Exists(held.filter(same))), now)
    if gone or come:
        with transaction.atomic():
            window.announce(now, window.end)


def _store(window: Window, scenario: Scenario, rows: QuerySet[AssetState], begin: int) -> int:
    """Store that a window covers these assets from `begin` on. Returns how many."""
    left = max(0, MOST_COVERED - window.assets.count())
    names = list(rows.values_list("asset", flat=True)[:left])
    for assets in chunks(names, STATEMENT):
        WindowAsset.objects.bulk_create(
            (
                WindowAsset(window=window, scenario=scenario.name, asset=asset, begin=begin)
                for asset in assets
            ),
            ignore_conflicts=True,
        )
    return len(names)


def _close(window: Window, now: int) -> None:
    """Remove the marks of a window that has ended."""
    marked = Mark.objects.filter(work_window=window.pk)
    for scenario in window.configured_scenarios:
        names = list(marked.filter(scenario=scenario.name).values_list("asset", flat=True))
        for assets in chunks(names, STATEMENT):
            _renew(scenario.name, assets, now)
    with transaction.atomic():
        Window.objects.filter(pk=window.pk).update(closed_at=now)
        window.announce(window.begin, window.end)
    log.info("a maintenance window is over", window=window.pk, name=window.name)


def _mark_new(window: Window, now: int) -> None:
    """Mark those rows of a window's assets that are not marked yet."""
    for scenario in window.configured_scenarios:
        marks = Mark.objects.filter(scenario=scenario.name, work_until__gte=window.end)
        left = MOST_MARKED - marks.filter(work_window=window.pk).count()
        fresh = window.on_board(scenario).exclude(
            Exists(marks.filter(asset=OuterRef("asset"), work_until__gt=now))
        )
        names = fresh.values_list("asset", flat=True)[: max(0, left)]
        for assets in chunks(list(names), STATEMENT):
            _renew(scenario.name, assets, now)


def _renew(scenario: str, assets: Iterable[str], now: int) -> None:
    """Rewrite the marks of assets, and send them to every board."""
    with changing(scenario, now) as changed:
        changed.extend(assets)
