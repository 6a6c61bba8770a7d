"""What people did in a period that its figures depend on: overrides and bulk runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from django.db.models import Count, Q, QuerySet

from dashboard.bulk.models import APPLIED, Item, Run
from dashboard.bulk.pins import ENDS_PINS
from dashboard.commands.models import Command
from dashboard.states.queries import listed
from dashboard.summaries.figures import MOST_DEEDS, BulkRun, Override
from domain.history.periods import Span


def overrides(scenarios: Sequence[str], span: Span) -> tuple[Override, ...]:
    """Return the states that were pinned in a time, newest first, MOST_DEEDS of them."""
    rows = _overrides(scenarios, span).order_by("-created_at", "pk")[:MOST_DEEDS]
    columns = ("created_at", "scenario", "asset", "state", "username", "reason", "until")
    pins = [Override(*row) for row in rows.values_list(*columns)]
    return tuple(pin._replace(ended=at) for pin, at in zip(pins, _ends(pins), strict=True))


def _ends(pins: Sequence[Override]) -> Iterator[int | None]:
    """Yield when another command ended each of these pins; None where none did before its end."""
    assets = listed({pin.asset for pin in pins})
    commands = Command.objects.filter(
        kind__in=ENDS_PINS, status="answered", outcome="applied", asset__in=assets
    )
    items = Item.objects.filter(run__kind__in=ENDS_PINS, fate=APPLIED, asset__in=assets)
    ends: dict[tuple[str, str], list[int]] = {}
    for scenario, asset, at in (
        *commands.values_list("scenario", "asset", "created_at"),
        *items.values_list("run__scenario", "asset", "answered_at"),
    ):
        ends.setdefault((scenario, asset), []).append(at or 0)
    for pin in pins:
        later = [at for at in ends.get((pin.scenario, pin.asset), ()) if at > pin.at]
        ended = min(later, default=None)
        yield None if ended is None or (pin.until or ended + 1) <= ended else ended


def overrides_total(scenarios: Sequence[str], span: Span) -> int:
    """Return how many states were pinned in a time."""
    return _overrides(scenarios, span).count()


def runs(scenarios: Sequence[str], span: Span) -> tuple[BulkRun, ...]:
    """Return the bulk runs that were started in a time, newest first, MOST_DEEDS of them."""
    applied = Count("items", filter=Q(items__fate=APPLIED))
    rows = _runs(scenarios, span).annotate(applied=applied).order_by("-started_at", "pk")
    return tuple(
        BulkRun(
            str(run.pk),
            run.started_at or 0,
            run.scenario,
            run.kind,
            run.state,
            run.sender_name,
            run.reason,
            run.matched,
            run.tallies.get(APPLIED, run.applied),
        )
        for run in rows[:MOST_DEEDS]
    )


def runs_total(scenarios: Sequence[str], span: Span) -> int:
    """Return how many bulk runs were started in a time."""
    return _runs(scenarios, span).count()


def _overrides(scenarios: Sequence[str], span: Span) -> QuerySet[Command]:
    return Command.objects.filter(
        scenario__in=scenarios,
        kind="set",
        status="answered",
        outcome="applied",
        created_at__gte=span.begin,
        created_at__lt=span.end,
    )


def _runs(scenarios: Sequence[str], span: Span) -> QuerySet[Run]:
    return Run.objects.filter(
        scenario__in=scenarios, started_at__gte=span.begin, started_at__lt=span.end
    )
