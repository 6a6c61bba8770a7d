"""The console's page of partitions."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dashboard.accounts.access import is_fragment, role_required
from dashboard.commands.sending import now_ms
from dashboard.job.partitions import partitions as figures


@require_safe
@never_cache
@role_required("read")
def partitions(request: HttpRequest) -> HttpResponse:
    """Every source partition; to a script, the part of the page that renews itself."""
    now = now_ms()
    told, rows = figures(now)
    context = {"fault": told.fault, "rows": rows, "now": now, "address": request.get_full_path()}
    name = "_partitions" if is_fragment(request) else "partitions"
    return render(request, f"job/{name}.html", context)
