"""The operation on invoices: what was sold today."""

# The operation takes the request.
# ruff: noqa: ARG001

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ninja import Schema

from dashboard.api.auth import ApiRequest
from dashboard.api.router import OperationRouter
from dashboard.core.times import now_ms
from dashboard.invoices import figures

router = OperationRouter()


class SalesOut(Schema):
    """Sums of invoices. prime, delivered, returns: how many are of PRIME customers, are delivered,
    and take goods back; revenue: in cents, less what is given back; returned: that, in cents."""

    invoices: int
    lines: int
    revenue: int
    prime: int
    delivered: int
    returns: int
    returned: int


class StoreSalesOut(SalesOut):
    """What a store sold; store: empty for those past the most that are kept."""

    store: str


class ProductSalesOut(Schema):
    """What was sold of a product; revenue: in cents."""

    product: str
    title: str
    pieces: int
    revenue: int


class TodayOut(Schema):
    """What was sold since `begin`, the last midnight in UTC, as of `at`; stores and the ten best
    products with the most revenue first. Times in Unix ms."""

    begin: int
    at: int
    total: SalesOut
    points: int
    stores: list[StoreSalesOut]
    products: list[ProductSalesOut]


@router.operation("GET invoices/today", TodayOut, "read")
def invoices_today(request: ApiRequest) -> Any:
    """What the stores have sold since midnight (UTC): in all, by store, and the best products."""
    today = figures.today(now_ms())
    products = [
        {name: getattr(row, name) for name in ProductSalesOut.model_fields}
        for row in today.products
    ]
    return {
        "begin": today.begin,
        "at": today.at,
        "total": asdict(today.total),
        "points": today.points,
        "stores": [{"store": each.store, **asdict(each.sales)} for each in today.stores],
        "products": products,
    }
