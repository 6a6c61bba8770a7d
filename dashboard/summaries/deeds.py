"""What people did in a period that its figures depend on: overrides and bulk runs."""

from __future__ import annotations

from collections.abc import Sequence

from django.db.models import Count, Q, QuerySet

from dashboard.bulk.models import APPLIED, Run
from dashboard.commands.models import Command
from dashboard.summaries.figures import MOST_DEEDS, BulkRun, Override
from domain.history.periods import Span


def overrides(scenarios: Sequence[str], span: Span) -> tuple[Override, ...]:
    """Return the states that were pinned in a time, newest first, MOST_DEEDS of them."""
    rows = _overrides(scenarios, span).order_by("-created_at", "pk")[:MOST_DEEDS]
    columns = ("created_at", "scenario", "asset", "state", "username", "reason", "until")
    return tuple(Override(*row) for row in rows.values_list(*columns))


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
