"""What was sold today and in the last 24 hours, and its page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet, Sum
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dashboard.core.common.access import role_required
from dashboard.core.common.navigation import render_page
from dashboard.core.common.tables import Column, Table
from dashboard.core.common.times import DAY_MS, HOUR_MS, now_ms
from dashboard.retail.models import PointsHour, ProductDay, StoreHour

# ---- figures -------------------------------------------------------------------------------------
# What was sold today and in the last 24 hours. Times in Unix ms, money in cents.

HOURS = 24
"""Of the chart."""
TOP = 10
"""Products that the page lists."""
CURRENCY = "EUR"
"""Of all amounts: records have no other."""
SUMS = ("invoices", "lines", "revenue", "prime", "delivered", "returns", "returned")
STORES = Table(
    "stores", "Store", Column.number("Invoices"), Column.number("Lines"), Column.number("Revenue"),
    Column.number("PRIME", "invoices of PRIME customers"),
    Column.number("Delivered", "sales that are delivered to the customer’s home"),
    Column.number("Returns", "invoices that take goods back"), narrow=True,
)  # fmt: skip
PRODUCTS = Table(
    "products", "Product", "Title", Column.number("Pieces"), Column.number("Revenue"), narrow=True
)


@dataclass(frozen=True, slots=True)
class Sales:
    """Sums of invoices. prime, delivered, returns: how many are of PRIME customers, are delivered,
    and take goods back; revenue: less what is given back; returned: that."""

    invoices: int = 0
    lines: int = 0
    revenue: int = 0
    prime: int = 0
    delivered: int = 0
    returns: int = 0
    returned: int = 0

    @property
    def prime_share(self) -> float | None:
        """Return the share of PRIME customers' invoices, None without any invoice."""
        return self.prime / self.invoices if self.invoices else None

    @property
    def delivered_share(self) -> float | None:
        """Return the share of sales that are delivered, None without any sale."""
        sales = self.invoices - self.returns
        return self.delivered / sales if sales else None


@dataclass(frozen=True, slots=True)
class StoreSales:
    """What a store sold; store: empty for those past the most that are kept."""

    store: str
    sales: Sales


@dataclass(frozen=True, slots=True)
class Today:
    """What was sold since `begin`, the last midnight in UTC, as of `at`; stores and products with
    the most revenue first."""

    begin: int
    at: int
    total: Sales
    points: int
    stores: list[StoreSales]
    products: list[ProductDay]


def today(now: int) -> Today:
    """Return what was sold since midnight (UTC)."""
    begin = now - now % DAY_MS
    hours = StoreHour.objects.filter(begin__gte=begin, begin__lt=begin + DAY_MS)
    points = PointsHour.objects.filter(begin__gte=begin, begin__lt=begin + DAY_MS)
    by_store: list[dict[str, Any]] = [
        dict(row) for row in hours.values("store").annotate(**_sums()).order_by("-revenue", "store")
    ]
    total = hours.aggregate(**_sums())
    return Today(
        begin=begin,
        at=now,
        total=Sales(**{name: total[name] or 0 for name in SUMS}),
        points=points.aggregate(points=Sum("points"))["points"] or 0,
        stores=[StoreSales(row.pop("store"), Sales(**row)) for row in by_store],
        products=list(_best(begin)),
    )


def hourly_figures(now: int) -> dict[str, list[Any]]:
    """Return the last hours for the charts, oldest first: a list for each figure, and `at` in s.
    Revenue is in whole units of money."""
    last = now - now % HOUR_MS
    begins = [last - HOUR_MS * back for back in reversed(range(HOURS))]
    rows = StoreHour.objects.filter(begin__gte=begins[0], begin__lte=last).values("begin")
    sold: dict[int, dict[str, Any]] = {row["begin"]: dict(row) for row in rows.annotate(**_sums())}
    points = dict(PointsHour.objects.filter(begin__gte=begins[0]).values_list("begin", "points"))
    return {
        "at": [begin / 1000 for begin in begins],
        "invoices": [sold[begin]["invoices"] if begin in sold else 0 for begin in begins],
        "revenue": [sold[begin]["revenue"] / 100 if begin in sold else 0 for begin in begins],
        "points": [points.get(begin, 0) for begin in begins],
    }


def money(cents: int) -> str:
    """Return an amount with its currency: `1,234.56 EUR`."""
    return f"{cents / 100:,.2f} {CURRENCY}"


def _sums() -> dict[str, Sum]:
    return {name: Sum(name) for name in SUMS}


def _best(begin: int) -> QuerySet[ProductDay]:
    named = ProductDay.objects.filter(begin=begin).exclude(product="")
    return named.order_by("-revenue", "product")[:TOP]


# ---- invoices ------------------------------------------------------------------------------------
# The page of today's invoices, and the figures of its charts.

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
        "today": today(now),
        "stores_table": STORES,
        "products_table": PRODUCTS,
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
    return JsonResponse(hourly_figures(now_ms()))
