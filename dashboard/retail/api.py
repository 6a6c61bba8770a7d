"""The operations on orders and invoices."""

# ruff: noqa: ARG001, B008

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import msgspec
from django.http import HttpResponse
from ninja import Query, Schema

from dashboard.core.api.problems import Problem, invalid
from dashboard.core.api.router import ApiRequest, OperationRouter, check_asset, known_scenario
from dashboard.core.api.schemas import NO_NUL, fields_of
from dashboard.core.api.store_answers import VIA, AnswerOut, AnswersOut, unavailable
from dashboard.core.common.access import OPERATORS
from dashboard.core.common.times import now_ms
from dashboard.core.states.stores import Via, owner_store, store
from dashboard.retail.views import Sales, today
from domain.names import MAX_NAME
from stores.base import SCENARIO, AssetStore, NotRun, Order, StoreProblem
from stores.envelopes import answer_many, answer_one
from stores.owner_store import LocalStore, ServerHealth
from stores.transformation import ORDERS

# ---- orders --------------------------------------------------------------------------------------
# The operations on orders: the same questions, answered in each of the ways.

# Each operation takes the request, and declares its parameters in its signature.


MAX_PAGE = 1000

router = OperationRouter()


@fields_of(Order)
class OrderOut(Schema):
    """An order and where it is. station: the agent of its latest vote; location: what that vote's
    detail says; active: it is neither delivered nor purged. Times in Unix ms."""


class OrderAnswerOut(AnswerOut):
    """An order by one way."""

    order: OrderOut | None


class OrdersAnswerOut(AnswersOut):
    """Active orders by one way, by name. count: how many are active in all."""

    count: int
    items: list[OrderOut]


@fields_of(ServerHealth)
class StoreOut(Schema):
    """A store server's share of a scenario. partitions: those that it answers for; standby: those
    that it keeps warm for others; records: active assets of its partitions; lag: records that it
    has not read of them; refused: requests at its address, by reason."""


ORDER_OUT = {200: OrderAnswerOut, 307: None}


@router.operation("GET orders", OrdersAnswerOut, "read", 404, 422, 503)
def list_orders(
    request: ApiRequest,
    via: Via = Query("database", description=VIA),
    after: str = Query(
        "", max_length=MAX_NAME, pattern=NO_NUL, description="Only names past this one."
    ),
    limit: int = Query(100, ge=1, le=MAX_PAGE),
    local: bool = Query(False, description="Ask one store server alone: naively."),
) -> Any:
    """Active orders by name, a page at a time, and how many there are."""
    known_scenario(SCENARIO)
    try:
        chosen = _chosen(via, local)
        answer = answer_many(ORDERS, via, limit, lambda: chosen.all(after, limit))
    except StoreProblem as problem:
        raise unavailable(problem) from problem
    return msgspec.to_builtins(answer)


@router.operation("GET orders/{asset:order}", ORDER_OUT, "read", 404, 422, 503)
def get_order(
    request: ApiRequest,
    order: str,
    via: Via = Query("database", description=VIA),
    local: bool = Query(False, description="Ask one store server alone: naively."),
    redirect: bool = Query(False, description="Answer where its owner answers, for 10 s."),
) -> Any:
    """One order, a delivered one too until it is purged."""
    known_scenario(SCENARIO)
    check_asset(order, "order")
    try:
        chosen = _chosen(via, local or redirect)
        if redirect:
            return _redirection(owner_store(SCENARIO).redirection(order))
        answer = answer_one(ORDERS, via, lambda: chosen.get(order))
    except StoreProblem as problem:
        raise unavailable(problem) from problem
    if answer.asset is None and answer.complete:
        raise Problem(404, "unknown-order", f"{answer.instance} knows no order {order!r}.")
    return msgspec.to_builtins(answer)


@router.operation("GET stores", list[StoreOut], "read", 404, 503, among=OPERATORS)
def list_stores(
    request: ApiRequest,
    scenario: str = Query(SCENARIO, description="Whose assets they share."),
) -> Any:
    """The store servers: where each answers, what it owns, and what it keeps warm for others."""
    known_scenario(scenario)
    try:
        known = owner_store(scenario).servers()
    except NotRun:
        return []
    except StoreProblem as problem:
        raise unavailable(problem) from problem
    return [msgspec.to_builtins(each) for each in known if isinstance(each, ServerHealth)]


def _chosen(via: Via, of_servers: bool) -> AssetStore | LocalStore:
    """Return the store to query. Raises Problem 422 for what only store servers can do."""
    if not of_servers:
        return store(via, SCENARIO)
    if via != "owner":
        raise invalid("via", "owner, with local or redirect")
    return owner_store(SCENARIO).alone()


def _redirection(url: str) -> HttpResponse:
    """Return a 307 to the same request at that address."""
    return HttpResponse(status=307, headers={"Location": url})


# ---- invoices ------------------------------------------------------------------------------------
# The operation on invoices: what was sold today.

# The operation takes the request.


@fields_of(Sales)
class SalesOut(Schema):
    """Sums of invoices. prime, delivered, returns: how many are of PRIME customers, are delivered,
    and take goods back; revenue: in cents, less what is given back; returned: that, in cents."""


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
    figures = today(now_ms())
    products = [
        {name: getattr(row, name) for name in ProductSalesOut.model_fields}
        for row in figures.products
    ]
    return {
        "begin": figures.begin,
        "at": figures.at,
        "total": figures.total,
        "points": figures.points,
        "stores": [{"store": each.store, **asdict(each.sales)} for each in figures.stores],
        "products": products,
    }
