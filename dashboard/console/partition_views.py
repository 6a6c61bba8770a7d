"""The console's page of partitions, with the look-up of an asset's name."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dashboard.console.asset_lookup import KeyForm, look_up
from dashboard.console.partitions import (
    PARTITIONS,
    SHARED_MS,
    SINKS,
    Edges,
    Partition,
    logs,
    rows,
    sinks,
)
from dashboard.console.totals import counted, totals
from dashboard.core.access import is_fragment, role_required
from dashboard.core.kafka_gateway import gateway
from dashboard.core.roles import OPERATORS
from dashboard.core.scenarios import scenarios
from dashboard.core.times import now_ms
from dashboard.job.freshness import Trouble, trouble
from dashboard.job.status import troubles


@require_safe
@never_cache
@role_required("read", OPERATORS)
def partitions(request: HttpRequest) -> HttpResponse:
    """List every partition; for a script, the part of the page that refreshes itself."""
    told = logs(gateway()).edges(SHARED_MS)
    now = now_ms()
    found = rows(told, now)
    key = _key(request, found)
    context = key | {
        "now": now,
        "troubles": _troubles(told, now),
        "partitions": PARTITIONS,
        "rows": found,
        "sink_table": SINKS,
        "sinks": sinks(told),
        "totals": totals(scenarios().values(), found),
        "signs": counted(found),
    }
    name = "_partitions" if is_fragment(request) else "partitions"
    status = 422 if key["form"].errors else 200
    return render(request, f"console/{name}.html", context, status=status)


def _key(request: HttpRequest, among: list[Partition]) -> dict[str, Any]:
    """Return the look-up's form, what it found, and the address to ask for again.

    What is not a valid name is not asked for again.
    """
    asked = request.GET if "asset" in request.GET else None
    form = KeyForm(asked, request.GET.get("scenario", ""))
    told = {"form": form}
    if not form.is_valid():
        return told | {"way": None, "address": request.path}
    wanted = form.cleaned_data
    way = look_up(scenarios()[wanted["scenario"]], wanted["asset"], among)
    return told | {"way": way, "address": request.get_full_path()}


def _troubles(told: Edges, now: int) -> list[Trouble]:
    """Return what keeps these figures from being those of now, Kafka first."""
    found = troubles(now)
    return [_away(told), *found] if told.fault else found


def _away(told: Edges) -> Trouble:
    todo = "check that the broker runs" if not told.refused else told.fault
    known = "as of then" if told.at is not None else "not known"
    what = "Kafka refuses this server" if told.refused else "Kafka does not answer"
    return trouble("kafka", what, told.at, f"Ends of logs and lags are {known}: {todo}.", links=())
