"""The page of today's invoices, and the figures of its charts."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dashboard.core.access import role_required
from dashboard.core.pages import render_page
from dashboard.core.times import now_ms
from dashboard.invoices import figures

SPANS = ("day",)
"""How far back the charts can go."""


@require_safe
@never_cache
@role_required("read")
def invoices(request: HttpRequest) -> HttpResponse:
    """Return the page; for a script, the part that refreshes itself."""
    now = now_ms()
    context = {
        "now": now,
        "address": request.get_full_path(),
        "today": figures.today(now),
        "stores_table": figures.STORES,
        "products_table": figures.PRODUCTS,
        "spans": SPANS,
    }
    return render_page(request, "invoices/invoices", context)


@require_safe
@never_cache
@role_required("read")
def hourly(request: HttpRequest) -> JsonResponse:
    """Return the last 24 hours as JSON, for the charts. Raises Http404 for another span."""
    if request.GET.get("span", "day") not in SPANS:
        raise Http404
    return JsonResponse(figures.hourly(now_ms()))
