"""The page that asks each way where an order is."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dashboard.core.access import role_required
from dashboard.core.pages import render_page
from dashboard.core.scenarios import scenario_or_404
from dashboard.core.times import now_ms
from dashboard.orders import comparison
from dashboard.orders.forms import WhereForm
from stores.base import SCENARIO


@require_safe
@never_cache
@role_required("read")
def where(request: HttpRequest) -> HttpResponse:
    """Return the page. Raises Http404 where no orders are watched."""
    scenario, form = scenario_or_404(SCENARIO), WhereForm(request.GET)
    valid = form.is_valid()
    order = form.cleaned_data["order"] if valid else ""
    context = {
        "now": now_ms(),
        "scenario": scenario,
        "form": form,
        "valid": valid,
        "order": order,
        "one": comparison.one_by_each(order) if order else [],
        "all": comparison.all_by_each() if valid else [],
        "servers": comparison.servers_alone() if valid else [],
        "unproved": comparison.unproved() if valid else (),
        "one_table": comparison.ONE,
        "all_table": comparison.ALL,
        "servers_table": comparison.SERVERS,
        "looked_at": comparison.LOOKED_AT,
        "address": request.get_full_path(),
    }
    return render_page(request, "orders/where", context, status=200 if valid else 422)
