"""The pages that compare the ways to find orders, and that show what the stores sold today."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from django import forms
from django.db.models import QuerySet, Sum
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dashboard.core.common.access import role_required, takes
from dashboard.core.common.forms import FilterForm
from dashboard.core.common.navigation import render_page
from dashboard.core.common.scenarios import scenario_or_404
from dashboard.core.common.tables import Column, Table
from dashboard.core.common.times import DAY_MS, HOUR_MS, now_ms
from dashboard.core.states.stores import VIAS, Via, owner_store, store
from dashboard.retail.models import PointsHour, ProductDay, StoreHour
from domain.names import MAX_NAME, name_ok
from stores.base import SCENARIO, KeptAsset, Many, One, StoreProblem, Unreachable
from stores.envelopes import AssetAnswer, AssetsAnswer, answer_many, answer_one
from stores.owner_store import ServerHealth
from stores.transformation import ORDERS

# ---- orders --------------------------------------------------------------------------------------
# The form that asks for an order.


class WhereForm(FilterForm):
    """The order to look for; empty for none."""

    order = forms.CharField(required=False, max_length=MAX_NAME, label="Order")

    def clean_order(self) -> str:
        """Return the name. Raises ValidationError if no order can have it."""
        order: str = self.cleaned_data["order"]
        if order and not name_ok(order):
            raise forms.ValidationError("Expected a name without control characters.")
        return order


# ---- comparison ----------------------------------------------------------------------------------
# The ways side by side: what each answers, and what each server alone would leave out.

LOOKED_AT = 1000
"""How many active orders are compared, the first ones by name."""
NAMED = 5
"""How many of the orders that a single server misses are listed."""

TITLES: dict[Via, str] = {
    "global": "Global copy",
    "owner": "Owner",
    "cache": "Cache",
    "database": "Database",
}
ALONE = "One server alone"

ONE = Table(
    "orders-one",
    "Way",
    "State",
    "Station",
    "Location",
    "Version",
    Column.number("Age, s", "since the cause of its record"),
    Column.number("Took, ms", "until the store had answered"),
    "Answered by",
)
ALL = Table(
    "orders-all",
    "Way",
    Column.number("Active orders"),
    Column.number("Took, ms", "until the store had answered"),
    Column("Version", "by partition, the next offset that is not in the answer"),
    "Complete",
    "Answered by",
)
SERVERS = Table(
    "orders-servers",
    "Server",
    "Partitions",
    "Keeps warm",
    Column.number("Active orders"),
    Column.number("Lag", "records that it has not read"),
    "Table",
    Column.number("Misses", f"of the first {LOOKED_AT:,} active orders, where it is asked alone"),
    Column("Such as"),
)


class WayAnswer(NamedTuple):
    """The answer of one way; problem: why there is none."""

    title: str
    answer: AssetAnswer | AssetsAnswer | None
    problem: str = ""


class Alone(NamedTuple):
    """A server, and what it would leave out if it alone were asked.

    names: the first orders that it misses; problem: why it does not answer.
    """

    health: ServerHealth | None
    misses: int | None = None
    names: tuple[str, ...] = ()
    problem: str = ""


def one_by_each(order: str) -> list[WayAnswer]:
    """Return the answer of each way about an order, and a single server's, which may not own it."""
    ways = [_one(TITLES[via], via, partial(store(via, SCENARIO).get, order)) for via in VIAS]
    return [*ways, _one(ALONE, "owner", lambda: owner_store(SCENARIO).alone().get(order))]


def all_by_each() -> list[WayAnswer]:
    """Return the answer of each way about all active orders, and that of a single server."""
    ways = [
        _all(TITLES[via], via, partial(store(via, SCENARIO).all, limit=LOOKED_AT)) for via in VIAS
    ]
    return [*ways, _all(ALONE, "owner", lambda: owner_store(SCENARIO).alone().all(limit=LOOKED_AT))]


def servers_alone() -> list[Alone]:
    """Return the store servers, each with what it alone would leave out; empty if none runs."""
    try:
        known = owner_store(SCENARIO).servers()
        everything = _names(owner_store(SCENARIO).all(limit=LOOKED_AT).assets)
    except StoreProblem:
        return []
    return [_alone(each, everything) for each in known]


def unproved() -> tuple[str, ...]:
    """Return the members of the servers' group that have not proved to be servers, as last read."""
    try:
        return owner_store(SCENARIO).directory.unproved()
    except StoreProblem:
        return ()


def _alone(server: ServerHealth | Unreachable, everything: list[str]) -> Alone:
    if isinstance(server, Unreachable):
        return Alone(None, problem=str(server))
    try:
        orders = owner_store(SCENARIO).alone(server.address).all(limit=LOOKED_AT).assets
    except StoreProblem as problem:
        return Alone(server, problem=str(problem))
    own = set(_names(orders))
    missing = [name for name in everything if name not in own]
    return Alone(server, len(missing), tuple(missing[:NAMED]))


def _names(orders: Sequence[KeptAsset]) -> list[str]:
    return [order.name for order in orders]


def _one(title: str, via: Via, ask: Callable[[], One]) -> WayAnswer:
    try:
        return WayAnswer(title, answer_one(ORDERS, via, ask))
    except StoreProblem as problem:
        return WayAnswer(title, None, str(problem))


def _all(title: str, via: Via, ask: Callable[[], Many]) -> WayAnswer:
    try:
        return WayAnswer(title, answer_many(ORDERS, via, LOOKED_AT, ask))
    except StoreProblem as problem:
        return WayAnswer(title, None, str(problem))


# ---- orders --------------------------------------------------------------------------------------
# The page that asks for an order in each way.


@require_safe
@never_cache
@role_required("read")
@takes(*WhereForm.parameters())
def where(request: HttpRequest) -> HttpResponse:
    """Show the page. Raises Http404 if no orders are watched."""
    scenario, form = scenario_or_404(SCENARIO), WhereForm(request.GET)
    valid = form.is_valid()
    order = form.cleaned_data["order"] if valid else ""
    context = {
        "now": now_ms(),
        "scenario": scenario,
        "form": form,
        "valid": valid,
        "order": order,
        "one": one_by_each(order) if order else [],
        "all": all_by_each() if valid else [],
        "servers": servers_alone() if valid else [],
        "unproved": unproved() if valid else (),
        "one_table": ONE,
        "all_table": ALL,
        "servers_table": SERVERS,
        "looked_at": LOOKED_AT,
        "address": request.get_full_path(),
    }
    return render_page(request, "retail/orders/where", context, status=200 if valid else 422)


# ---- figures -------------------------------------------------------------------------------------
# What was sold today and in the last 24 hours. Times in Unix ms, money in cents.

HOURS = 24
"""The hours in the charts."""
TOP = 10
"""Products on the page."""
CURRENCY = "EUR"
"""The currency of all amounts: records do not have any other."""
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
    and take goods back; revenue: net of refunds, cents; returned: the refunds, cents."""

    invoices: int = 0
    lines: int = 0
    revenue: int = 0
    prime: int = 0
    delivered: int = 0
    returns: int = 0
    returned: int = 0

    @property
    def prime_share(self) -> float | None:
        """Return the share of PRIME customers' invoices, None without invoices."""
        return self.prime / self.invoices if self.invoices else None

    @property
    def delivered_share(self) -> float | None:
        """Return the share of sales that are delivered, None without sales."""
        sales = self.invoices - self.returns
        return self.delivered / sales if sales else None


@dataclass(frozen=True, slots=True)
class StoreSales:
    """What a store sold; store: empty for stores beyond the most kept."""

    store: str
    sales: Sales


@dataclass(frozen=True, slots=True)
class Today:
    """What was sold from `begin`, the last midnight in UTC, until `at`; stores and products with
    the most revenue first."""

    begin: int
    at: int
    total: Sales
    points: int
    stores: list[StoreSales]
    products: list[ProductDay]


def today(now: int) -> Today:
    """Return what was sold since midnight (UTC). now: Unix ms."""
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
    """Return the last 24 hours for the charts, oldest first: a list for each figure, and `at`, Unix
    s. Revenue is in units of the currency. now: Unix ms."""
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
# The page of today's invoices, and the data of its charts.

SPANS = ("day",)
"""The time spans that the charts can show."""


@require_safe
@never_cache
@role_required("read")
def invoices(request: HttpRequest) -> HttpResponse:
    """Show the page; for a script, the part that refreshes itself."""
    now = now_ms()
    context = {
        "now": now,
        "address": request.get_full_path(),
        "today": today(now),
        "stores_table": STORES,
        "products_table": PRODUCTS,
        "spans": SPANS,
    }
    return render_page(request, "retail/invoices/invoices", context)


@require_safe
@never_cache
@role_required("read")
@takes("span")
def hourly(request: HttpRequest) -> JsonResponse:
    """Return the last 24 hours as JSON, for the charts. Raises Http404 for another span."""
    if request.GET.get("span", "day") not in SPANS:
        raise Http404
    return JsonResponse(hourly_figures(now_ms()))
