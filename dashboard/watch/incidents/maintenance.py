"""Maintenance windows: which assets they cover and when, planned and ended by people."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

import structlog
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet
from django.dispatch import Signal

from dashboard.core.common.access import Limit
from dashboard.core.common.extension_point import Provider
from dashboard.core.common.retention import delete_in_portions
from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.sql import STATEMENT, chunks
from dashboard.core.common.times import DAY_MS, SECOND_MS, now_ms
from dashboard.core.states.filter_parser import FilterError, parse
from dashboard.core.states.filter_terms import WORD, Filter
from dashboard.core.states.models import AssetState
from dashboard.core.states.queries import listed
from dashboard.watch.annotations.models import Mark
from dashboard.watch.annotations.row_marks import Work, changing
from dashboard.watch.incidents.models import ALL, FILTER, LISTED, Window, WindowAsset
from domain.history.runs import merged
from domain.scenario import Scenario

# ---- selection -----------------------------------------------------------------------------------
# Which assets a window's filter finds: by names and labels, never by what state they are in.


def _nothing(wanted: Filter, scenario: Scenario, now: int) -> QuerySet[AssetState]:  # noqa: ARG001
    return AssetState.objects.none()


filter_rows = Provider(_nothing)
"""Returns the visible assets of a scenario that a filter finds at a time (Unix ms)."""


def read_filter(text: str, scenario: Scenario, now: int) -> Filter:
    """Return a window's filter. now: Unix ms. Raises FilterError."""
    wanted = parse(text, scenario, now)
    if not wanted.terms:
        raise FilterError("expected a name or a label, such as site:berlin", 0, 0)
    for term in wanted.terms:
        if term.own and term.key not in (WORD, "name"):
            at = text.lower().find(f"{term.key}:")
            message = f"a window covers assets by name and label; {term.key}: is neither"
            raise FilterError(message, max(at, 0), max(at, 0) + len(term.key))
    return wanted


def covered_by_filter(window: Window, scenario: Scenario, now: int) -> QuerySet[AssetState]:
    """Return the visible assets of a scenario that a window's filter finds at `now` (Unix ms)."""
    try:
        wanted = read_filter(window.filter, scenario, now)
    except FilterError:  # it was written for another file of scenarios
        return AssetState.objects.none()
    return filter_rows(wanted, scenario, now)


# ---- windows -------------------------------------------------------------------------------------
# When assets are in a maintenance window. Times in Unix ms.

windows_changed = Signal()
"""Sent with `scenario`, `begin` and `end` (Unix ms) in the transaction in which windows, or what
they cover, change between these times; also when a window begins, and when it ends."""


Times = tuple[int, int]
Covered = tuple[int, int | None]
"""From when to when a window covers an asset, as `WindowAsset` has it."""


class WindowSpan(NamedTuple):
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
) -> dict[str, list[WindowSpan]]:
    """Return when which windows cover these assets between two times (Unix ms), cut off there.

    Assets that none covers are left out; each list is in order of `begin`. A window that has not
    begun covers what its filter finds now.
    """
    windows = between(scenario, begin, end) if assets else []
    spans: dict[str, list[WindowSpan]] = {}
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
    spans: dict[str, list[WindowSpan]] = {}
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


def _cut(window: Window, covered: Covered, begin: int, end: int) -> WindowSpan:
    first, last = covered
    last = window.end if last is None else min(last, window.end)
    return WindowSpan(max(first, window.begin, begin), min(last, end), window)


# ---- maintenance ---------------------------------------------------------------------------------
# Windows planned, changed, ended and cancelled by people. Times in Unix ms.
#
# The worker does what follows from it: see the section on coverage.

MOST_ASSETS = 900
"""Most assets that a window lists."""
MOST_OPEN = 500
"""Most windows that are planned or run at a time."""
LONGEST_MS = 31 * DAY_MS
"""Longest window."""
FURTHEST_MS = 366 * DAY_MS
"""How far ahead a window may begin."""
BACK_MS = 31 * DAY_MS
"""How long ago a window may have begun that nobody had planned."""
LIMIT = Limit("maintenance", 60)


class WindowRefused(ValueError):
    """A change that is refused; says why."""


class WindowPlan(NamedTuple):
    """A window as somebody wants it; the fields as those of `Window`. assets: those listed."""

    scenario: str
    name: str
    why: str
    covers: str
    filter: str
    assets: tuple[str, ...]
    begin: int
    end: int
    excluded: bool
    held: bool

    def columns(self) -> dict[str, Any]:
        """Return the values of a window's columns."""
        named = self._asdict()
        del named["assets"]
        return named | {"planned_end": self.end}


@transaction.atomic
def plan_window(plan: WindowPlan, user: User, now: int) -> Window:
    """Store a new window. Returns it. Raises NotNow where there are too many, TooMany."""
    LIMIT.take(user.pk, now)
    if Window.objects.filter(end__gt=now, cancelled_at=None).count() >= MOST_OPEN:
        raise WindowRefused(f"{MOST_OPEN} windows are planned or run already: cancel some first.")
    window = Window.objects.create(
        **plan.columns(), user=user, username=user.get_username(), created_at=now
    )
    _list(window, plan)
    announce(window, plan.begin, plan.end)
    return window


@transaction.atomic
def change_window(window: Window, plan: WindowPlan, user: User, now: int) -> None:
    """Store a planned window anew. Raises NotNow where it is not as `window` has it, TooMany."""
    LIMIT.take(user.pk, now)
    planned = Window.objects.filter(
        pk=window.pk, revision=window.revision, cancelled_at=None, begun_at=None, begin__gt=now
    )
    if not planned.update(**plan.columns(), revision=F("revision") + 1):
        raise WindowRefused("It has begun, or somebody has changed it meanwhile. Look at it again.")
    window.assets.all().delete()
    begin, end = min(window.begin, plan.begin), max(window.end, plan.end)
    announce(window, begin, end)
    window.refresh_from_db()
    _list(window, plan)
    announce(window, begin, end)


@transaction.atomic
def end_window(window: Window, user: User, now: int) -> None:
    """End a running window now. Raises NotNow where it does not run, TooMany."""
    LIMIT.take(user.pk, now)
    runs = Window.objects.filter(pk=window.pk, begin__lt=now, end__gt=now, cancelled_at=None)
    if not runs.update(end=now, ended_by=user.get_username(), revision=F("revision") + 1):
        raise WindowRefused("It does not run.")
    announce(window, now, window.end)
    window.refresh_from_db()


@transaction.atomic
def cancel_window(window: Window, user: User, now: int) -> None:
    """Cancel a window: it counts as if it had never been. Raises NotNow where it is, TooMany."""
    LIMIT.take(user.pk, now)
    row = Window.objects.filter(pk=window.pk, cancelled_at=None)
    name = user.get_username()
    if not row.update(cancelled_at=now, cancelled_by=name, revision=F("revision") + 1):
        raise WindowRefused("It is cancelled already.")
    announce(window, window.begin, window.end)
    window.refresh_from_db()


def announce(window: Window, begin: int, end: int) -> None:
    """Say of each scenario of a window that something changes between two times (Unix ms)."""
    for scenario in [window.scenario] if window.scenario else scenarios():
        windows_changed.send(None, scenario=scenario, begin=begin, end=end)


def _list(window: Window, plan: WindowPlan) -> None:
    """Store the assets that a plan lists."""
    if plan.covers == LISTED:
        WindowAsset.objects.bulk_create(
            WindowAsset(window=window, scenario=plan.scenario, asset=asset) for asset in plan.assets
        )


# ---- coverage ------------------------------------------------------------------------------------
# What follows from a window's beginning and end: its assets are stored, boards mark their rows.
#
# Each step may be cut short and done again. Times in Unix ms.

log = structlog.get_logger(__name__)

FOLLOWED_MS = 30 * SECOND_MS
"""How often it is looked which assets a running window covers."""
MOST_COVERED = 200_000
"""Most assets that are stored of a window with a filter."""
MOST_MARKED = 20_000
"""Most rows of a board that a window marks; a page says that it covers more."""


def keep(now: int) -> int:
    """Do what is due at `now`: begin, follow and close windows. Returns how many there were."""
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
    """Return which of these assets are in a window at `now`, and in which; of several, in the one
    that ends last."""
    return {
        asset: max(
            (Work(s.window.name, s.window.end, s.window.pk) for s in spans), key=lambda w: w.until
        )
        for asset, spans in windows_of(scenario, assets, now, now + 1).items()
    }


def _begin(window: Window, now: int) -> None:
    """Store the assets of a window that begins, and mark them."""
    if window.covers == FILTER:
        delete_in_portions(window.assets.all())  # of an attempt that was cut short
        for scenario in of_window(window):
            _store(window, scenario, covered_by_filter(window, scenario, now), 0)
    with transaction.atomic():
        Window.objects.filter(pk=window.pk).update(begun_at=now, looked_at=now)
        announce(window, window.begin, window.end)
    if now < window.end:
        _mark_new(window, now)
    log.info("a maintenance window has begun", window=window.pk, name=window.name)


def _follow(window: Window, now: int) -> None:
    """Store which assets a running window covers from now on, and which no more; mark them."""
    if window.covers == FILTER:
        for scenario in of_window(window):
            _follow_filter(window, scenario, now)
    _mark_new(window, now)
    Window.objects.filter(pk=window.pk).update(looked_at=now)


def _follow_filter(window: Window, scenario: Scenario, now: int) -> None:
    held = window.assets.filter(scenario=scenario.name, end=None)
    matching = covered_by_filter(window, scenario, now)
    same = Q(asset=OuterRef("asset"))
    gone = list(held.exclude(Exists(matching.filter(same))).values_list("asset", flat=True))
    for assets in chunks(gone, STATEMENT):
        held.filter(asset__in=assets).update(end=now)
        _renew(scenario.name, assets, now)
    come = _store(window, scenario, matching.exclude(Exists(held.filter(same))), now)
    if gone or come:
        with transaction.atomic():
            announce(window, now, window.end)


def _store(window: Window, scenario: Scenario, rows: QuerySet[AssetState], begin: int) -> int:
    """Store that a window covers assets from `begin` on. Returns how many."""
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
    """Take the marks of a window away that is over."""
    marked = Mark.objects.filter(work_window=window.pk)
    for scenario in of_window(window):
        names = list(marked.filter(scenario=scenario.name).values_list("asset", flat=True))
        for assets in chunks(names, STATEMENT):
            _renew(scenario.name, assets, now)
    with transaction.atomic():
        Window.objects.filter(pk=window.pk).update(closed_at=now)
        announce(window, window.begin, window.end)
    log.info("a maintenance window is over", window=window.pk, name=window.name)


def _mark_new(window: Window, now: int) -> None:
    """Mark the rows of a window's assets that are not marked yet."""
    for scenario in of_window(window):
        marks = Mark.objects.filter(scenario=scenario.name, work_until__gte=window.end)
        left = MOST_MARKED - marks.filter(work_window=window.pk).count()
        fresh = _coverage_covered(window, scenario).exclude(
            Exists(marks.filter(asset=OuterRef("asset"), work_until__gt=now))
        )
        names = fresh.values_list("asset", flat=True)[: max(0, left)]
        for assets in chunks(list(names), STATEMENT):
            _renew(scenario.name, assets, now)


def _coverage_covered(window: Window, scenario: Scenario) -> QuerySet[AssetState]:
    """Return the visible assets of a scenario that a window covers now."""
    rows = AssetState.objects.filter(scenario=scenario.name, purged=False).order_by()
    if window.covers == ALL:
        return rows
    stored = WindowAsset.objects.filter(window=window, scenario=scenario.name, end=None)
    return rows.filter(Exists(stored.filter(asset=OuterRef("asset"))))


def _renew(scenario: str, assets: Iterable[str], now: int) -> None:
    """Write the marks of assets anew, and send them to every board."""
    with changing(scenario, now) as changed:
        changed.extend(assets)


def of_window(window: Window) -> list[Scenario]:
    """Return the scenarios that a window is about."""
    known = scenarios()
    if not window.scenario:
        return list(known.values())
    return [known[window.scenario]] if window.scenario in known else []
